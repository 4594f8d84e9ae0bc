"""A run from end to end: phases around the script, its streams, its ending, its record."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import pytest

from tests.running import Place

GIVE = "from voir import give\n"
GIVES = f"{GIVE}for i in (3, 1, 2): give(x=i)\n"
TRAIN = "def train():\n    loss = 1\n    return loss\ntrain()\n"
INIT = "yield ov.phases.init\n"
GIVEN = f"{INIT}ov.given"


class Case(NamedTuple):
    """A script, the body of an instrument, a command line; and what comes of it.

    Attributes:
        out: What is on stdout.
        err: What is on stderr, in this order; ``RUN`` is the run's directory.
        x: Every ``x`` that was recorded; None: nothing is recorded.
        record: What ``run.json`` holds among others.
    """

    script: str
    instrument: str = ""
    argv: str = "main.py"
    status: int = 0
    out: str = ""
    err: tuple[str, ...] = ()
    x: list[Any] | None = None
    record: dict[str, Any] = {}  # noqa: RUF012


#: By how a script ends: its status, and the summary; reductions come before, then ``finalize``.
ENDINGS = {
    "by itself": ("", 0, "finished"),
    "by sys.exit()": ("import sys; sys.exit()", 0, "finished"),
    "by sys.exit(3)": ("import sys; sys.exit(3)", 3, "exit status 3"),
    "by an exception": ("raise RuntimeError('no')", 1, "RuntimeError: no"),
    "by SIGTERM": ("import os; os.kill(os.getpid(), 15)", -15, "killed by SIGTERM"),
    "by Ctrl-C": ("import os; os.kill(os.getpid(), 2)", -2, "interrupted"),
}
REDUCES = (
    f'{GIVEN}["?x"].min().subscribe(lambda x: ov.stderr.write(f"least: {{x}}\\n"))\n'
    'yield ov.phases.finalize\nov.stderr.write("finalized\\n")\n'
)
PHASES = "init ended", "parse_args ended", "load_script ended", "top-level code", "run_script ended"
SILENT = f"{INIT}ov.probe('//train > los').give()"
CASES = {
    **{f"it ends {how}": Case(
        GIVES + body, REDUCES, status=status, err=("least: 1", "finalized", f"· {said}"),
        x=[3, 1, 2], record={"exit_status": status},
    ) for how, (body, status, said) in ENDINGS.items()},
    "phases end in order around the script": Case(
        'import sys\nsys.stderr.write("top-level code\\n")\n',
        "for phase in ov.phases:\n    yield phase\n    ov.stderr.write(f'{phase.name} ended\\n')",
        "--quiet main.py", err=(*PHASES, "finalize ended")),
    "an instrument gets the value of a function": Case(
        "def job():\n    return [42]\n", "value = yield ov.phases.run_script\n"
        "ov.stderr.write(f'value: {value}\\n')", "-m main:job", err=("value: [42]",)),
    "a module is titled as the user named it": Case(
        GIVES, REDUCES, "-m main", err=("voir: -m main · finished",), x=[3, 1, 2],
        record={"script": "-m main"}),
    "an instrument can catch what ended the script, which ends as it did": Case(
        "raise LookupError('lost')\n", "try:\n    yield ov.phases.run_script\nexcept LookupError:\n"
        "    ov.stderr.write('caught\\n')", status=1, err=("caught",)),
    "an instrument may import what it likes and comes too late when the script has ended": Case(
        TRAIN, "yield ov.phases.run_script\nimport concurrent.futures.thread\n"
        "ov.probe('//train > loss').display()", err=("it was set after the script had ended",)),
    "ov.stop ends the script with 0": Case(
        f"{GIVE}for i in range(9): give(x=i); print(i, flush=True)\n",
        f"{GIVEN}['?x'].subscribe(lambda x: ov.stop(x) if x == 2 else None)", out="0\n1\n",
        err=("stopped early",), x=[0, 1, 2], record={"stopped_early": "ov.stop(2)"}),
    "--stop N lets exactly N steps happen": Case(
        f"{GIVE}for i in range(9): print(i); give(step=True, batch_size=4)\n",
        "", "--stop 5 main.py", 0, "0\n1\n2\n3\n4\n", ("stopped early",), [],
        {"stopped_early": "after 5 steps"}),
    "ov.abort fails the run with its error": Case(
        f"{GIVE}give(x=1)\nprint('unreached')\n",
        f"{INIT}ov.listen(lambda e: ov.abort(ArithmeticError('it is NaN')), 'x')",
        status=1, err=("ArithmeticError: it is NaN",), x=[1],
        record={"exit_status": 1, "error": "ArithmeticError: it is NaN"}),
    "fail on a stream fails the script": Case(
        "from giving import give\ngive(x=1)\nprint('unreached')\n",
        f"{GIVEN}.where('x').fail('x came')", status=1, err=("Failure",), x=[1]),
    "fail at the end of a stream fails the run": Case(
        GIVES, f'{GIVEN}["?x"].min().filter(lambda x: x < 2).fail("too low: {{}}")',
        status=1, err=("Failure",), x=[3, 1, 2], record={"exit_status": 1}),
    "fail_if_empty fails the run": Case(
        "", f'{GIVEN}["?y"].fail_if_empty("nothing came")', status=1, err=("Failure",)),
    "what is printed reaches stdout because the user asked": Case(
        GIVES, f"{GIVEN}['?x'].print('x is {{}}')", out="x is 3\nx is 1\nx is 2\n", x=[3, 1, 2]),
    "--display prints what giving's own give gives": Case(
        "from giving import give\ngive(x=1)\n", argv="--display main.py", out="x: 1\n", x=[1]),
    "what is given and logged in init is recorded": Case(
        "pass", f"ov.give(x=1)\n{INIT}ov.log({{'x': 2}})", x=[1, 2]),
    "a signal ends it before anything was measured": Case(
        "import os\nos.kill(os.getpid(), 15)", status=-15, x=[], record={"exit_status": -15}),
    "events of threads come once, also of those that outlive the main code": Case(
        f"import threading, time\n{GIVE}def work(n):\n    time.sleep(0.2)\n"
        "    for i in range(20): give(x=n * 20 + i)\n"
        "for n in range(4): threading.Thread(target=work, args=(n,)).start()\n", x=list(range(80))),
    "a run without events leaves nothing behind": Case("print('hello')\n", out="hello\n"),
    "--no-record leaves nothing behind": Case(GIVES, argv="--no-record main.py"),
    "a silent probe is named even when quiet": Case(
        TRAIN, SILENT, "--quiet main.py", err=("//train > los", "voirfile.py:3")),
    "one bad selector does not stop the next": Case(
        TRAIN, f"{INIT}for s in ('> loss', 'loss as x'): ov.probe(f'//train > {{s}}').give()",
        err=("//train > > loss",), x=[1]),
    "--strict is content with a probe that fired": Case(
        TRAIN, f"{INIT}ov.probe('//train > loss as x').give()", "--strict main.py", x=[1]),
    "--strict turns a silent probe into 4": Case(
        TRAIN, SILENT, "--strict main.py", 4, err=("voir: main.py", "//train > los")),
    "--strict turns a failed instrument into 4": Case("", "1 / 0\nyield", "--strict main.py", 4),
    "--strict leaves a failing script alone": Case("exit(9)", "1 / 0", "--strict main.py", 9),
    "--debug says what was loaded": Case(
        "", INIT, "--debug main.py", err=("voirfile.py: it is in the current",)),
    "--debug says what was not loaded": Case(
        "", "1 / 0", "--debug --no-voirfile main.py", err=("--no-voirfile",)),
    "the script's own options reach it untouched": Case(
        "import sys\nprint(sys.argv[1:])\n", argv="main.py --help -m x --stop 1 -- --quiet",
        out="['--help', '-m', 'x', '--stop', '1', '--', '--quiet']\n"),
    "the script finds no threads but its own": Case(
        # Behind the first sample: while psutil is imported there is one for a moment.
        f"import threading, time\n{GIVE}give(x=1)\ntime.sleep(1.2)\n"
        "print(threading.active_count(), [t.name for t in threading.enumerate()])\n",
        out="1 ['MainThread']\n", x=[1]),
    "where the record is is true where the script has gone elsewhere": Case(
        f"import os\n{GIVE}os.mkdir('out')\nos.chdir('out')\ngive(x=1)\n", err=("record    RUN\n",),
        x=[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_run_comes_to_what_it_should(tmp_path: Path, name: str) -> None:
    case, place = CASES[name], Place(tmp_path)
    place.write("main.py", case.script)
    if case.instrument:
        place.write("voirfile.py", "def instrument_it(ov):\n" + indent(case.instrument, "    "))
    done = place.voir(*case.argv.split())
    assert (done.status, done.stdout) == (case.status, case.out), done.stderr
    said = [re.escape(each.replace("RUN", str([*place.runs, ""][0]))) for each in case.err]
    assert re.search(".*".join(said), done.stderr, re.DOTALL), done.stderr
    summaries = re.findall(r"^voir: (?:\S*main\.py|-m main\S*)\s", done.stderr, re.MULTILINE)
    assert len(summaries) == (not case.argv.startswith("--quiet"))
    if "nothing behind" in name:
        assert [file.name for file in tmp_path.iterdir()] == ["main.py"]
    if case.x is not None:
        found = [line["x"] for line in place.metrics() if "x" in line]
        assert sorted(map(str, found)) == sorted(map(str, case.x))
        assert place.record().items() >= case.record.items()


def test_a_traceback_stands_before_the_summary_and_shows_only_the_script(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "def f():\n    1 / 0\n\nf()\n")
    plain, under = place.python("main.py"), place.voir("main.py")
    assert under.seen == plain.seen
    assert under.stderr.startswith(plain.stderr + "voir: main.py")


def test_display_has_colours_only_where_somebody_wants_them(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", TRAIN)
    place.write("voirfile.py", "def instrument_x(ov):\n    ov.probe('//train > loss').display()\n")
    assert place.voir("main.py").stdout == "loss: 1\n"
    assert "\x1b[" in place.voir("main.py", env={"FORCE_COLOR": "1"}).stdout
