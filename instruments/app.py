"""``--app FILE``: shows the user's own data with the run."""

from __future__ import annotations

from overseer.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer

APP_EXAMPLE = 'Write an object into it, for example {"dataset": "digits", "revision": 3}.'


def instrument_app(ov: Overseer) -> Generator[Any, Any, None]:
    """Show the object in the file that the option names."""
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
    """Read the object in a JSON file.

    Raises:
        UsageError: The file cannot be read or holds no object (``app-file``).
    """
    import json

    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError("app-file", f"--app {path} {why}", APP_EXAMPLE) from None
    if not isinstance(found, dict):
        what = f"--app {path} holds a {type(found).__name__}, not an object"
        raise UsageError("app-file", what, APP_EXAMPLE)
    return found
