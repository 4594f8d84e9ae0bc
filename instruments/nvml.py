"""NVIDIA's management library: which devices the script sees, and what they report.

Only this file knows NVML. ``pynvml`` (the package nvidia-ml-py) is passed in, never imported.
"""

from __future__ import annotations

from typing import Any

MIB = 1024 * 1024

#: Codes that mean "not on this device, driver or library": not supported, no permission, function
#: not found, and an argument, structure version or call that this driver does not know. The
#: figure is left out.
NOT_THERE = {2, 3, 4, 13, 25, 26}
#: Codes that say that a device, or the driver, is gone: not initialised, driver not loaded, library
#: not found, the device is lost or has to be reset, versions that differ. Any other failure may be
#: over at the next sample: a time-out, no data yet, an unknown error.
GONE = {1, 9, 12, 15, 16, 18}
#: So many samples in a row without any answer are a device that is lost, too.
SILENT = 3

#: NVML's clocks-event bits that mean clocks are held below what the device could do. Idle (0x1),
#: clocks that somebody set (0x2) and the display's (0x100) are no throttling.
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


def throttle_words(bits: int) -> list[str]:
    """The reasons in ``bits`` why clocks are held down, in words; a bit nobody knows by number."""
    held = bits & ~_NO_THROTTLE
    each = [1 << place for place in range(held.bit_length()) if held >> place & 1]
    return [THROTTLE_REASONS.get(bit, f"unknown reason {bit:#x}") for bit in each]


def says_gone(error: Exception) -> bool:
    """Whether an error of NVML's says that what was asked is gone, and not only that it failed."""
    return getattr(error, "value", None) in GONE


def may_pass(error: Exception) -> bool:
    """Whether what failed may succeed another time."""
    return getattr(error, "value", None) not in GONE | NOT_THERE


class Nvml:
    """The library, initialised; ``error`` is what its calls raise.

    Args:
        library: The module ``pynvml``.

    Attributes:
        unreachable: What NVML said of each device that it would not open, by number.

    Raises:
        library.NVMLError: It cannot be used: no driver, no device node, versions that differ.
        Exception: It is another library of that name.
    """

    def __init__(self, library: Any) -> None:
        self.unreachable: dict[int, Exception] = {}
        self._library = library
        library.nvmlInit()
        self.error: type[Exception] = library.NVMLError
        if not isinstance(self.error, type):
            raise TypeError("NVMLError is no exception")

    def ask(self, function: str, handle: object, *args: object) -> Any:
        """The answer of an NVML call; ``None`` for what this device or driver does not offer."""
        call = getattr(self._library, function, None)
        if call is None:
            return None
        try:
            return call(handle, *args)
        except self.error as error:
            if getattr(error, "value", None) in NOT_THERE:
                return None
            raise

    def constant(self, name: str) -> Any:
        """A constant of the library; ``None`` in versions without it."""
        return getattr(self._library, name, None)

    def visible(self, selection: str | None) -> list[Device]:
        """The devices that ``CUDA_VISIBLE_DEVICES`` leaves to the script, in its order.

        Args:
            selection: The variable's value; ``None`` when it is not set. Numbers, UUIDs or unique
                beginnings of them, MIG instances. As in CUDA, what stands after an entry that
                names no device does not count.
        """
        every = self._every()
        if selection is None:
            return list(every.values())
        found: dict[str, Device] = {}
        for word in selection.split(","):
            device = self._named(word.strip(), every)
            if device is None:
                break
            found.setdefault(device.uuid, device)
        return list(found.values())

    def _every(self) -> dict[int, Device]:
        every: dict[int, Device] = {}
        self.unreachable.clear()
        for index in range(self._library.nvmlDeviceGetCount()):
            try:
                every[index] = Device(self, self._library.nvmlDeviceGetHandleByIndex(index), index)
            except self.error as error:
                self.unreachable[index] = error
        return every

    def _named(self, word: str, every: dict[int, Device]) -> Device | None:
        if word.isdigit():
            return every.get(int(word))
        if word.startswith("MIG-"):
            return self._instance(word)
        matches = [d for d in every.values() if word.startswith("GPU-") and d.uuid.startswith(word)]
        return matches[0] if len(matches) == 1 else None

    def _instance(self, uuid: str) -> Device | None:
        """The MIG instance of that UUID; its clocks and temperature are the whole device's."""
        try:
            handle = self._library.nvmlDeviceGetHandleByUUID(uuid)
            board = self._library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            index = self._library.nvmlDeviceGetIndex(board)
            number = self._library.nvmlDeviceGetGpuInstanceId(handle)
            return Device(self, handle, f"{index}:{number}", board=board)
        except self.error:
            return None


