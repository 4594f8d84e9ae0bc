"""A run from end to end: phases around the script, its streams, its ending, its record."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from tests.running import VOIR, Place, environment

GIVES = "from voir import give\nfor i in (3, 1, 2):\n    give(x=i)\n"
TRAIN = "def train():\n    loss = 1\n    return loss\ntrain()\n"


@dataclass
class Case:
    """A script, the body of an instrument, a command line; and what comes of it.

    Attributes:
        out: What is on stdout; None: nothing is said of it.
        err: What is on stderr, in this order; ``RUN`` is the run's directory.
        x: Every ``x`` that was recorded; None: nothing is recorded.
        record: What ``run.json`` holds among others.
    """

    script: str
    instrument: str = ""
    argv: list[str] = field(default_factory=lambda: ["main.py"])
    status: int = 0
    out: str | None = ""
    err: list[str] = field(default_factory=list)
    x: list[Any] | None = None
    record: dict[str, Any] = field(default_factory=dict)


def ending(body: str, status: int) -> Case:
    """A script that ends in some way: reductions come, then ``finalize``."""
    instrument = """
        yield ov.phases.init
        ov.given["?x"].min().subscribe(lambda x: ov.stderr.write(f"least: {x}\\n"))
        yield ov.phases.finalize
        ov.stderr.write("finalized\\n")
        """
    record = {"exit_status": status}
    said = ["least: 1", "finalized"]
    return Case(GIVES + body, instrument, status=status, err=said, x=[3, 1, 2], record=record)


CASES = {
    "phases end in order around the script": Case(
        'import sys\nsys.stderr.write("top-level code\\n")\nVALUE = 3\n',
        "for phase in ov.phases:\n    yield phase\n    ov.stderr.write(f'{phase.name} ended\\n')",
        ["--quiet", "main.py"],
        err=["init ended", "parse_args ended", "load_script ended", "top-level code",
             "run_script ended", "finalize ended"],
    ),
    "it ends": ending("", 0),
    "it ends by sys.exit()": ending("import sys; sys.exit()", 0),
    "it ends by sys.exit(3)": ending("import sys; sys.exit(3)", 3),
    "it ends by an exception": ending("raise RuntimeError('no')", 1),
    "it ends by SIGTERM to itself": ending("import os; os.kill(os.getpid(), 15)", -15),
    "it ends by Ctrl-C": ending("import os; os.kill(os.getpid(), 2)", -2),
    "an instrument gets the value of a function": Case(
        "def job():\n    return [42]\n",
        "value = yield ov.phases.run_script\nov.stderr.write(f'value: {value}\\n')",
        ["-m", "main:job"], err=["value: [42]"],
    ),
    "an instrument can catch what ended the script, which ends as it did": Case(
        "raise LookupError('lost')\n",
        "try:\n    yield ov.phases.run_script\nexcept LookupError as error:\n"
        "    ov.stderr.write(f'caught {error}\\n')",
        status=1, err=["caught lost"],
    ),
    "ov.stop ends the script with 0": Case(
        "from voir import give\nfor i in range(9): give(x=i); print(i, flush=True)\n",
        "yield ov.phases.init\n"
        "ov.given['?x'].subscribe(lambda x: ov.stop(x) if x == 2 else None)",
        out="0\n1\n", err=["stopped early"], x=[0, 1, 2],
        record={"exit_status": 0, "stopped_early": "ov.stop(2)"},
    ),
    "--stop N lets exactly N steps happen": Case(
        "from voir import give\nfor i in range(9): print(i); give(step=True, batch_size=4)\n",
        argv=["--stop", "5", "main.py"], out="0\n1\n2\n3\n4\n", err=["stopped early"],
        x=[], record={"stopped_early": "after 5 steps"},
    ),
    "ov.abort fails the run with its error": Case(
        "from voir import give\ngive(x=1)\nprint('unreached')\n",
        "yield ov.phases.init\nov.listen(lambda e: ov.abort(ArithmeticError('it is NaN')), 'x')",
        status=1, err=["ArithmeticError: it is NaN"], x=[1], record={"exit_status": 1},
    ),
    "fail on a stream fails the script": Case(
        "from giving import give\ngive(x=1)\nprint('unreached')\n",
        "yield ov.phases.init\nov.given.where('x').fail('x came')",
        status=1, err=["Failure"], x=[1],
    ),
    "what is printed reaches stdout because the user asked": Case(
        GIVES, "yield ov.phases.init\nov.given['?x'].print('x is {}')",
        out="x is 3\nx is 1\nx is 2\n", x=[3, 1, 2],
    ),
    "--display prints what giving's own give gives": Case(
        "from giving import give\nfor i in range(3): give(x=i)\n",
        argv=["--display", "main.py"], out="x: 0\nx: 1\nx: 2\n", x=[0, 1, 2],
    ),
    "events of threads come once, also of those that outlive the main code": Case(
        """
        import threading, time
        from voir import give

        def work(n):
            time.sleep(0.2)
            for i in range(20):
                give(x=n * 20 + i)

        for n in range(4): threading.Thread(target=work, args=(n,)).start()
        """,
        x=list(range(80)),
    ),
    "a run without events leaves nothing behind": Case("print('hello')\n", out="hello\n"),
    "--no-record leaves nothing behind": Case(GIVES, argv=["--no-record", "main.py"]),
    "a silent probe is named at the end": Case(
        TRAIN, "yield ov.phases.init\nov.probe('//train > los').give()",
        err=["//train > los", "voirfile.py:3"],
    ),
    "a silent probe is named even when quiet": Case(
        TRAIN, "yield ov.phases.init\nov.probe('//train > los').give()", ["--quiet", "main.py"],
        err=["//train > los", "voirfile.py:3"],
    ),
    "one bad selector does not stop the next": Case(
        TRAIN,
        "yield ov.phases.init\n"
        "ov.probe('//train > > loss').give()\nov.probe('//train > loss as x').give()",
        err=["//train > > loss"], x=[1],
    ),
    "--strict is content with a probe that fired": Case(
        TRAIN, "yield ov.phases.init\nov.probe('//train > loss as x').give()",
        ["--strict", "main.py"], x=[1],
    ),
    "--strict turns a silent probe into 4": Case(
        TRAIN, "ov.probe('//train > y').give()\nyield ov.phases.init", ["--strict", "main.py"], 4,
    ),
    "--strict turns a failed instrument into 4": Case(
        "pass", "1 / 0\nyield", ["--strict", "main.py"], 4,
    ),
    "--strict leaves a failing script alone": Case(
        "raise SystemExit(9)\n", "1 / 0\nyield", ["--strict", "main.py"], 9,
    ),
    "--debug says what was loaded": Case(
        "pass", "yield ov.phases.init", ["--debug", "main.py"],
        err=["voirfile.py: it is in the current"],
    ),
    "--debug says what was not loaded": Case(
        "pass", "1 / 0", ["--debug", "--no-voirfile", "main.py"], err=["--no-voirfile"],
    ),
    "the script's own options reach it untouched": Case(
        "import sys\nprint(sys.argv[1:])\n",
        argv=["main.py", "--help", "-m", "x", "--stop", "1", "--", "--quiet"],
        out="['--help', '-m', 'x', '--stop', '1', '--', '--quiet']\n",
    ),
    "the script finds no threads but its own": Case(
        """
        import threading, time
        from voir import give
        give(x=1)
        time.sleep(0.3)
        print(threading.active_count(), [t.name for t in threading.enumerate()])
        """,
        out="1 ['MainThread']\n", x=[1],
    ),
    "a forked child writes nothing into the run": Case(
        """
        import os, sys
        from voir import give, log
        give(x="parent")
        if not (pid := os.fork()):
            give(x="child")
            log(x="child")
            sys.exit(5)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
        out="child 5\n", err=["voir: main.py"], x=["parent"],
    ),
    "where the record is is true where the script has gone elsewhere": Case(
        "import os, voir\nos.mkdir('out')\nos.chdir('out')\nvoir.give(x=1)\n",
        err=["record    RUN\n"], x=[1],
    ),
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_a_run_comes_to_what_it_should(place: Place, name: str) -> None:
    case = CASES[name]
    place.write("main.py", case.script)
    if case.instrument:
        body = indent(dedent(case.instrument).strip(), "    ")
        place.write("voirfile.py", f"def instrument_it(ov):\n{body}\n")
    done = place.voir(*case.argv)
    assert done.status == case.status, done.stderr
    assert case.out is None or done.stdout == case.out
    said = [re.escape(each.replace("RUN", str([*place.runs, ""][0]))) for each in case.err]
    assert re.search(".*".join(said), done.stderr, re.DOTALL), done.stderr
    summaries = re.findall(r"^voir: \S*main\.py\s", done.stderr, re.MULTILINE)
    assert len(summaries) == (case.argv[0] != "--quiet")
    if case.x is None:
        return
    assert sorted(map(str, (line["x"] for line in place.metrics() if "x" in line))) == sorted(
        map(str, case.x)
    )
    assert place.record().items() >= case.record.items()


