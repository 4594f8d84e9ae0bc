"""``metrics.jsonl`` is readable at any moment, and losing it never troubles the script."""

from __future__ import annotations

import errno
import os

import pytest

from overseer.record import metrics
from overseer.record.metrics import MetricsLog
from overseer.record.reading import Metrics

LINES = [b'{"step": 1}\n', b'{"step": 2}\n']


@pytest.fixture
def log(tmp_path, problems):
    (tmp_path / "metrics.jsonl").touch()
    return MetricsLog(tmp_path / "metrics.jsonl", problems.append)


def steps(log):
    return [event["step"] for event in Metrics(log.path)]


def test_lines_are_appended_and_no_descriptor_is_kept(log, problems):
    before = os.listdir("/dev/fd")
    log.append(LINES)
    log.append([b'{"step": 3}\n'])
    assert os.listdir("/dev/fd") == before
    assert (steps(log), log.written, log.failure(), problems) == ([1, 2, 3], 3, None, [])


@pytest.mark.parametrize("room", [0, 5, 12, 17, 23])
def test_on_a_full_disk_whole_lines_stay_and_that_is_told_once(log, monkeypatch, problems, room):
    left = [room]

    def write(fd, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        some = min(left[0], len(data), 4)  # Short writes are completed.
        left[0] -= some
        return real(fd, data[:some])

    real = os.write
    monkeypatch.setattr(metrics.os, "write", write)
    log.append(LINES)
    log.append(LINES)
    whole = room // len(LINES[0])
    assert steps(log) == [1, 2][:whole]
    assert log.path.read_bytes().endswith(b"}\n") or not whole
    assert (log.written, log.lost, len(problems)) == (whole, 4 - whole, 1)
    error = f"No space left on device; lines lost: {4 - whole}"
    assert log.failure() == {"name": "metrics.jsonl", "state": "failed", "error": error}
    left[0] = 1000
    log.append([b'{"step": 9}\n'])
    assert steps(log)[-1] == 9


def test_a_file_that_was_deleted_is_not_begun_anew(log, problems):
    log.append(LINES)
    log.path.unlink()
    log.append(LINES)
    assert not log.path.exists()
    assert (log.written, log.lost, [p.slug for p in problems]) == (0, 4, ["record-unwritable"])


def test_without_a_descriptor_the_caller_waits(log, monkeypatch, problems):
    def refuse(*args):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(metrics.os, "open", refuse)
    with pytest.raises(OSError):
        log.append(LINES)
    assert (log.lost, problems) == (0, [])
