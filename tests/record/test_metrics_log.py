"""``metrics.jsonl`` is readable at any moment, and losing it never troubles the script."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from overseer.record import lines
from overseer.record.metrics import HIGH, MetricsLog
from overseer.record.reading import Metrics

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path, problems):
    metrics = MetricsLog(tmp_path / "metrics.jsonl", problems.append)
    yield metrics
    metrics.close()


def events(log):
    return list(Metrics(log.path))


def test_every_event_is_a_line_as_soon_as_it_is_written(log, problems):
    for step in range(3):
        log.write({"step": step, "loss": float("nan")})
        assert events(log)[-1] == {"step": step, "loss": "NaN"}
    assert log.written == 3
    assert log.failure() is None
    assert problems == []


def test_a_line_is_one_write_to_the_end_of_the_file(log, monkeypatch):
    written = []
    real = os.write
    monkeypatch.setattr(lines.os, "write", lambda fd, line: written.append(line) or real(fd, line))
    log.write({"step": 1})
    log.write({"text": "a" * 5000})
    assert [line.count(b"\n") for line in written] == [1, 1]


def test_what_stands_there_is_kept(log):
    log.path.write_text('{"step": 0}\n')
    log.write({"step": 1})
    log.close()
    log.write({"step": 2})
    assert [event["step"] for event in events(log)] == [0, 1, 2]


def test_its_descriptor_leaves_the_low_numbers_to_the_script(log, tmp_path):
    with (tmp_path / "before").open("w") as file:
        lowest = file.fileno()
    log.write({"step": 1})
    with (tmp_path / "after").open("w") as file:
        assert file.fileno() == lowest
    assert log._fd >= HIGH


def test_a_low_limit_on_descriptors_is_lived_with(log, monkeypatch):
    import fcntl

    def refuse(*args):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    log.write({"step": 1})
    assert events(log) == [{"step": 1}]


def test_threads_do_not_mix_their_lines(log):
    def work(name):
        for step in range(200):
            log.write({"thread": name, "step": step, "text": "x" * 300})

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = events(log)
    assert len(seen) == 800
    for name in range(4):
        assert [e["step"] for e in seen if e["thread"] == name] == list(range(200))


WRITER = """
import sys
from pathlib import Path
from overseer.record.metrics import MetricsLog
log = MetricsLog(Path(sys.argv[1]), print)
step = 0
while True:
    log.write({"step": step, "text": "x" * (step % 500)})
    if step == 2000:
        print("ready", flush=True)
    step += 1
"""


def test_sigkill_of_a_live_writer_loses_nothing_that_was_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert writer.stdout.readline() == b"ready\n"
    writer.send_signal(signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    writer.stdout.close()
    metrics = Metrics(path)
    steps = [event["step"] for event in metrics]
    assert steps == list(range(len(steps)))
    assert len(steps) > 2000
    assert metrics.torn <= 1


class FullDisk:
    """A disk with ``room`` bytes left, as ``os.write`` sees it."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, line: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fits = min(self.room, len(line))
        self.room -= fits
        return os.write(fd, line[:fits])


@pytest.fixture
def disk(monkeypatch):
    full = FullDisk(100)

    class System:
        write = staticmethod(full.write)

        def __getattr__(self, name):
            return getattr(os, name)

    monkeypatch.setattr(lines, "os", System())
    return full


def test_on_a_full_disk_whole_lines_stay_and_the_loss_is_told_once_and_counted(log, disk, problems):
    for step in range(20):
        log.write({"step": step})
    kept = events(log)
    assert [event["step"] for event in kept] == list(range(len(kept)))
    assert 0 < len(kept) < 20
    assert log.path.read_bytes().endswith(b"}\n")
    assert (log.written, log.lost) == (len(kept), 20 - len(kept))
    (problem,) = problems
    assert problem.slug == "record-unwritable"
    assert "No space left" in problem.what
    assert log.failure() == {
        "name": "metrics.jsonl",
        "state": "failed",
        "error": f"No space left on device; lines lost: {log.lost}",
    }