@pytest.mark.parametrize("name", ["a run without events leaves nothing behind",
                                  "--no-record leaves nothing behind"])  # fmt: skip
def test_nothing_is_made_where_nothing_is_recorded(place: Place, name: str) -> None:
    place.write("main.py", CASES[name].script)
    place.voir(*CASES[name].argv)
    assert [file.name for file in place.path.iterdir()] == ["main.py"]


def test_a_traceback_stands_before_the_summary_and_shows_only_the_script(place: Place) -> None:
    place.write("main.py", "def f():\n    1 / 0\n\nf()\n")
    plain, under = place.python("main.py"), place.voir("main.py")
    assert under.seen == plain.seen
    assert under.stderr.startswith(plain.stderr)
    assert under.stderr.removeprefix(plain.stderr).startswith("voir: main.py")


def test_sigterm_from_outside_finalizes_and_the_process_dies_of_it(place: Place) -> None:
    place.write("main.py", "import time\nfrom voir import give\ngive(x=1)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [*VOIR, "main.py"], cwd=place.path, env=environment(), stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not place.runs or not (place.runs[0] / "run.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert b"killed by SIGTERM" in stderr
    assert place.record()["exit_status"] == -signal.SIGTERM


def test_logged_events_reach_data_fd_and_the_record(place: Place) -> None:
    place.write("main.py", "from voir import log\nfor i in range(3): log(x=i)\n")
    reading, writing = os.pipe()
    place.voir("main.py", env={"DATA_FD": str(writing)}, pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading) as pipe:
        events = [json.loads(line) for line in pipe]
    assert [e["x"] for e in events if "x" in e] == [0, 1, 2]
    assert [line["x"] for line in place.metrics() if "x" in line] == [0, 1, 2]


def test_help_lists_options_of_the_voirfile_too(place: Place) -> None:
    place.write(
        "voirfile.py",
        """
        from dataclasses import dataclass
        from voir import configurable

        @dataclass
        class Options:
            # How many apples to eat, at 100%
            apples: int = 3

        @configurable
        def instrument_apples(ov, options: Options):
            yield ov.phases.init
            ov.stderr.write(f"apples: {options.apples}\\n")
        """,
    )
    place.write("main.py", "")
    done = place.voir("--help")
    assert done.status == 0
    assert "--apples" in done.stdout
    assert "How many apples to eat, at 100%" in " ".join(done.stdout.split())
    assert "apples: 3" in place.voir("main.py").stderr
    assert "apples: 7" in place.voir("--apples", "7", "main.py").stderr
    assert "apples: 5" in place.voir("main.py", env={"VOIR_APPLES": "5"}).stderr
