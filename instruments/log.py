"""``log("loss", context=["task"])`` forwards given values; ``--display`` prints them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from overseer import instrument_definition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any

    from overseer import Overseer


@instrument_definition
def log(
    ov: Overseer, *patterns: str, context: str | Iterable[str] = ()
) -> Generator[Any, Any, None]:
    """Forward given keys to ``ov.log``: to the run's ``metrics.jsonl`` and to ``DATA_FD``.

    Args:
        ov: The overseer.
        patterns: Keys, or shell patterns of keys, to forward; ``+key`` adds one to ``context``.
        context: Keys to forward with others, never alone.
    """
    along = [context] if isinstance(context, str) else list(context)
    along += [pattern[1:] for pattern in patterns if pattern.startswith("+")]
    wanted = [pattern for pattern in patterns if not pattern.startswith("+")]
    yield ov.phases.init
    ov.listen(_forward(ov.log, wanted, along))


def _forward(
    send: Callable[[dict[str, Any]], Any], wanted: list[str], along: list[str]
) -> Callable[[dict[str, Any]], None]:
    @lru_cache(1000)  # Scripts give few combinations of keys.
    def chosen(keys: tuple[str, ...]) -> list[str]:
        if not any(_matches(key, wanted) for key in keys):
            return []
        return [key for key in keys if _matches(key, wanted) or _matches(key, along)]

    def forward(event: dict[str, Any]) -> None:
        if found := chosen(tuple(event)):
            send({key: event[key] for key in found})

    return forward


def _matches(key: str, patterns: list[str]) -> bool:
    return any(key == pattern or fnmatchcase(key, pattern) for pattern in patterns)


def instrument_display(ov: Overseer) -> Generator[Any, Any, None]:
    """Print every given event on stdout if the option is set."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--display", action="store_true", help="print every given event on stdout"
    )
    yield ov.phases.parse_args
    if ov.options.display:
        ov.given.display()
