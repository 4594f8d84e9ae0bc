"""Finds a script's commit, whether its repository is dirty, and what is not committed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .redact import redact

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
# Runs no program from the repository's configuration, and does not write to the repository.
_QUIET = (
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
)  # fmt: skip
# Runs no program that the repository's configuration names for its files.
_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules", "--shortstat",
)  # fmt: skip
_COUNTS = re.compile(r"(\d+) (file|insertion|deletion)")
#: Characters of a diff that are kept.
MOST_DIFF = 200_000
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules")


def repository(start: Path) -> Path | None:
    """The nearest directory with ``.git``, from ``start`` upwards."""
    return next((at for at in (start, *start.parents) if os.path.lexists(at / ".git")), None)


def is_commit(name: str) -> bool:
    """Whether a text is the whole name of a commit, and no option or branch."""
    return _SHA.match(name) is not None


def head(top: Path) -> dict[str, str]:
    """``sha`` and ``branch`` of a repository, read from its files.

    Unknown ones are absent, such as the commit of an empty repository.
    """
    facts: dict[str, str] = {}
    with suppress(OSError, ValueError):
        git = top / ".git"
        if not git.is_dir():  # In a worktree or submodule: "gitdir: <path>".
            git = top / _read(git).removeprefix("gitdir:").strip()
        text = _read(git / "HEAD")
        if text.startswith("ref: "):
            reference = text[5:].strip()
            if not reference.endswith("/.invalid"):  # The "reftable" format's placeholder.
                facts["branch"] = reference.removeprefix("refs/heads/")
            text = _resolve(git, reference)
        if _SHA.match(text):
            facts["sha"] = text
    return facts


def _resolve(git: Path, reference: str) -> str:
    common = git
    with suppress(OSError):
        common = git / _read(git / "commondir")
    for directory in dict.fromkeys((git, common)):
        with suppress(OSError):
            return _read(directory / reference)
    packed = (line.partition(" ") for line in _read(common / "packed-refs").splitlines())
    return next((sha for sha, _, name in packed if name == reference), "")


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace").strip()


def state(
    top: Path, script: Path | None, environ: Mapping[str, str], seconds: float
) -> dict[str, object]:
    """``sha``, ``branch``, ``dirty`` and ``changes`` as git reports them.

    Empty if it fails or is too slow.

    Args:
        top: The repository.
        script: A file that counts as dirty if it is untracked.
        environ: The environment, passed on without variables that redirect git.
        seconds: Time limit.
    """
    told = _ask(top, _STATUS, environ, seconds)
    if told is None:
        return {}
    said = told.splitlines()
    facts: dict[str, object] = {}
    for line in said:
        for mark, name in (("# branch.oid ", "sha"), ("# branch.head ", "branch")):
            if line.startswith(mark) and "(" not in line:  # "(initial)", "(detached)"
                facts[name] = line.removeprefix(mark)
    listing = ("ls-files", "--", f":(literal){script}")
    untracked = script is not None and _ask(top, listing, environ, seconds) == ""
    facts["dirty"] = untracked or any(not line.startswith("#") for line in said)
    if untracked:
        facts["script"] = "untracked"
    if any(not line.startswith("#") for line in said):
        changes = diff_size(top, ("HEAD",), environ, seconds)
        facts |= {"changes": changes} if changes else {}
    return facts


def diff_size(top: Path, commits: Sequence[str], environ: Mapping[str, str], seconds: float) -> str:
    """The size of a diff: ``3 files, +12 -4``; empty if nothing differs, or git fails.

    Args:
        top: The repository.
        commits: Two commits, or one that the working tree is compared with.
        environ: The environment, passed on without variables that redirect git.
        seconds: Time limit.
    """
    return _size(_ask(top, (*_DIFF, *commits, "--"), environ, seconds) or "")


def diff(
    top: Path, commits: Sequence[str], environ: Mapping[str, str], seconds: float
) -> tuple[str, str]:
    """The size of a diff, and its text, without what looks like a secret.

    Args:
        top, commits, environ, seconds: As for :func:`diff_size`.
    """
    said = _ask(top, (*_DIFF, "--patch", *commits, "--"), environ, seconds) or ""
    size, _, text = said.partition("\n")
    return _size(size), redact(text[:MOST_DIFF].lstrip("\n"))


def _size(said: str) -> str:
    found = {what: int(n) for n, what in _COUNTS.findall(said)}
    if not found:
        return ""
    files, added, removed = (found.get(what, 0) for what in ("file", "insertion", "deletion"))
    return f"{files} file{'s' * (files != 1)}, +{added} -{removed}"


def _ask(
    top: Path, command: tuple[str, ...], environ: Mapping[str, str], seconds: float
) -> str | None:
    """Git's output; None if it fails or is too slow."""
    import subprocess

    # GIT_DIR and the like, as set inside hooks, would select another repository.
    kept = {k: v for k, v in environ.items() if k.startswith("GIT_CONFIG") or k[:4] != "GIT_"}
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "--no-pager", *_QUIET, *command],
            cwd=top,
            env={**kept, **quiet},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max(seconds, 0.0),
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")
