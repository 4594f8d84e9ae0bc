"""The one file that imports ptera: its grammar, and its engine for the slow path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import VoirError


def check(selector: Any) -> None:
    """Raise a :class:`VoirError` that points at the character that cannot be read."""
    from ptera.selector import parse  # type: ignore[import-untyped]

    if not isinstance(selector, str):
        return
    try:
        parse(selector)
    except SyntaxError as error:
        column = (error.offset or 1) - 1
        raise VoirError(
            "selector", f"{error.msg}\n  {selector}\n  {' ' * column}^", "See docs/selectors.md"
        ) from None
    except Exception:
        raise VoirError("selector", f"cannot read {selector!r}", "See docs/selectors.md") from None


def attach(selector: Any, options: dict[str, Any], emit: Callable[[Any], object]) -> Any:
    """Hand the selector to ptera; ``emit`` gets each event and returns a replacement or absent."""
    from ptera.probe import OverridableProbe, Probe  # type: ignore[import-untyped]
    from ptera.utils import ABSENT  # type: ignore[import-untyped]

    from .engine import ABSENT as OURS

    options = dict(options)
    base: Any = OverridableProbe if options.pop("overridable") else Probe

    class Attached(base):  # type: ignore[misc]
        def _push(self, data: Any) -> None:
            value = emit(data)
            self._value = ABSENT if value is OURS else value

    probe = Attached(selector, **options)
    probe.activate()
    return probe
