"""A run from end to end: phases around the script, its streams, its ending, its record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.running import VOIR, Place, environment


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_phases_end_in_order_around_the_script(place: Place) -> None:
    place.write(
        "main.py",
        """
        import sys
        sys.stderr.write("top-level code\\n")
        def f():
            return 1
        VALUE = 3
        """,
    )
    place.write(
        "voirfile.py",
        """
        def instrument_order(ov):
            for phase in ov.phases:
                yield phase
                ov.stderr.write(f"{phase.name} ended\\n")
        """,
    )
    done = place.voir("--quiet", "main.py")
    assert [line for line in done.stderr.splitlines() if "_boot" not in line] == [
        "init ended",
        "parse_args ended",
        "load_script ended",
        "top-level code",
        "run_script ended",
        "finalize ended",
    ]


ENDINGS = {
    "normally": ("pass", 0),
    "by sys.exit()": ("import sys; sys.exit()", 0),
    "by sys.exit(3)": ("import sys; sys.exit(3)", 3),
    "by an exception": ("raise RuntimeError('no')", 1),
    "by a signal to itself": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15),
    "by Ctrl-C": ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -2),
}


@pytest.mark.parametrize(("body", "status"), ENDINGS.values(), ids=ENDINGS.keys())
def test_finalize_comes_however_the_script_ends(place: Place, body: str, status: int) -> None:
    place.write("main.py", f"from voir import give\nfor i in (3, 1, 2): give(x=i)\n{body}\n")
    place.write(
        "voirfile.py",
        """
        def instrument_least(ov):
            yield ov.phases.init
            ov.given["?x"].min().subscribe(lambda x: ov.stderr.write(f"least: {x}\\n"))
            yield ov.phases.finalize
            ov.stderr.write("finalized\\n")
        """,
    )
    done = place.voir("main.py")
    assert done.status == status
    assert done.stderr.index("least: 1") < done.stderr.index("finalized")
    assert place.record()["exit_status"] == status
    assert [line["x"] for line in place.metrics() if "x" in line] == [3, 1, 2]


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


def test_an_instrument_gets_the_value_of_a_function(place: Place) -> None:
    place.write("jobs.py", "def job():\n    return 42\n")
    place.write(
        "voirfile.py",
        """
        def instrument_value(ov):
            value = yield ov.phases.run_script
            ov.stderr.write(f"value: {value}\\n")
        """,
    )
    assert "value: 42" in place.voir("-m", "jobs:job").stderr


def test_an_instrument_can_catch_what_ended_the_script(place: Place) -> None:
    place.write("main.py", "raise LookupError('lost')\n")
    place.write(
        "voirfile.py",
        """
        def instrument_catch(ov):
            try:
                yield ov.phases.run_script
            except LookupError as error:
                ov.stderr.write(f"caught {error}\\n")
        """,
    )
    done = place.voir("--quiet", "main.py")
    assert done.status == 1  # Catching it there does not change how the script ended.
    assert "caught lost" in done.stderr


def test_ov_stop_ends_the_script_with_status_0(place: Place) -> None:
    place.write(
        "main.py", "from voir import give\nfor i in range(100): give(x=i); print(i, flush=True)\n"
    )
    place.write(
        "voirfile.py",
        """
        def instrument_stop(ov):
            yield ov.phases.init
            ov.given["?x"].subscribe(lambda x: ov.stop(x) if x == 3 else None)
            try:
                yield ov.phases.run_script
            finally:
                ov.stderr.write("told\\n")
        """,
    )
    done = place.voir("main.py")
    assert done.seen == (0, "0\n1\n2\n")
    assert "told" in done.stderr
    assert "stopped early" in done.stderr
    assert place.record()["stopped_early"]


def test_stop_n_lets_exactly_n_steps_happen(place: Place) -> None:
    place.write(
        "main.py",
        """
        from voir import give
        for i in range(100):
            print(i)
            give(step=True, batch_size=4)
        """,
    )
    done = place.voir("--stop", "5", "main.py")
    assert done.seen == (0, "0\n1\n2\n3\n4\n")
    assert "5" in place.record()["stopped_early"]


def test_ov_abort_fails_the_run_with_that_error(place: Place) -> None:
    place.write("main.py", "from voir import give\ngive(loss=float('nan'))\nprint('unreached')\n")
    place.write(
        "voirfile.py",
        """
        import math
        def instrument_nan(ov):
            yield ov.phases.init
            def check(event):
                if math.isnan(event["loss"]):
                    ov.abort(ArithmeticError("the loss is NaN"))
            ov.listen(check, "loss")
        """,
    )
    done = place.voir("main.py")
    assert done.seen == (1, "")
    assert "ArithmeticError: the loss is NaN" in done.stderr
    assert place.record()["exit_status"] == 1


def test_fail_on_a_stream_fails_the_script(place: Place) -> None:
    place.write("main.py", "from giving import give\ngive(x=1)\nprint('unreached')\n")
    place.write(
        "voirfile.py",
        """
        def instrument_fail(ov):
            yield ov.phases.init
            ov.given.where("x").fail("x came")
        """,
    )
    done = place.voir("main.py")
    assert done.seen == (1, "")
    assert "Failure" in done.stderr


def test_print_and_display_reach_stdout_because_the_user_asked(place: Place) -> None:
    place.write("main.py", "from giving import give\nfor i in range(3): give(x=i)\n")
    place.write(
        "voirfile.py",
        """
        def instrument_print(ov):
            yield ov.phases.init
            ov.given["?x"].print("x is {}")
        """,
    )
    assert place.voir("main.py").stdout == "x is 0\nx is 1\nx is 2\n"
    shown = place.voir("--no-voirfile", "--display", "main.py").stdout
    assert [shown.count(f"{i}") for i in range(3)] == [1, 1, 1]


def test_given_values_from_threads_arrive_once(place: Place) -> None:
    place.write(
        "main.py",
        """
        import threading
        from giving import give

        def work(n):
            for i in range(20):
                give(x=n * 20 + i)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
    )
    assert place.voir("--quiet", "main.py").status == 0
    assert sorted(line["x"] for line in place.metrics() if "x" in line) == list(range(80))


