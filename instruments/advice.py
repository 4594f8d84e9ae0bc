"""Suggests the voirfile line that would show a missing figure, in the script's own names."""

from __future__ import annotations

from functools import cached_property

from overseer.apart import aside
from overseer.errors import VoirError
from overseer.probes.selector import MAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer
    from overseer.script_analysis.script import ModuleSource

#: Lines for scripts whose text suggests none; the user replaces the names in capitals.
GENERIC = {
    "step": 'ov.probe("//FUNCTION(BATCH as batch) > #endloop_BATCH as step").give()',
    "loss": 'ov.probe("//FUNCTION > LOSS as loss").give()',
    "loading": 'ov.probe("//FUNCTION(!#enter as loading, !!#exit as loaded)").give()',
    "pause": 'ov.probe("//FUNCTION(!#enter as pause, !!#exit as resumed)").give()',
}
#: The remedy for batches without a length.
GIVE_BATCH_SIZE = (
    "Give batch_size in place of batch, or rate(batch_size_calc=...) a function of the batch."
)


class Advice:
    """Suggested lines for one script.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov

    @cached_property
    def _sources(self) -> list[ModuleSource]:
        with aside:
            return self._read()

    def _read(self) -> list[ModuleSource]:
        """Read the script and the modules of its project that it imports."""
        from os.path import dirname

        from overseer.script_analysis.script import open_source, project

        ov = self._ov
        if ov.program is None or ov.program.file is None:
            return []
        module, _, function = (ov.options.MODULE or "").partition(":")
        package, root = module.rpartition(".")[0], dirname(ov.program.file)
        for _ in package.split(".") if package else ():
            root = dirname(root)
        try:
            script = open_source(ov.program.file, module if function else MAIN)
        except VoirError:  # The file cannot be read.
            return []
        return project(script, root, package)

    @cached_property
    def _lines(self) -> dict[str, str]:
        with aside:
            from overseer.script_analysis.text import lines, read

            found = read(self._sources)
            every = [*found.lines, *lines(self._sources)]
        own = {one.role.partition(" ")[0]: one.code for one in reversed(every)}
        if found.notes and not any(one.role.startswith("step") for one in found.lines):
            own["step"] = found.notes[-1]
        return {**GENERIC, **own}

    def line(self, role: str) -> str | None:
        """The line that shows ``role``; None if there is none, or a voirfile has it."""
        if self._ov.program is None:  # No probe reaches a process of multiprocessing.
            return None
        line = self._lines[role] if self._sources else GENERIC[role]
        probes = (probe["selector"] for probe in self._ov.probe_verdicts())
        return None if any(f'"{selector}"' in line for selector in probes) else line

    def instead(self, probe: dict[str, Any]) -> str | None:
        """The line that replaces the one of a probe that never fired."""
        import linecache

        from overseer.script_analysis.script import corrected

        selector, (path, _, line) = probe["selector"], str(probe.get("where")).rpartition(":")
        written = linecache.getline(path, int(line)).strip() if line.isdecimal() else ""
        if "no subscriber" in str(probe.get("hint")):
            return f"{written}.give()" if written.endswith(")") else None
        better = corrected(selector, self._sources) if self._sources else None
        if better is None or better == selector:
            return None
        given = f'ov.probe("{better}").give()'
        return written.replace(selector, better) if selector in written else given
