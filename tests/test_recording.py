"""What a run leaves behind, however many threads are the first to record something."""

from __future__ import annotations

from pathlib import Path

from tests.running import Place


def test_what_is_logged_while_the_record_is_begun_goes_into_the_same_one(tmp_path: Path) -> None:
    """What is given is written by a thread of its own, which may be the first to record."""
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        import threading, time
        from overseer.record.directory import RunDirectory

        make = RunDirectory.__init__
        RunDirectory.began = threading.Event()

        def slowly(*args, **kwargs):
            RunDirectory.began.set()
            time.sleep(0.3)
            make(*args, **kwargs)

        def instrument_slow(ov):
            yield ov.phases.load_script
            RunDirectory.__init__ = slowly
            yield ov.phases.run_script
            RunDirectory.__init__ = make
        """,
    )
    place.write(
        "main.py",
        """
        from giving import give
        from overseer import current_overseer
        from overseer.record.directory import RunDirectory

        give(first=1)
        assert RunDirectory.began.wait(20)
        current_overseer.get().log({"logged": 1})
        """,
    )
    ran = place.voir("main.py")
    assert (ran.status, len(place.runs)) == (0, 1), ran.stderr
    keys = [key for event in place.metrics() for key in ("first", "logged") if key in event]
    assert sorted(keys) == ["first", "logged"]


def test_a_record_that_is_begun_late_does_not_undo_how_the_run_ended(tmp_path: Path) -> None:
    """The timer's thread may be at the beginning of the record when the script is over."""
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        import threading
        from overseer import recording, timers

        begins = recording.Recording.beginning
        recording.INTERVAL = 0.01
        timers.END_PATIENCE = 0.1
        threading.begun, over = threading.Event(), threading.Event()

        def slowly(self):
            facts = begins(self)
            if not threading.begun.is_set():
                threading.begun.set()
                over.wait(0.5)
            return facts

        def instrument_slow(ov):
            recording.Recording.beginning = slowly
            yield ov.phases.run_script
        """,
    )
    place.write(
        "main.py",
        """
        import threading
        from giving import give

        give(first=1)
        assert threading.begun.wait(20)
        """,
    )
    ran = place.voir("main.py")
    assert ran.status == 0, ran.stderr
    assert place.record()["exit_status"] == 0


def test_a_record_that_fails_is_not_blamed_on_who_gave_something_first(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        from overseer.recording import Recording

        def fails(self):
            raise OSError("gone")

        def instrument_first(ov):
            yield ov.phases.load_script
            Recording.flush = fails
            ov.give(first=1)
        """,
    )
    place.write("main.py", "import time; time.sleep(1.5)")
    ran = place.voir("main.py")
    assert ran.status == 0
    assert "voir: the record: " in ran.stderr
    assert "instrument_first" not in ran.stderr, ran.stderr


def test_a_part_of_the_record_that_fails_is_all_that_is_missing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        from overseer.recording import Recording
        from overseer.record.provenance import Provenance

        def fails(self, *args):
            raise MemoryError

        def instrument_full(ov):
            yield ov.phases.load_script
            Recording._overhead = Provenance.at_end = fails
            ov.give(first=1)
        """,
    )
    place.write("main.py", "print('ran')")
    ran = place.voir("main.py")
    assert ran.seen == (0, "ran\n")
    assert "voir: main.py · finished" in ran.stderr
    assert "run.json goes without its overhead: MemoryError [record-incomplete]" in ran.stderr
    assert "run.json goes without its late provenance: MemoryError" in ran.stderr
    run = place.record()
    assert "overhead" not in run
    assert run["exit_status"] == 0
    assert run["provenance"]["voirfiles"]
    assert [problem["slug"] for problem in run["problems"]] == ["record-incomplete"] * 2


def test_what_could_not_be_written_when_it_was_due_is_written_at_the_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        from overseer.recording import Recording

        opens = Recording._open

        def fails(self):
            raise OSError(24, "Too many open files")

        def instrument_full(ov):
            yield ov.phases.load_script
            Recording._open = fails
            ov.give(first=1)
            yield ov.phases.run_script
            Recording._open = opens
        """,
    )
    place.write("main.py", "import time; time.sleep(1.2)")
    ran = place.voir("main.py")
    assert "Too many open files" in ran.stderr
    assert [event["first"] for event in place.metrics() if "first" in event] == [1]


def test_a_record_is_begun_while_the_script_may_give(tmp_path: Path) -> None:
    """Whoever gives waits for the lock of the streams, under which events are written."""
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        import threading
        from overseer.recording import Recording
        from overseer.engine.bus import Bus

        begins, threading.found, threading.logged = Recording._begin, [], threading.Event()

        def watched(self):
            threading.found.append(Bus.lock._is_owned())
            begins(self)

        def log(ov):
            ov.log({"logged": 1})
            threading.logged.set()

        def instrument_log(ov):
            Recording._begin = watched
            yield ov.phases.load_script
            with ov.every(0.01, lambda: log(ov)):
                yield ov.phases.run_script
        """,
    )
    place.write("main.py", "import threading; threading.logged.wait(20); print(threading.found)")
    ran = place.voir("main.py")
    assert ran.seen == (0, "[False]\n"), ran.stderr
    assert {"logged": 1} in place.metrics()


def test_a_record_that_cannot_be_begun_is_told_of_by_who_writes_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        from overseer.recording import Recording

        def fails(self):
            raise OSError("gone")

        def instrument_log(ov):
            yield ov.phases.load_script
            begins, Recording._begin = Recording._begin, fails
            ov.log({"logged": 1})
            Recording._begin = begins
        """,
    )
    place.write("main.py", "print('ran')")
    ran = place.voir("main.py")
    assert ran.seen == (0, "ran\n")
    assert "voir: the record: " in ran.stderr
    assert "gone" in ran.stderr


def test_what_a_record_begins_with_is_known_before_a_probed_script_runs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//work > loss").subscribe(lambda event: ov.log(event))
        """,
    )
    place.write(
        "main.py",
        """
        import os, sys

        def work():
            loss = 0.5

        before = {*sys.modules}
        made = os.path.exists("voir-runs")
        work()
        print(made, os.path.exists("voir-runs"), sorted({*sys.modules} - before))
        """,
    )
    ran = place.voir("main.py")
    assert ran.seen == (0, "False True []\n"), ran.stderr
    assert {"loss": 0.5} in place.metrics()
