"""Every error has a slug, and docs/errors.md an entry for each slug: no more, no less."""

from __future__ import annotations

import re

from .slugs import slugs
from .source import ROOT

PAGE = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
#: What stands before the first entry has no heading of this kind.
ENTRIES = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_slug_of_the_source_has_an_entry_and_there_are_no_others() -> None:
    places = {slug: slugs().get(slug) for slug in slugs().keys() ^ ENTRIES.keys()}
    assert not places, "write an entry in docs/errors.md, or take it out"


def test_every_entry_shows_the_message_and_says_what_to_do() -> None:
    for slug, text in ENTRIES.items():
        example, _, rest = text.partition("```text\n")[2].partition("```")
        assert f"[{slug}]" in example, f"{slug}: no example message"
        assert len(text.partition("```")[0].split()) >= 5, f"{slug}: what does it mean?"
        assert len(rest.split()) >= 5, f"{slug}: what is to be done?"


def test_entries_are_in_order_within_their_section() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE):
        found = re.findall(r"^### `([^`]+)`", section, re.MULTILINE)
        assert found == sorted(found)


def test_the_slugs_are_lower_case_words() -> None:
    assert [slug for slug in slugs() if not re.fullmatch(r"[a-z]+(-[a-z]+)*", slug)] == []


def test_slugs_are_found_in_every_way_they_are_written() -> None:
    # The first argument of an error class, of a subclass, and by way of a local variable; of a
    # method that passes it on, and of a function of another module.
    assert {"no-script", "no-file", "voirfile-syntax", "gpu-lost", "finalize"} <= slugs().keys()
