"""Wraps NVML, NVIDIA's management library: visible devices and their readings.

No other file uses NVML. ``pynvml`` (the package nvidia-ml-py) is passed in, never imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIB = 1024 * 1024

#: NVML's bits for throttling: clocks held below the device's ability. Idle (0x1), clocks set by the
#: user (0x2) and display clocks (0x100) do not count.
THROTTLE_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x200: "board limit",
    0x400: "reliability",
}
_NO_THROTTLE = 0x1 | 0x2 | 0x100
#: Clock domains and their numbers in NVML.
CLOCKS = (("sm", 1), ("mem", 2))


def throttle_words(bits: int) -> list[str]:
    """The throttling reasons in ``bits``; an unknown one by its number."""
    held = bits & ~_NO_THROTTLE
    each = [1 << place for place in range(held.bit_length()) if held >> place & 1]
    return [THROTTLE_REASONS.get(bit, f"unknown reason {bit:#x}") for bit in each]


class Nvml:
    """The initialised library and the devices opened so far.

    Args:
        library: The module ``pynvml``.

    Raises:
        Exception: NVML cannot be used: no driver, mismatched versions, another library.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._devices: dict[int | str, NvmlDevice] = {}
        library.nvmlInit()

    def visible(self, selection: str | None) -> list[NvmlDevice]:
        """The devices that ``CUDA_VISIBLE_DEVICES`` makes visible, in its order.

        Args:
            selection: The variable's value; None if it is not set. Entries are numbers, UUIDs or
                unique prefixes of them, and MIG instances. As in CUDA, the list ends at the first
                entry that names no device.
        """
        count = self._library.nvmlDeviceGetCount()
        every = [self._device(number) for number in range(count)]
        if selection is None:
            return every
        found: list[NvmlDevice] = []
        for word in selection.split(","):
            device = self._named(word.strip(), every)
            if device is None:
                break
            if device not in found:
                found.append(device)
        return found

    def _named(self, word: str, every: list[NvmlDevice]) -> NvmlDevice | None:
        if word.isdigit():
            return every[int(word)] if int(word) < len(every) else None
        if word.startswith("MIG-"):
            instance = self._device(word)
            return instance if instance.opened() else None
        begins = word if word.startswith("GPU-") else "?"
        matches = [d for d in every if d.opened() and d.uuid.startswith(begins)]
        return matches[0] if len(matches) == 1 else None

    def _device(self, key: int | str) -> NvmlDevice:
        return self._devices.setdefault(key, NvmlDevice(self._library, key))


class NvmlDevice:
    """A GPU or a MIG instance; the instance's clocks and temperature are the whole GPU's.

    Args:
        library: The module ``pynvml``.
        key: The GPU's number, or the instance's UUID.

    Attributes:
        index: NVML's number; ``"<number>:<GPU instance>"`` for a MIG instance.
        name: The product's name.
        uuid: The device's unique identifier.
        error: The exception of the last failed call.
    """

    def __init__(self, library: Any, key: int | str) -> None:
        self.index = self._key = key
        self.name = self.uuid = ""
        self.error: Exception | None = None
        self._library = library
        self._handle: Any = None
        self._board: Any = None

    def opened(self) -> bool:
        """Open the device if it is not open yet; return whether it is."""
        if self._handle is not None:
            return True
        if isinstance(self._key, int):
            handle = board = self._ask("nvmlDeviceGetHandleByIndex", self._key)
        else:
            handle = self._ask("nvmlDeviceGetHandleByUUID", self._key)
            board = self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
            number = self._ask("nvmlDeviceGetIndex", board)
            self.index = f"{number}:{self._ask('nvmlDeviceGetGpuInstanceId', handle)}"
        if handle is None or board is None:
            return False
        self._handle, self._board = handle, board
        self.name = decoded(self._ask("nvmlDeviceGetName", handle))
        self.uuid = decoded(self._ask("nvmlDeviceGetUUID", handle)) or str(self.index)
        return True

    def read(self) -> dict[str, Any]:
        """Read the device, without the figures that it does not provide or that fail.

        Keys: ``memory`` [used, total] MiB, ``load`` 0 to 1, ``temperature`` Celsius, ``power`` and
        ``power_limit`` W, ``clocks`` {sm, mem} MHz, ``throttle`` [reason]; with any of these,
        ``name`` and ``uuid``.
        """
        if not self.opened():
            return {}
        # NVML knows the power of the whole board only, not of an instance.
        whole = self._board if self._handle is self._board else None
        load = self._ask("nvmlDeviceGetUtilizationRates", self._handle)
        told = {
            "memory": self._memory(),
            "load": None if load is None else load.gpu / 100,
            "temperature": self._ask("nvmlDeviceGetTemperature", self._board, 0),
            "power": self._watts("nvmlDeviceGetPowerUsage", whole),
            "power_limit": self._watts("nvmlDeviceGetEnforcedPowerLimit", whole),
            "clocks": self._clocks() or None,
            "throttle": self._throttle(),
        }
        known = {key: value for key, value in told.items() if value is not None}
        return {**known, "name": self.name, "uuid": self.uuid} if known else {}

    def _ask(self, function: str, *args: object) -> Any:
        """Call a function; return None if it fails or this version lacks it."""
        try:
            return getattr(self._library, function)(*args)
        except Exception as error:  # One of NVML's classes, or an old library without it.
            self.error = error
            return None

    def _watts(self, function: str, board: Any) -> float | None:
        milliwatts = None if board is None else self._ask(function, board)
        return None if milliwatts is None else milliwatts / 1000

    def _memory(self) -> list[float] | None:
        # Version 2 excludes memory reserved by the driver, as nvidia-smi does.
        function, second = "nvmlDeviceGetMemoryInfo", getattr(self._library, "nvmlMemory_v2", None)
        memory = second and self._ask(function, self._handle, second)
        memory = memory or self._ask(function, self._handle)
        return [round(memory.used / MIB, 1), round(memory.total / MIB, 1)] if memory else None

    def _clocks(self) -> dict[str, int]:
        asked = {name: self._ask("nvmlDeviceGetClockInfo", self._board, n) for name, n in CLOCKS}
        return {name: mhz for name, mhz in asked.items() if mhz is not None}

    def _throttle(self) -> list[str] | None:
        # The first name is the newer one; drivers before 535 know only the second.
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._board)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._board)
        return None if bits is None else throttle_words(bits)


def decoded(value: object) -> str:
    """Text, which early versions of the bindings gave as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
