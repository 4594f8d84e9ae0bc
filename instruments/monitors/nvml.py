"""NVIDIA's management library: the devices that the script sees, and their readings.

Only this file knows NVML. ``pynvml`` (the package nvidia-ml-py) is passed in, never imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIB = 1024 * 1024

#: NVML's bits that mean that clocks are held below what the device could do. Idle (0x1), clocks
#: that somebody set (0x2) and the display's (0x100) are no throttling.
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
#: NVML's numbers of the clocks.
CLOCKS = (("sm", 1), ("mem", 2))


def throttle_words(bits: int) -> list[str]:
    """The reasons in ``bits`` for which clocks are held down; an unknown one by its number."""
    held = bits & ~_NO_THROTTLE
    each = [1 << place for place in range(held.bit_length()) if held >> place & 1]
    return [THROTTLE_REASONS.get(bit, f"unknown reason {bit:#x}") for bit in each]


class Nvml:
    """The library, initialised, and the devices that were asked for so far.

    Args:
        library: The module ``pynvml``.

    Raises:
        Exception: It cannot be used: no driver, versions that differ, another library.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._devices: dict[int | str, Device] = {}
        library.nvmlInit()

    def visible(self, selection: str | None) -> list[Device]:
        """The devices that ``CUDA_VISIBLE_DEVICES`` leaves to the script, in its order.

        Args:
            selection: The variable's value; None if it is not set. Numbers, UUIDs or unique
                beginnings of them, MIG instances. As in CUDA, what stands after an entry that
                names no device does not count.
        """
        count = self._library.nvmlDeviceGetCount()
        every = [self._device(number) for number in range(count)]
        if selection is None:
            return every
        found: list[Device] = []
        for word in selection.split(","):
            device = self._named(word.strip(), every)
            if device is None:
                break
            if device not in found:
                found.append(device)
        return found

    def _named(self, word: str, every: list[Device]) -> Device | None:
        if word.isdigit():
            return every[int(word)] if int(word) < len(every) else None
        if word.startswith("MIG-"):
            instance = self._device(word)
            return instance if instance.opened() else None
        begins = word if word.startswith("GPU-") else "?"
        matches = [d for d in every if d.opened() and d.uuid.startswith(begins)]
        return matches[0] if len(matches) == 1 else None

    def _device(self, key: int | str) -> Device:
        return self._devices.setdefault(key, Device(self._library, key))


class Device:
    """A GPU, or a MIG instance of one, whose clocks and temperature are the whole GPU's.

    Args:
        library: The module ``pynvml``.
        key: The GPU's number, or the instance's UUID.

    Attributes:
        index: NVML's number; of a MIG instance ``"<number>:<GPU instance>"``.
        name: The product's name.
        uuid: What tells it from every other device.
        error: What the last call that failed has raised.
    """

    def __init__(self, library: Any, key: int | str) -> None:
        self.index = self._key = key
        self.name = self.uuid = ""
        self.error: Exception | None = None
        self._library = library
        self._handle: Any = None
        self._board: Any = None

    def opened(self) -> bool:
        """Whether there is access to it; tried each time until there is."""
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
        """Everything that the device tells now; what it does not tell, or what fails, is absent.

        Keys: ``memory`` [used, total] MiB, ``load`` 0 to 1, ``temperature`` Celsius, ``power`` and
        ``power_limit`` W, ``clocks`` {sm, mem} MHz, ``throttle`` [reason]; and ``name``, ``uuid``
        if there is any of these.
        """
        if not self.opened():
            return {}
        # Of an instance NVML does not know the power, only of the whole board.
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
        """The answer of a call; None for one that failed, or that this library lacks."""
        try:
            return getattr(self._library, function)(*args)
        except Exception as error:  # Of NVML's classes, or a library that is an old one.
            self.error = error
            return None

    def _watts(self, function: str, board: Any) -> float | None:
        milliwatts = None if board is None else self._ask(function, board)
        return None if milliwatts is None else milliwatts / 1000

    def _memory(self) -> list[float] | None:
        # The second version leaves out what the driver reserves, as nvidia-smi does.
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