class Device:
    """A GPU, or a MIG instance of one.

    Args:
        nvml: The library.
        handle: NVML's handle of the device or instance.
        index: NVML's number; for a MIG instance ``"<number>:<GPU instance>"``.
        board: For a MIG instance, the handle of the device that it is a part of.

    Attributes:
        name: The product's name.
        uuid: What tells it from every other device.
    """

    def __init__(self, nvml: Nvml, handle: Any, index: int | str, board: Any = None) -> None:
        self.index = index
        self._nvml = nvml
        self._handle = handle
        self._board = handle if board is None else board
        self._is_instance = board is not None
        self._absent: set[tuple[object, ...]] = set()
        self._failure: Exception | None = None
        self._answers = self._silent = 0
        self.name = _text(self._ask("nvmlDeviceGetName", handle))
        self.uuid = _text(self._ask("nvmlDeviceGetUUID", handle)) or str(index)

    def _ask(self, function: str, handle: object, *args: object) -> Any:
        """As :meth:`Nvml.ask`; ``None`` also for what fails now, which is asked again.

        What is not offered is not asked for again.

        Raises:
            NVMLError: The device is gone.
        """
        question = (function, *args)
        if question in self._absent:
            return None
        try:
            answer = self._nvml.ask(function, handle, *args)
        except self._nvml.error as error:
            if says_gone(error):
                raise
            self._failure = error
            return None
        if answer is None:
            self._absent.add(question)
        else:
            self._answers += 1
        return answer

    def read(self) -> dict[str, Any]:
        """Everything the device tells now; what it does not tell is absent.

        It is empty when all that was asked failed.

        Keys: ``memory`` [used, total] MiB, ``load`` 0 to 1, ``temperature`` Celsius, ``power`` and
        ``power_limit`` W, ``clocks`` {sm, mem} MHz, ``throttle`` [reason], ``name``, ``uuid``.

        Raises:
            NVMLError: The device is lost, or has not answered for several readings.
        """
        self._failure, self._answers = None, 0
        known = {
            "memory": self._memory(),
            "load": self._load(),
            "temperature": self._temperature(),
            "power": self._watts("nvmlDeviceGetPowerUsage"),
            "power_limit": self._watts("nvmlDeviceGetEnforcedPowerLimit"),
            "clocks": self._clocks() or None,
            "throttle": self._throttle(),
            "name": self.name or None,
            "uuid": self.uuid,
        }
        if self._failure is None or self._answers:
            self._silent = 0
            return {key: value for key, value in known.items() if value is not None}
        self._silent += 1
        if self._silent >= SILENT:
            raise self._failure
        return {}

    def _memory(self) -> list[float] | None:
        # The second version leaves out what the driver reserves, as nvidia-smi does.
        function, second = "nvmlDeviceGetMemoryInfo", self._nvml.constant("nvmlMemory_v2")
        memory = second and self._ask(function, self._handle, second)
        if not second or (function, second) in self._absent:
            memory = self._ask(function, self._handle)
        return [round(memory.used / MIB, 1), round(memory.total / MIB, 1)] if memory else None

    def _load(self) -> float | None:
        utilisation = self._ask("nvmlDeviceGetUtilizationRates", self._handle)
        return None if utilisation is None else utilisation.gpu / 100

    def _temperature(self) -> float | None:
        sensor = self._nvml.constant("NVML_TEMPERATURE_GPU") or 0
        celsius: float | None = self._ask("nvmlDeviceGetTemperature", self._board, sensor)
        return celsius

    def _watts(self, function: str) -> float | None:
        if self._is_instance:  # NVML knows the whole board's power only.
            return None
        milliwatts = self._ask(function, self._board)
        return None if milliwatts is None else milliwatts / 1000

    def _clocks(self) -> dict[str, int]:
        wanted = (("sm", "NVML_CLOCK_SM"), ("mem", "NVML_CLOCK_MEM"))
        clocks = {
            name: self._ask("nvmlDeviceGetClockInfo", self._board, self._nvml.constant(code))
            for name, code in wanted
        }
        return {name: mhz for name, mhz in clocks.items() if mhz is not None}

    def _throttle(self) -> list[str] | None:
        # The first name is the newer one; drivers before 535 know only the second.
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._board)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._board)
        return None if bits is None else throttle_words(bits)


def _text(value: object) -> str:
    if isinstance(value, bytes):  # As early versions of the binding gave it.
        return value.decode(errors="replace")
    return "" if value is None else str(value)
