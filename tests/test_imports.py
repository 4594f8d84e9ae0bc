"""Who waits for a module is called once it is there, whichever thread imports it."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from overseer import imports
from overseer.imports import on_import


def test_a_module_that_another_thread_has_just_imported_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, add = ModuleType("just_imported"), imports._watcher.add

    def imported_meanwhile(*args: Any) -> Any:
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return add(*args)

    monkeypatch.setattr(imports._watcher, "add", imported_meanwhile)
    seen: list[ModuleType] = []
    on_import(module.__name__, seen.append).dispose()
    assert seen == [module]


def test_two_threads_that_find_it_loaded_call_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("loaded_twice")
    seen: list[ModuleType] = []

    def twice(module: ModuleType) -> None:
        seen.append(module)
        imports._watcher.loaded(module.__name__)

    watches = [on_import(module.__name__, twice) for _ in range(2)]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    imports._watcher.loaded(module.__name__)
    for watch in watches:
        watch.dispose()
    assert seen == [module, module]


def test_a_child_can_import_though_another_thread_held_the_lock_at_the_fork() -> None:
    thread = threading.Thread(target=imports._watcher.lock.acquire)
    thread.start()
    thread.join()
    imports._watcher.renew_lock()
    on_import("never_imported", lambda module: None).dispose()
