"""``--app FILE``: data of the user's own, shown with the run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from overseer import Overseer
from overseer.errors import UsageError


def instrument_app(ov: Overseer) -> Generator[Any, Any, None]:
    """Show what is in the file that the option names."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--app",
        type=_read,
        metavar="FILE",
        help="show this JSON object in the summary, and keep it in run.json",
    )
    yield ov.phases.parse_args(priority=100)
    if ov.options.app is not None:
        ov.app(ov.options.app)


def _read(path: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UsageError: It cannot be read, or is none.
    """
    import json

    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _refused(path, f"holds a {type(found).__name__}, not an object")
    return found


def _refused(path: str, why: str) -> UsageError:
    remedy = 'Write an object into it, for example {"dataset": "digits", "revision": 3}.'
    return UsageError("app-file", f"--app {path} {why}", remedy)
