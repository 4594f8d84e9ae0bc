"""Rules for every file of the project."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from .source import ROOT, modules

TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".json", ".svg", ".cfg", ""}


def files() -> list[Path]:
    """Every file that is, or is about to be, in the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, or no git")
    return [ROOT / name for name in listed.decode().split("\n") if name and (ROOT / name).is_file()]


def test_no_file_names_the_machine_it_was_written_on() -> None:
    # Homes and work directories of whoever wrote it; "me" and "user" are anybody.
    place = re.compile(r"(?<![\w./-])/(?:(?:work|root)/\w|(?:home|Users)/(?!me\b|user\b)\w)")
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files()
        if file.suffix in TEXT
        for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), 1)
        if place.search(line)
    ]
    assert found == []


def test_every_module_docstring_begins_with_a_sentence() -> None:
    def first_line(node: ast.Module) -> str:
        return (ast.get_docstring(node) or "").partition("\n")[0]

    assert [m.name for m in modules() if not first_line(m.tree).endswith((".", "?"))] == []


def test_no_file_has_a_vague_name() -> None:
    vague = {"utils", "helpers", "common", "manager", "misc", "util", "helper"}
    assert [m.name for m in modules("overseer", "instruments") if m.path.stem in vague] == []
