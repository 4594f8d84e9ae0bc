"""A knock is answered on the main thread, even in the midst of a wait, and leaves no trace."""

import os
import signal
import threading

import pytest

from overseer.launch.signals import Knock

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGURG"), reason="the signal is not there")


def knocking(knock, answer):
    thread = threading.Timer(0.05, knock.ask, [answer])
    thread.start()
    return thread


def test_it_wakes_a_main_thread_that_waits_for_a_lock():
    def answer(frame):
        raise KeyError("woken")

    with Knock() as knock:
        thread = knocking(knock, answer)
        with pytest.raises(KeyError, match="woken"):
            threading.Event().wait(30)
        thread.join()
        assert not knock.asked


def test_a_wait_goes_on_after_an_answer_that_raises_nothing():
    event, seen = threading.Event(), []

    def answer(frame):
        seen.append((threading.current_thread() is threading.main_thread(), frame is not None))
        threading.Timer(0.05, event.set).start()

    with Knock() as knock:
        knocking(knock, answer)
        assert event.wait(30)
    assert seen == [(True, True)]


def test_the_signal_is_given_back():
    with Knock():
        assert signal.getsignal(signal.SIGURG) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_a_handler_of_the_scripts_stays_and_hears_nothing():
    heard = []

    def handler(signum, frame):
        heard.append(signum)

    with Knock() as before:
        signal.signal(signal.SIGURG, handler)
        before.ask(heard.append)
    assert signal.getsignal(signal.SIGURG) is handler
    with Knock() as after:
        after.ask(heard.append)
        assert signal.getsignal(signal.SIGURG) is handler
    assert signal.getsignal(signal.SIGURG) is handler
    signal.signal(signal.SIGURG, signal.SIG_DFL)
    assert heard == []


def test_a_signal_that_is_ignored_stays_so():
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    try:
        with Knock():
            assert signal.getsignal(signal.SIGURG) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL)


def test_a_signal_from_elsewhere_changes_nothing():
    with Knock():
        os.kill(os.getpid(), signal.SIGURG)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_the_default():
    with Knock():
        child = os.fork()
        if child == 0:
            os._exit(0 if signal.getsignal(signal.SIGURG) is signal.SIG_DFL else 1)
        assert os.waitpid(child, 0)[1] == 0
