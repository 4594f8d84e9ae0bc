"""Every error has a slug, and docs/errors.md an entry for each slug: no more, no less."""

from __future__ import annotations

import ast
import re
from functools import cache

from .source import ROOT, dotted, each, imports, modules

PAGE = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
#: Text before the first entry has no heading of this kind.
ENTRIES = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def last(node: ast.expr) -> str:
    return (dotted(node) or "").rpartition(".")[2]


@cache
def slugs() -> set[str]:
    """The literals that stand first in an error, or in what passes one on as ``slug``."""
    errors = {"Problem", "VoirError"}
    for _ in range(3):  # A subclass may stand before its base, or in another file.
        errors |= {c.name for _, c in each(ast.ClassDef) if errors & {last(b) for b in c.bases}}
    passing = {
        function.name
        for _, function in each(ast.FunctionDef)
        if [a.arg for a in function.args.args if a.arg != "self"][:1] == ["slug"]
    } - {"__init__"}
    every = [one for module in modules() for one in imports(module)]
    takers = errors | passing | {one.known_as or "" for one in every if one.name in passing}
    calls = [(last(call.func), call.args[0]) for _, call in each(ast.Call) if call.args]
    computed = {last(one) for name, one in calls if name in errors and not is_literal(one)}
    assert computed <= {"slug"}
    given = [one for name, one in calls if name in takers]
    for _, n in each(ast.Assign):
        if isinstance(n.targets[0], ast.Tuple) and isinstance(n.value, ast.Tuple):
            pairs = zip(n.targets[0].elts, n.value.elts, strict=True)
            given += [value for target, value in pairs if last(target) == "slug"]
    return {one.value for one in given if is_literal(one)}


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def test_every_slug_of_the_source_has_an_entry_and_there_are_no_others() -> None:
    assert len(slugs()) > 100
    assert slugs() ^ ENTRIES.keys() == set(), "write an entry in docs/errors.md, or take it out"
    assert [slug for slug in slugs() if not re.fullmatch(r"[a-z]+(-[a-z]+)*", slug)] == []


def test_every_entry_shows_the_message_and_a_remedy() -> None:
    for slug, text in ENTRIES.items():
        example, _, rest = text.partition("```text\n")[2].partition("```")
        assert f"[{slug}]" in example, f"{slug}: no example message"
        assert len(text.partition("```")[0].split()) >= 5, f"{slug}: what does it mean?"
        assert len(rest.split()) >= 5, f"{slug}: what is to be done?"


def test_entries_are_in_order_within_their_section() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE):
        found = re.findall(r"^### `([^`]+)`", section, re.MULTILINE)
        assert found == sorted(found)
