"""``log("loss", context=["task"])``: send given values out of the process, each one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from fnmatch import fnmatchcase
from typing import Any

from overseer import Overseer, instrument_definition


@instrument_definition
def log(
    ov: Overseer, *patterns: str, context: str | Iterable[str] = ()
) -> Generator[Any, Any, None]:
    """Forward given keys to ``ov.log``: to the run's ``metrics.jsonl`` and to ``DATA_FD``.

    Args:
        ov: The overseer.
        patterns: Keys, or shell patterns of keys, to forward; ``+key`` is the same as naming it
            in ``context``.
        context: Keys to forward along, but never alone.
    """
    extra = [context] if isinstance(context, str) else list(context)
    extra += [p[1:] for p in patterns if p.startswith("+")]
    wanted = [p for p in patterns if not p.startswith("+")]
    yield ov.phases.init
    ov.listen(_forward(ov.log, wanted, extra))


def _forward(
    send: Callable[[dict[str, Any]], Any], wanted: list[str], extra: list[str]
) -> Callable[[dict[str, Any]], None]:
    # A script gives the same few combinations of keys for ever, so each is matched once.
    chosen: dict[tuple[str, ...], tuple[str, ...]] = {}

    def choose(shape: tuple[str, ...]) -> tuple[str, ...]:
        if not any(_matches(key, wanted) for key in shape):
            return ()
        return tuple(key for key in shape if _matches(key, wanted) or _matches(key, extra))

    def forward(event: dict[str, Any]) -> None:
        shape = tuple(event)
        if shape not in chosen and len(chosen) < 1000:
            chosen[shape] = choose(shape)
        keys = chosen[shape] if shape in chosen else choose(shape)
        if keys:
            send({key: event[key] for key in keys})

    return forward


def _matches(key: str, patterns: list[str]) -> bool:
    return any(key == pattern or fnmatchcase(key, pattern) for pattern in patterns)
