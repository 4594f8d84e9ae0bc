"""Directories with the files that the documentation shows, where its commands work."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from tests.running import Place, Ran

from .blocks import ROOT, Block, blocks

FIXTURES = Path(__file__).with_name("fixtures")


class ShownPlace(Place):
    """A directory with the fixtures, where ``voir`` and ``python`` are the ones under test."""

    def __init__(self, path: Path) -> None:
        super().__init__(path / "project")
        shutil.copytree(FIXTURES, self.path)
        (self.path / "pyproject.toml").touch()  # Nothing above is this project's.
        self._bin = path / "bin"
        self._bin.mkdir()
        self._command("voir", "-m", "voir")
        self._command("python")

    def _command(self, name: str, *arguments: str) -> None:
        file = self._bin / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" {" ".join(arguments)} "$@"\n')
        file.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        """The environment in which its commands are found."""
        return {"PATH": os.pathsep.join([str(self._bin), os.environ["PATH"]])}

    def shell(self, command: str) -> Ran:
        """Run a command line; a single command of voir in a fork that has imported torch."""
        words = shlex.split(command)
        if words[0] == "voir" and not set(command) & set("|&;<>$*?~`"):
            return self.voir(*words[1:], warm=True, env=self.env)
        return self.run("sh", "-c", command, env=self.env)

    def put(self, block: Block) -> str:
        """Write a Python block to the file it stands for; its name."""
        name = name_of(block)
        self.write(name, block.text)
        return name


def name_of(block: Block) -> str:
    """The file that a Python block stands for: a voirfile, the script, or a program beside it."""
    if "def instrument_" in block.text:
        return "voirfile.py"
    return "main.py" if "__main__" in block.text else "program.py"


def files_before(block: Block) -> list[Block]:
    """The Python blocks that the block's page has shown by then, in order."""
    return [b for b in blocks("python", ROOT / block.page) if b.line < block.line]
