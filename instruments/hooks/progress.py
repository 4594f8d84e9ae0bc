"""Reports tqdm's progress each time a bar is drawn: about ten times a second at most."""

from __future__ import annotations

from functools import wraps

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer

#: Bars that are told apart; a script that names more has the rest left out.
BARS = 64


def place(ov: Overseer, places: Places, std: Any) -> None:
    """Have each drawing of a bar told.

    Args:
        ov: The run.
        places: Where callables are placed.
        std: ``tqdm.std``.
    """
    kind = getattr(std, "tqdm", None)
    display = vars(kind).get("display") if isinstance(kind, type) else None
    if display is None:
        return
    bars: dict[str, dict[str, Any]] = {}
    began: dict[str, tuple[int, float]] = {}

    def tell(name: str, done: float, total: float | None) -> None:
        now = ov.clock.now_ns()
        since, first = began.get(name, (now, done))
        if done < first or name not in began:  # Another bar of the same name.
            since, first = began[name] = (now, done)
        more = {} if total is None else {"total": total}
        bars[name] = {"task": name, "done": done, **more, "seconds": (now - since) / 1e9}
        ov.summary["progress"] = list(bars.values())
        if total is not None:
            ov.publish(task=name, progress=(done, total))

    @wraps(display)
    def drawn(bar: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            name, done, total = named(bar.desc, abs(bar.pos or 0)), bar.n, bar.total
            told = isinstance(done, int | float) and (
                total is None or isinstance(total, int | float)
            )
            if told and (name in bars or len(bars) < BARS):
                tell(name, done, total)
        except AttributeError:
            pass  # A bar that is half made, or somebody's own.
        return display(bar, *args, **kwargs)

    places.put(kind, "display", drawn)


def named(description: object, position: int) -> str:
    """A name for a bar that stays the same from epoch to epoch: its text without numbers."""
    text = description if isinstance(description, str) else ""
    words = "".join(" " if c.isdigit() or c in ":/[]()=%" else c for c in text).split()
    name = " ".join(words)[:40] or "progress"
    return name if not position else f"{name} ({position + 1})"
