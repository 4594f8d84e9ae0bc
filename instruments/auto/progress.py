"""The progress of tqdm's bars, given each time one is drawn: about ten times a second at most."""

from __future__ import annotations

from typing import Any

from overseer import Overseer
from overseer.wrapping import Undo, ahead_of

#: Bars that are told apart; a script that names more has the rest left out.
BARS = 64


class Progress:
    """Sees tqdm's bars, once the script has imported it.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._undo: Undo | None = None
        self._bars: dict[str, dict[str, Any]] = {}
        self._began: dict[str, tuple[int, float]] = {}

    def tqdm_imported(self, module: Any) -> None:
        """Have each drawing of a bar told."""
        kind = getattr(module, "tqdm", None)
        if isinstance(kind, type) and "display" in vars(kind):
            self._undo = ahead_of(kind, "display", self._drawn)

    def close(self) -> None:
        """Look no longer, and say what the bars came to."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        if self._bars:
            self._ov.summary["progress"] = list(self._bars.values())

    def _drawn(self, bar: Any) -> None:
        try:
            name, done, total = named(bar.desc, abs(bar.pos or 0)), bar.n, bar.total
        except Exception:
            return  # A bar that is half made, or somebody's own.
        if isinstance(done, int | float) and (total is None or isinstance(total, int | float)):
            self._tell(name, done, total)

    def _tell(self, name: str, done: float, total: float | None) -> None:
        if name not in self._bars and len(self._bars) >= BARS:
            return
        now = self._ov.clock.now_ns()
        since, first = self._began.get(name, (now, done))
        if done < first or name not in self._began:  # Another bar of the same name.
            since, first = self._began[name] = (now, done)
        entry: dict[str, Any] = {"task": name, "done": done}
        if total is not None:
            entry["total"] = total
        self._bars[name] = {**entry, "seconds": (now - since) / 1e9}
        if total is not None:
            self._ov.publish(task=name, progress=(done, total))


def named(description: object, position: int) -> str:
    """A name for a bar that stays the same from epoch to epoch: its text without numbers."""
    text = description if isinstance(description, str) else ""
    words = "".join(" " if c.isdigit() or c in ":/[]()=%" else c for c in text).split()
    name = " ".join(words)[:40] or "progress"
    return name if not position else f"{name} ({position + 1})"
