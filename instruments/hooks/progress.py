"""Publishes tqdm's progress whenever a bar is drawn: at most some ten times a second."""

from __future__ import annotations

import re
from functools import wraps

from ..places import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from overseer import Overseer

#: Distinct bars that are followed; further ones are ignored.
MAX_BARS = 64
#: Epochs in descriptions: ``Epoch 3/10``, ``epoch [3/10]``.
_EPOCH = re.compile(r"epochs?\W{0,3}(\d{1,9})\s*(?:/|of)\s*(\d{1,9})", re.IGNORECASE)


def place(ov: Overseer, places: Places, std: Any) -> None:
    """Publish each drawing of a bar.

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
    began: dict[str, int] = {}

    from_zero, outer = set[str](), set[str]()

    def tell(name: str, done: float, total: float | None, turn: tuple[int, int] | None) -> None:
        now = ov.clock.now_ns()
        since = began.get(name, now)
        last = bars.get(name)
        if last is None or done < last["done"]:  # Another bar of the same name.
            since = began[name] = now
        more = {} if total is None else {"total": total}
        bars[name] = {"task": name, "done": done, **more, "seconds": (now - since) / 1e9}
        ov.summary["progress"] = list(bars.values())
        if total is not None:
            if turn is not None and turn[0] == 0:
                from_zero.add(name)
            if turn is not None and name in from_zero:
                turn = turn[0] + 1, turn[1]
            # An outer bar is the loop itself.
            of = {} if name in outer else {"turn": turn}
            ov.publish(task=name, progress=(done, total), **of)

    @wraps(display)
    def drawn(bar: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            name, done, total = named(bar.desc, abs(bar.pos or 0)), bar.n, bar.total
            told = isinstance(done, int | float) and (
                total is None or isinstance(total, int | float)
            )
            if told and (name in bars or len(bars) < MAX_BARS):
                tell(name, done, total, turn_of(bar, kind, outer.add))
        except AttributeError:
            pass  # A bar under construction, or a subclass without the attributes.
        return display(bar, *args, **kwargs)

    places.put(kind, "display", drawn)


def turn_of(bar: Any, kind: Any, found: Callable[[str], object] = bool) -> tuple[int, int] | None:
    """The epoch that a bar belongs to, of how many; from its description, else the outer bar.

    Args:
        bar: The bar.
        kind: Its class.
        found: Called with the name of the outer bar.
    """
    bars = list(getattr(kind, "_instances", ()))
    around = [one for one in bars if abs(one.pos or 0) < abs(bar.pos or 0)]
    outer = max(around, key=lambda one: abs(one.pos or 0), default=None)
    if outer is not None:
        found(named(outer.desc, abs(outer.pos or 0)))
    if isinstance(bar.desc, str) and (told := _EPOCH.search(bar.desc)):
        return int(told[1]), int(told[2])
    if outer is None or type(outer.n) is not int or type(outer.total) is not int:
        return None
    return min(outer.n + 1, outer.total), outer.total


def named(description: object, position: int) -> str:
    """Name a bar by its description without numbers, so that epochs share the name."""
    text = description if isinstance(description, str) else ""
    words = "".join(" " if c.isdigit() or c in ":/[]()=%" else c for c in text).split()
    name = " ".join(words)[:40] or "progress"
    return name if not position else f"{name} ({position + 1})"
