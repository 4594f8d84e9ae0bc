"""Rings, notes and the header: lost events are counted, a kill leaves what was open."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys

import pytest

from overseer.recorder import log
from overseer.recorder import sites as k


def test_events_come_in_order_and_what_is_overrun_is_counted(recorded):
    step, value = recorded.module.Site(1, k.STEP), recorded.module.Site(2, k.VALUE, keys=("x",))
    value.record(2, k.VALUE, k.VALUES, 0, k.NUMBER)
    for n in range(5000):
        step.value(float(n))
    assert recorded.values() == [float(n) for n in range(3976, 5000)]
    assert (recorded.lost, recorded.header().lost) == ([3976, 0], (3976, 0))
    step.value(1.0)
    for n in range(5000):
        value.event(n)
    assert recorded.values() == [1.0], "values push no structure out"
    assert recorded.values(k.VALUES) == [float(n) for n in range(3976, 5000)]
    assert (recorded.lost, step.fired, value.fired) == ([3976, 3976], 5001, 5000)


def test_text_of_any_length_comes_back(recorded):
    texts = ["", "a", "x" * 29, "y" * 30, "z" * 31, "Grüße, 世界", "long " * 200]
    for text in texts:
        recorded.module.note(k.NOTE, 5, 0, text.encode())
        recorded.module.Site(6, k.INSTANT, ring=k.VALUES).mark()
    data, at = recorded.data(k.VALUES), 0
    for text in texts:
        size = len(text.encode())
        assert log.text_at(data, at, size).decode() == text
        at += 32 * (2 + math.ceil(size / 30))
    assert [(e.site, e.object) for e in log.events(data)] == [
        each for text in texts for each in ((5, len(text.encode())), (6, 0))
    ]


@pytest.mark.parametrize("cut", [0, 1, 31, 32, 33, 64, 95])
def test_a_torn_log_gives_what_is_whole(recorded, cut):
    recorded.module.note(k.NOTE, 5, 0, b"n" * 60)
    data = recorded.data(k.VALUES)[:cut]
    assert len(list(log.events(data))) == (cut >= 32)
    assert log.text_at(data, 0, 60) == b"n" * 30 * max((cut - 32) // 32, 0)


def test_a_span_longer_than_48_bits_is_cut(recorded):
    recorded.module.put(k.STRUCTURE, k.STEP, 1, 5, 1 << 60, 2.5, 7, k.FAILED)
    (event,) = recorded.take()
    assert event == log.Event(5, 2.5, 7, 1, event.thread, (1 << 48) - 1, 0, k.FAILED)


def test_control_words_are_seen_by_other_processes(recorded, tmp_path):
    path = tmp_path / "header"
    recorded.module.control(2, 41)
    recorded.module.publish(str(path), "/runs/été")
    assert recorded.module.control(2, 42) == 41
    found = log.header(path.read_bytes())
    assert (found.control[2], found.directory, found.pid) == (42, "/runs/été", os.getpid())
    for taken, words in ((path, "header"), ("/dev/full/header", "full")):
        with pytest.raises(OSError, match=words):
            recorded.module.publish(str(taken), "again")
    assert recorded.module.control(2, 43) == 42, "recording goes on"
    with pytest.raises(ValueError, match="8 control words"):
        recorded.module.control(8)


def test_each_directory_has_its_own_header(recorded, tmp_path):
    middle = "m" * 54  # Bytes 61 apart that change against each other.
    one, other = (f"/{tmp_path.name}/lr1/{middle}/seed0", f"/{tmp_path.name}/lr0/{middle}/seed1")
    assert log.header_paths(one)[0] != log.header_paths(other)[0]
    (tmp_path / "of").mkdir()
    shared, own = log.header_paths(str(tmp_path / "of"))
    for path in (shared, own):
        recorded.module.publish(path, str(tmp_path / "of"))
        assert log.read_header(str(tmp_path / "of")).pid == os.getpid()
        os.rename(path, log.header_paths(str(tmp_path))[path == own])
        found = log.read_header(str(tmp_path))
        assert (found is not None) == (path == own), "a directory may have been moved"
        assert log.set_control(str(tmp_path), 2, 1) == (path == own)
    os.unlink(log.header_paths(str(tmp_path))[0])


def test_a_foreign_header_is_refused(recorded):
    whole = recorded.module.header()
    for data, words in [
        (whole[:100], "not a run's header"),
        (b"other   " + whole[8:], "not a run's header"),
        (whole[:8] + b"\x63" + whole[9:], "format 99"),
    ]:
        with pytest.raises(ValueError, match=words):
            log.header(data)


ENDING = """
import os, sys, threading, time
from overseer.recorder import log, recorder, sites as k
recorder.open(8, 8, log.process_start(os.getpid()), time.time_ns())
log.publish(sys.argv[1])
site = recorder.Site(1, k.STEP)
site.mark()
def work():
    while True:
        site.mark()
def end(signal):
    print("ready", flush=True)
    input()
    if signal:
        os.kill(os.getpid(), signal)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
recorder.span(1, k.BACKWARD, end)(int(sys.argv[2]))
"""


@pytest.mark.parametrize("which", ["c", "python"])
@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGSEGV, 0])
def test_a_process_ends_while_threads_record_and_its_header_says_what_it_was_doing(
    tmp_path, signalled, which
):
    process = subprocess.Popen(
        [sys.executable, "-c", ENDING, str(tmp_path), str(int(signalled))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "VOIR_RECORDER": which},
    )
    process.stdout.read(5)
    assert log.lives(log.read_header(str(tmp_path)))
    _, said = process.communicate(b"\n")
    assert (process.returncode, said) == (-signalled, b"")
    found = log.read_header(str(tmp_path))
    assert not log.lives(found)
    main = found.threads[0]
    assert (found.pid, main.kind) == (process.pid, k.BACKWARD if signalled else 0)
    assert main.since >= found.monotonic or not signalled
    # In memory, it stays until the run's record is finished.
    assert os.path.realpath(tmp_path) in map(os.path.realpath, log.remove_dead())
    log.remove_dead(frozenset({str(tmp_path)}))
    assert log.read_header(str(tmp_path)) is None


@pytest.mark.parametrize("memory", ["/nonexistent", "/proc"])
def test_without_memory_for_it_the_header_is_in_the_directory(
    recorded, tmp_path, monkeypatch, memory
):
    monkeypatch.setattr(log, "SHM", memory)
    monkeypatch.setattr("overseer.recorder.choice.recorder", recorded.module)
    assert log.publish(str(tmp_path)) == str(tmp_path / "header")
    assert log.read_header(str(tmp_path)).pid == os.getpid()


def test_ten_million_events_take_no_memory():
    code = """
import resource
from overseer.recorder import recorder, sites as k
recorder.open(1 << 16, 1 << 17)
site, at, used = recorder.Site(1, k.VALUE, keys=("loss",)), 0, []
site.record(1, k.VALUE, k.VALUES, 0, k.NUMBER)
event = site.event
for n in range(103):
    for _ in range(100_000):
        event(0.5)
    used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    data, at, lost = recorder.drain(1, at)
print(used[-1] - used[2], at)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    grown, at = map(int, done.stdout.split())
    assert at == 10_300_000
    assert grown < 16_000, "kilobytes: a drain's copy, and no more"
