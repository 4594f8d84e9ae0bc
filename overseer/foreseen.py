"""Whether a script may learn by PyTorch, which it may import when it is at work."""

from __future__ import annotations

import os
from collections.abc import Iterator

#: What a text has that may import PyTorch, or learn by it.
_LEARNS = (b"torch", b"backward")
#: Modules that are looked for at most, and how much of each is read.
_MODULES, _LONGEST = 200, 2 << 20


def may_learn(script: str) -> bool:
    """Whether PyTorch stands in a script's text, or in that of a module beside it that it imports.

    This is asked of any script, so it is a search in the plain text: parsing would take longer.
    """
    text = _text(script)
    if _speaks_of_it(text):
        return True
    here = os.path.dirname(os.path.abspath(script))
    above = os.path.dirname(here)
    roots = [here, os.path.join(here, "src"), above, os.path.join(above, "src")]
    for name in list(dict.fromkeys(_modules(text)))[:_MODULES]:
        for root in roots:
            path = os.path.join(root, *name.split("."))
            files = f"{path}.py", os.path.join(path, "__init__.py")
            if any(_speaks_of_it(_text(file)) for file in files):
                return True
    return False


def _speaks_of_it(text: bytes) -> bool:
    return any(word in text for word in _LEARNS)


def _modules(text: bytes) -> Iterator[str]:
    """The modules that a text's import statements name first."""
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        if len(words) > 1 and words[0] in (b"from", b"import"):
            name = words[1].strip(b".,;").decode("utf-8", "replace")
            if name.replace(".", "").isidentifier():  # It may be a line of some other text.
                yield name


def _text(path: str) -> bytes:
    """What a file holds; nothing, if it is none: what a pipe holds is for the script alone."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_LONGEST)
    except OSError:
        pass
    return b""
