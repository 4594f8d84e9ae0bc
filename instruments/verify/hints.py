"""The very line to write in a voirfile, from what the script's own text says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overseer.errors import VoirError

if TYPE_CHECKING:
    from overseer.reading import Reading

#: Lines for scripts whose text does not tell; the names in capitals are to be replaced.
GENERIC = {
    "loss": 'ov.probe("//FUNCTION > LOSS as loss").give()',
    "step": 'ov.probe("//FUNCTION(BATCH as batch) > #endloop_BATCH as step").give()',
    "pair": 'ov.probe("//FUNCTION(BATCH as batch, !#loop_BATCH as compute_start, '
    '!!#endloop_BATCH as compute_end)").give()',
    "loader": 'ov.probe("//FUNCTION > LOADER as loader").give()',
    "model": 'ov.probe("//FUNCTION > MODEL as model").give()',
    "pause": 'ov.probe("//FUNCTION(!#enter as pause, !!#exit as resumed)").give()',
}
#: Words of a selector, and the role of a probe that has them.
_WORDS = {
    "compute_start": "pair",
    "as loading": "pair",
    "as step": "step",
    "as pause": "pause",
    "loader": "loader",
    "model": "model",
    "options": "options",
    "loss": "loss",
}


class Proposals:
    """What a voirfile for a script would say; the script is read when first asked.

    Args:
        script: Its file.
    """

    def __init__(self, script: str | None) -> None:
        self._script = script
        self._reading: Reading | None = None

    def line(self, role: str) -> str | None:
        """The line that shows ``role``, if the script's text tells."""
        reading = self._read()
        found = reading.of(role) if reading is not None else None
        return found.line if found is not None else None

    @property
    def learns(self) -> bool:
        """Whether the script learns, as far as its text tells."""
        reading = self._read()
        return reading is None or reading.learns

    def _read(self) -> Reading | None:
        if self._script is not None:
            self._reading, self._script = _read(self._script), None
        return self._reading

    def instead_of(self, selector: str) -> str | None:
        """The line in place of ``selector``, which came to nothing."""
        line = next((self.line(role) for word, role in _WORDS.items() if word in selector), None)
        line = line or self._nearest(selector)
        return line if line is not None and f'"{selector}"' not in line else None

    def _nearest(self, selector: str) -> str | None:
        """The line whose selector is most like this one, if any is."""
        from difflib import get_close_matches

        reading = self._read()
        lines = {f.selector: f.line for f in reading.findings} if reading is not None else {}
        near = get_close_matches(selector, lines, 1)
        return lines[near[0]] if near else None


def _read(script: str) -> Reading | None:
    from overseer.reading import open_script, read_script

    try:
        return read_script(open_script(script))
    except (VoirError, RecursionError):
        return None
