"""What voir asks a device spoils no graph that the script captures."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.capture import RELAXED, find_exchange, harmless
from overseer.record.tensors import Pending

GLOBAL = 0


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calling thread's mode, as CUDA's driver has it."""
    held = [GLOBAL]

    def swap(reference: Any) -> int:
        given = reference._obj
        held[0], given.value = given.value, held[0]
        return 0

    def load(name: str, mode: int) -> Any:
        if name != "libcuda.so.1":
            raise OSError(name)
        assert mode == os.RTLD_NOLOAD
        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=swap)

    monkeypatch.setattr(ctypes, "CDLL", load)
    return held


def test_a_threads_mode_is_set_by_the_driver_that_is_loaded(mode: list[int]) -> None:
    """The runtime's own call would take a context on the first device."""
    with harmless(find_exchange()):
        assert mode == [RELAXED]
    assert mode == [GLOBAL]


def test_the_mode_is_as_before_also_after_an_error(mode: list[int]) -> None:
    with pytest.raises(ValueError, match="lost"), harmless(find_exchange()):
        raise ValueError("lost")
    assert mode == [GLOBAL]


def test_a_mode_that_the_script_has_set_stays(mode: list[int]) -> None:
    mode[0] = 1
    with harmless(find_exchange()):
        assert mode == [RELAXED]
    assert mode == [1]


def test_no_driver_is_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, mode: int) -> Any:
        assert mode == os.RTLD_NOLOAD
        raise OSError("not loaded")

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert find_exchange() is None
    with harmless(None):
        pass


def test_a_number_that_is_recorded_is_asked_for_without_harm(mode: list[int]) -> None:
    seen: list[int] = []

    def arrived() -> bool:
        seen.append(mode[0])
        return True

    assert Pending(SimpleNamespace(item=lambda: 0.5), arrived).value(wait=False) == 0.5
    assert (seen, mode) == ([RELAXED], [GLOBAL])