def test_events_of_threads_that_outlive_the_main_code_are_part_of_the_run(place: Place) -> None:
    place.write(
        "main.py",
        """
        import threading, time
        from voir import give

        def late():
            time.sleep(0.3)
            give(x="late")

        threading.Thread(target=late).start()
        """,
    )
    place.voir("--quiet", "main.py")
    assert [line["x"] for line in place.metrics() if "x" in line] == ["late"]


def test_logged_events_reach_data_fd_and_the_record(place: Place) -> None:
    place.write("main.py", "from voir import log\nfor i in range(3): log(x=i)\n")
    reading, writing = os.pipe()
    place.voir("main.py", env={"DATA_FD": str(writing)}, pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading) as pipe:
        events = [json.loads(line) for line in pipe]
    assert [e["x"] for e in events if "x" in e] == [0, 1, 2]
    assert [line["x"] for line in place.metrics() if "x" in line] == [0, 1, 2]


def test_a_run_without_events_leaves_nothing_behind(place: Place) -> None:
    place.write("main.py", "print('hello')\n")
    assert place.voir("main.py").seen == (0, "hello\n")
    assert not (place.path / "voir-runs").exists()


def test_where_the_record_is_is_true_where_the_script_has_gone_elsewhere(place: Place) -> None:
    place.write("main.py", "import os, voir\nos.mkdir('out')\nos.chdir('out')\nvoir.give(x=1)\n")
    place.write("voirfile.py", "def instrument_x(ov):\n    yield ov.phases.init\n")
    ran = place.voir("main.py")
    (run,) = place.runs
    assert f"record    {run}" in ran.stderr


def test_no_record_leaves_nothing_behind(place: Place) -> None:
    place.write("main.py", "from voir import give\ngive(x=1)\n")
    assert place.voir("--no-record", "main.py").status == 0
    assert not (place.path / "voir-runs").exists()


def test_run_dir_by_option_environment_and_configuration(place: Place) -> None:
    place.write("main.py", "from voir import give\ngive(x=1)\n")
    place.write("conf.toml", "run-dir = 'from-config'\n")
    place.voir("--run-dir", "from-option", "main.py", env={"VOIR_RUN_DIR": "from-environment"})
    place.voir("main.py", env={"VOIR_RUN_DIR": "from-environment"})
    place.voir("--config", "conf.toml", "main.py")
    for name in ("from-option", "from-environment", "from-config"):
        assert (place.path / name / "run.json").exists(), name
    assert not (place.path / "voir-runs").exists()


