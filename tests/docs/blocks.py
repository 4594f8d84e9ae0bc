"""The fenced blocks of the documentation, and comparing what they show with what comes out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The file it is in, from the root.
        line: Where its text begins.
        language: What stands behind the opening fence.
        heading: The heading it is under.
    """

    page: str
    line: int
    language: str
    heading: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` block, and the output shown below it; empty if none is."""

    block: Block
    command: str
    output: str


_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(language: str, *pages: Path) -> list[Block]:
    """Every block of ``language`` in ``pages``, in all of the documentation when none is named."""
    return [b for page in pages or PAGES for b in _in_page(page) if b.language == language]


def _in_page(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        headings = _HEADING.findall(_FENCE.sub("", before))
        line = before.count("\n") + 2
        name = page.relative_to(ROOT).as_posix()
        found.append(Block(name, line, match[1], headings[-1] if headings else "", match[2]))
    return found


def commands() -> list[Command]:
    """Every command that the documentation shows."""
    return [command for block in blocks("console") for command in _commands(block)]


def _commands(block: Block) -> list[Command]:
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block}: a console block begins with a command"
    found = []
    for part in parts[1:]:
        line, _, output = part.partition("\n")
        found.append(Command(block, re.sub(r"\s+#.*", "", line).strip(), output))
    return found


def same(shown: str, actual: str) -> bool:
    """Whether ``actual`` is what is shown; ``...`` in it stands for anything, on one line."""
    lines = [re.escape(line).replace(r"\.\.\.", ".*") for line in shown.strip("\n").split("\n")]
    return re.fullmatch("\n".join(lines), actual.strip("\n")) is not None


def contains(shown: str, actual: str) -> bool:
    """Whether the lines that are shown are in ``actual``, one after the other."""
    wanted, lines = shown.strip("\n").split("\n"), actual.split("\n")
    length = len(wanted)
    slices = ("\n".join(lines[start : start + length]) for start in range(len(lines)))
    return any(same(shown, one) for one in slices)
