"""What the documentation points at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source import modules

from .blocks import PAGES, ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The fragments that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target, _, fragment = link.partition("#")
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name}: {link}"
        assert not fragment or fragment in anchors(file), f"{page.name}: {link}"


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    pages = {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"}
    assert pages <= {link.partition("#")[0] for link in linked}


def test_every_page_that_the_source_mentions_exists() -> None:
    texts = (module.path.read_text(encoding="utf-8") for module in modules())
    mentioned = {name for text in texts for name in re.findall(r"docs/[\w-]+\.md", text)}
    assert mentioned
    assert [name for name in sorted(mentioned) if not (ROOT / name).exists()] == []
