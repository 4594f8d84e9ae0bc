"""Dynamo tells when it has compiled something; without it, nobody misses anything."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from instruments.compiling import Compiling

NAME = "torch._dynamo.callback"


def dynamo(handler: object) -> ModuleType:
    module = ModuleType(NAME)
    module.callback_handler = handler  # type: ignore[attr-defined]
    return module


def test_each_compilation_is_told_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = SimpleNamespace(end_callbacks=[])
    monkeypatch.setitem(sys.modules, NAME, dynamo(handler))
    told: list[int] = []
    compiling = Compiling(lambda: told.append(1))
    for callback in handler.end_callbacks:
        callback(None)
    assert told == [1]
    compiling.close()
    assert handler.end_callbacks == []


def test_a_torch_that_tells_nothing_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAME, ModuleType(NAME))
    Compiling(pytest.fail).close()


def test_the_torch_that_is_installed_tells() -> None:
    callback = pytest.importorskip(NAME, reason="torch comes with the extra [examples]")
    told: list[int] = []
    compiling = Compiling(lambda: told.append(1))
    with callback.callback_handler.install_callbacks(None, "0/0"):
        assert told == []
    assert told == [1]
    compiling.close()
    assert compiling._ended not in callback.callback_handler.end_callbacks