def test_strict_turns_a_failed_instrument_and_a_silent_probe_into_status_4(place: Place) -> None:
    place.write("main.py", "def f():\n    x = 1\n    return x\nf()\n")
    place.write("good.py", "def instrument_x(ov):\n    ov.probe('//f > x').give()\n")
    place.write("silent.py", "def instrument_x(ov):\n    ov.probe('//f > y').give()\n")
    place.write("failed.py", "def instrument_x(ov):\n    1 / 0\n")
    for name, status in (("good", 0), ("silent", 4), ("failed", 4)):
        assert place.voir("--voirfile", f"{name}.py", "main.py").status == 0
        done = place.voir("--strict", "--voirfile", f"{name}.py", "main.py")
        assert done.status == status, done.stderr


def test_strict_leaves_the_status_of_a_failing_script_alone(place: Place) -> None:
    place.write("main.py", "raise SystemExit(9)\n")
    place.write("voirfile.py", "def instrument_x(ov):\n    1 / 0\n")
    assert place.voir("--strict", "main.py").status == 9


def test_a_silent_probe_is_named_at_the_end_even_when_quiet(place: Place) -> None:
    place.write("main.py", "def train():\n    loss = 1\n    return loss\ntrain()\n")
    place.write("voirfile.py", "def instrument_x(ov):\n    ov.probe('//train > los').give()\n")
    for options in ([], ["--quiet"]):
        done = place.voir(*options, "main.py")
        assert done.seen == (0, "")
        assert "//train > los" in done.stderr
        assert "voirfile.py:2" in done.stderr


def test_one_bad_selector_does_not_stop_the_next(place: Place) -> None:
    place.write("main.py", "def train():\n    loss = 1\n    return loss\ntrain()\n")
    place.write(
        "voirfile.py",
        """
        def instrument_x(ov):
            ov.probe("//train > > loss").give()
            ov.probe("//train > loss").give()
        """,
    )
    done = place.voir("main.py")
    assert "//train > > loss" in done.stderr
    assert [line["loss"] for line in place.metrics() if "loss" in line] == [1]


def test_debug_says_what_was_loaded_and_why(place: Place) -> None:
    place.write("main.py", "pass\n")
    place.write("voirfile.py", "")
    assert (
        f"{place.path / 'voirfile.py'}: it is in the current"
        in place.voir("--debug", "main.py").stderr
    )
    assert "--no-voirfile" in place.voir("--debug", "--no-voirfile", "main.py").stderr


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
    for flag in ("-h", "--help"):
        done = place.voir(flag)
        assert done.status == 0
        assert "--apples" in done.stdout
        assert "How many apples to eat, at 100%" in " ".join(done.stdout.split())
        assert "--run-dir" in done.stdout
    assert "apples: 3" in place.voir("main.py").stderr
    assert "apples: 7" in place.voir("--apples", "7", "main.py").stderr
    assert "apples: 5" in place.voir("main.py", env={"VOIR_APPLES": "5"}).stderr


def test_version_is_told(place: Place) -> None:
    assert place.voir("--version").seen == (0, "voir 0.1.0\n")


def test_the_scripts_own_options_reach_it_untouched(place: Place) -> None:
    place.write("main.py", "import sys\nprint(sys.argv[1:])\n")
    done = place.voir("main.py", "--help", "-m", "x", "--stop", "1", "--", "--quiet")
    assert done.seen == (0, "['--help', '-m', 'x', '--stop', '1', '--', '--quiet']\n")


def test_the_script_finds_no_threads_but_its_own(place: Place) -> None:
    place.write(
        "main.py",
        """
        import threading, time
        from voir import give
        give(x=1)
        time.sleep(0.5)
        print(threading.active_count(), [t.name for t in threading.enumerate()])
        """,
    )
    plain, under = place.python("main.py"), place.voir("main.py")
    assert under.seen == plain.seen


def test_a_forked_child_writes_nothing_into_the_run(place: Place) -> None:
    place.write(
        "main.py",
        """
        import os, sys
        from voir import give, log
        give(who="parent")
        pid = os.fork()
        if pid == 0:
            give(who="child")
            log(who="child")
            print("child", flush=True)
            sys.exit(5)
        print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
    )
    done = place.voir("main.py")
    assert done.status == 0
    assert sorted(done.stdout.splitlines()) == ["child", "parent 5"]
    assert done.stderr.count("voir: main.py") == 1
    assert [line["who"] for line in place.metrics() if "who" in line] == ["parent"]
