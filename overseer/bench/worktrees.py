"""Commits side by side: a git worktree for each, in sibling directories of equal length.

The user's working tree, index and branches are not touched. Changes that are not committed become
a commit that no branch refers to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ..clock import process_start
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Begins the name of a bench's directory; its process follows.
_PREFIX = "voir-bench-"
#: Stands for the working tree with its uncommitted changes.
HERE = "."
#: The author of the commit that holds uncommitted changes.
_AUTHOR = {
    "GIT_AUTHOR_NAME": "voir bench", "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "voir bench", "GIT_COMMITTER_EMAIL": "bench@localhost",
}  # fmt: skip


class Worktrees:
    """The worktrees of a bench; a context manager that removes them.

    Args:
        here: A directory of the repository; processes run in the same directory of a worktree.
        linked: Untracked paths that each worktree gets a link to.

    Raises:
        UsageError: ``here`` is in no repository, or git is not installed.
    """

    def __init__(self, here: Path, linked: Sequence[str] = ()) -> None:
        self._here, self._linked = here, linked
        self.top = Path(_git(here, "rev-parse", "--show-toplevel"))
        self._inside = here.resolve().relative_to(self.top.resolve())
        self._base = Path()
        self._of: dict[str, Path] = {}
        self._swapped = list[tuple[str, str]]()
        for name in linked:
            if not (here / name).exists():
                what = f"voir bench --link {name}: there is no such file or directory"
                raise UsageError("usage", what, "Name a path that exists here.")
            if not (here / name).resolve().is_relative_to(self.top.resolve()):
                what = f"voir bench --link {name}: it is not in the repository"
                raise UsageError("usage", what, "Processes find it where it is: leave --link out.")

    def __enter__(self) -> Worktrees:
        self._remove_dead()
        self._base = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        return self

    def _remove_dead(self) -> None:
        """Remove the worktrees of benches that were killed."""
        for line in _git(self.top, "worktree", "list", "--porcelain").splitlines():
            path = Path(line.removeprefix("worktree "))
            owner = path.parent.name.removeprefix(_PREFIX).partition("-")[0]
            dead = owner.isdecimal() and process_start(int(owner)) <= 0
            if path.parent.name.startswith(_PREFIX) and dead:
                with suppress(UsageError):
                    _git(self.top, "worktree", "remove", "--force", "--force", str(path))
                with suppress(OSError):
                    path.parent.rmdir()

    def __exit__(self, *_: object) -> None:
        for pair in self._swapped[::-1]:  # git removes a worktree only from where it made it.
            self._exchange(*pair)
        for path in self._of.values():
            for link in self._links(path):  # git would follow none of them, but be sure.
                with suppress(OSError):
                    link.unlink()
            with suppress(UsageError):
                _git(self.top, "worktree", "remove", "--force", str(path))
        shutil.rmtree(self._base, ignore_errors=True)

    def sha(self, ref: str) -> str:
        """The commit that ``ref`` names; for ``.``, a new one with all uncommitted changes.

        Raises:
            UsageError: There is no such commit.
        """
        if ref == HERE:
            return self._uncommitted()
        try:
            return _git(self._here, "rev-parse", "--verify", "--quiet", "--end-of-options",
                f"{ref}^{{commit}}")  # fmt: skip
        except UsageError:
            near = _git(self._here, "for-each-ref", "--format=%(refname:short)", "--count=8")
            known = ", ".join(near.split()) or "none"
            what = f"--ref {ref}: the repository {self.top} has no such commit"
            raise UsageError("usage", what, f"Its branches and tags: {known}.") from None

    def _uncommitted(self) -> str:
        """Store the working tree as a commit: what is tracked, and new files not ignored."""
        head = _git(self.top, "rev-parse", "HEAD")
        with tempfile.TemporaryDirectory(prefix="voir-bench-") as directory:
            own = {"GIT_INDEX_FILE": str(Path(directory) / "index")}
            _git(self.top, "read-tree", "HEAD", env=own)
            _git(self.top, "add", "--all", env=own)
            tree = _git(self.top, "write-tree", env=own)
        if tree == _git(self.top, "rev-parse", "HEAD^{tree}"):
            return head
        return _git(self.top, "commit-tree", tree, "-p", head, "-m", "uncommitted", env=_AUTHOR)

    def add(self, side: str, sha: str) -> None:
        """Check a commit out for a side, compile its modules, and read its files once.

        Raises:
            UsageError: git refuses, for example as the disk is full.
        """
        path = self._base / f"{len(self._of):03}"
        _git(self.top, "worktree", "add", "--detach", "--quiet", str(path), sha)
        self._of[side] = path
        for name, link in zip(self._linked, self._links(path), strict=True):
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                link.rmdir()  # Of a submodule, there is an empty directory.
            with suppress(FileExistsError):
                link.symlink_to((self._here / name).resolve())
        compiling = [sys.executable, "-m", "compileall", "-q", str(path)]
        subprocess.run(compiling, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        for file in path.rglob("*"):
            if file.is_file() and not file.is_symlink():
                with suppress(OSError), file.open("rb") as opened:
                    while opened.read(1 << 20):
                        pass

    def _links(self, path: Path) -> list[Path]:
        return [path / self._inside / name for name in self._linked]

    def directory(self, side: str) -> Path:
        """Where the processes of a side run."""
        return self._of[side] / self._inside

    def swap(self, one: str, other: str) -> None:
        """Exchange the directories of two sides, so that a path favours neither."""
        self._exchange(one, other)
        self._swapped.append((one, other))

    def _exchange(self, one: str, other: str) -> None:
        a, b, between = self._of[one], self._of[other], self._base / "swap"
        a.rename(between)
        b.rename(a)
        between.rename(b)
        self._of[one], self._of[other] = b, a

    def dirty(self) -> bool:
        """Whether the working tree has changes that are not committed."""
        return bool(_git(self.top, "status", "--porcelain", "--untracked-files=no"))

    def missing(self) -> list[str]:
        """What a worktree lacks: submodules, and untracked files and directories beside the script.

        Only names, for a hint.
        """
        lacks = [name for name in os.listdir(self._here) if name not in (".git", "voir-runs")]
        ignored = _git(self._here, "ls-files", "--others", "--ignored", "--exclude-standard",
            "--directory").split("\n")  # fmt: skip
        kept = {name.rstrip("/") for name in ignored if name}
        found = sorted(name for name in lacks if name in kept and name != "__pycache__")
        modules = self.top / ".gitmodules"
        return [*found, *["submodules"] * modules.exists()]


def _git(at: Path, *command: str, env: Mapping[str, str] | None = None) -> str:
    """The output of git, without its last newline.

    Raises:
        UsageError: It fails, with what it says.
    """
    kept = {k: v for k, v in os.environ.items() if k.startswith("GIT_CONFIG") or k[:4] != "GIT_"}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(["git", "-c", "core.hooksPath=/dev/null", *command], cwd=at,
            env={**kept, **quiet, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
            check=False)  # fmt: skip
    except OSError as error:
        raise UsageError("usage", f"git cannot be run: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        remedy = "Commits are compared in a git repository that has one."
        raise UsageError("usage", f"git {command[0]}: {said}", remedy)
    return done.stdout.decode("utf-8", "replace").removesuffix("\n")
