"""Fixtures shared by all rooms."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.forking import close_all

# The same examples each time, and no time of day in any: whoever searches for more says so.
settings.register_profile(
    "steady",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Run with nohup, or beside something in a shell, the tests' programs would not hear these.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        default = signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        signal.signal(_number, default)


@pytest.fixture(autouse=True, scope="session")
def fork_servers() -> Iterator[None]:
    """End the processes that tests have runs of voir forked from."""
    yield
    close_all()


@pytest.fixture(autouse=True)
def nothing_outlives_a_test() -> Iterator[None]:
    """Fail a test that leaves a thread, stream, probe, hook, name or signal handler of voir's."""
    before = footprint()
    yield
    assert footprint() == before


def footprint() -> dict[str, object]:
    """What voir may put into a process while it runs a script."""
    return {
        "threads": [t.name for t in threading.enumerate() if t.name.startswith("voir")],
        "timers": list(_attribute("overseer.timers", "_open") or ()),
        "finders": [f for f in sys.meta_path if _ours(f)],
        # Names that inserted code calls stay, as that code does.
        "builtins": {n for n in vars(builtins) if not n.startswith("_<voir ")} - {"_", "__dir__"},
        "alarm": (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)),
        "run": _attribute("overseer.engine.overseer", "_active"),
        "probes": set(_attribute("ptera.probe", "global_probes") or ()),
        **_giving(),
    }


def _giving() -> dict[str, object]:
    gvr = sys.modules.get("giving.gvr")
    if gvr is None:
        return {"connection": False, "resolve": "giving.gvr", "handlers": ()}
    return {
        "connection": "context" in vars(gvr.Giver),
        "resolve": gvr.resolve.__module__,
        "handlers": gvr.global_context.get(),
    }


def _ours(finder: object) -> bool:
    kind = finder if isinstance(finder, type) else type(finder)
    return kind.__module__.partition(".")[0] in ("overseer", "instruments", "voir")


def _attribute(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)