def test_writing_goes_on_when_there_is_room_again(log, disk):
    for step in range(20):
        log.write({"step": step})
    disk.room = 10_000
    log.write({"step": 99})
    assert events(log)[-1] == {"step": 99}
    assert Metrics(log.path).torn == 0


def test_short_writes_are_completed(log, monkeypatch):
    real = os.write
    monkeypatch.setattr(lines.os, "write", lambda fd, line: real(fd, line[:7]))
    log.write({"step": 1, "text": "more than seven bytes"})
    monkeypatch.undo()
    assert events(log) == [{"step": 1, "text": "more than seven bytes"}]


def test_a_limit_on_the_files_size_is_as_a_full_disk(tmp_path):
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from overseer.record.metrics import MetricsLog\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "told = []\n"
        "log = MetricsLog(Path(sys.argv[1]), told.append)\n"
        "for step in range(1000): log.write({'step': step})\n"
        "print(log.written, log.lost, len(told))\n"
    )
    path = tmp_path / "metrics.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    written, lost, told = map(int, done.stdout.split())
    metrics = Metrics(path)
    assert len(list(metrics)) == written > 0
    assert (written + lost, told, metrics.torn) == (1000, 1, 0)


def test_a_directory_that_has_gone_is_told_once_and_all_its_lines_are_lost(log, problems):
    log.write({"step": 1})
    log.path.unlink()
    log.path.parent.rmdir()
    for step in (2, 3):
        log.write({"step": step})
    log.close()
    assert (log.written, log.lost) == (0, 3)
    assert ["deleted" in problem.what for problem in problems] == [True]


def test_a_file_deleted_after_the_last_line_is_noticed_at_the_end(log, problems):
    log.write({"step": 1})
    log.path.unlink()
    log.close()
    assert (log.written, log.lost, len(problems)) == (0, 1, 1)


def test_a_file_that_cannot_be_opened_is_told_once(tmp_path, problems):
    log = MetricsLog(tmp_path, problems.append)  # A directory.
    log.write({"step": 1})
    log.write({"step": 2})
    log.close()
    assert (log.lost, len(problems)) == (2, 1)


def test_a_script_that_closes_every_descriptor_does_not_end_the_log(log):
    log.write({"step": 1})
    os.close(log._fd)
    log.write({"step": 2})
    assert [event["step"] for event in events(log)] == [1, 2]


def test_a_file_of_the_scripts_that_got_the_number_is_left_alone(log, tmp_path):
    log.write({"step": 1})
    theirs = os.open(tmp_path / "theirs", os.O_CREAT | os.O_RDWR)
    os.dup2(theirs, log._fd)
    stolen = log._fd
    log.write({"step": 2})
    assert (tmp_path / "theirs").read_bytes() == b""
    assert [event["step"] for event in events(log)] == [1, 2]
    os.close(theirs)
    os.close(stolen)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_writes_nothing_even_if_the_lock_was_held(log, problems):
    log.write({"step": 1})
    held, done = threading.Event(), threading.Event()

    def hold():
        with log._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    pid = os.fork()
    if not pid:
        signal.alarm(20)  # A child that waits for the lock dies of it.
        log.write({"step": 2})
        log.close()
        os._exit(0)
    done.set()
    holder.join()
    assert os.waitpid(pid, 0)[1] == 0
    log.write({"step": 3})
    assert [event["step"] for event in events(log)] == [1, 3]


def test_telling_of_a_loss_may_log_in_its_turn(tmp_path):
    told = []

    def report(problem):
        told.append(problem)
        log.write({"problem": problem.slug})

    log = MetricsLog(tmp_path, report)
    log.write({"step": 1})
    assert len(told) == 1
    assert log.lost == 2
