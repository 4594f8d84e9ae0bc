"""The differences between two groups of runs, from what ``run.json`` records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Facts = Mapping[str, Any]
#: Facts that differ between any two runs.
_IDLE = frozenset({
    "command", "torch.seed", "python.build", "git.moved_to", "env.TERM", "env.COLUMNS",
    "env.VOIR_RUN_DIR", "env.VOIR_APP", "env.VOIR_NAME", "env.VOIR_TAG",
})  # fmt: skip
#: Variables of one rank, or of one start of a job: its ids, addresses, processes and hosts. The
#: count of ranks is compared by itself.
_OF_RANKS = re.compile(
    r"env\.(?:.*_)?(?:RANK|LOCALID|PROCID|NODEID|WORLD_SIZE)\Z|env\.(?:TORCHELASTIC_|MASTER_)"
    r"|env\.(?:OMPI_COMM_WORLD_|SLURM_.*(?:ID|COUNT|HOST|ADDR|NODELIST|PORTS?|PIDS?|NTASKS)\Z)"
)
#: Options that affect only the output, with the number of their values.
_SHOWN = {
    "--run-dir": 1, "--quiet": 0, "--debug": 0, "--app": 1, "--tensorboard": 1, "--name": 1,
    "--tag": 1, "--dash": 0,
}  # fmt: skip
#: Sections collected at the end of a run if there is time: if absent, they are unknown.
_LATE = ("packages", "git", "gpu", "seed", "torch")
#: Sections omitted from names.
_PLAIN = ("packages.", "env.")
_ABSENT = "-"


class Difference(NamedTuple):
    """A difference between the sides.

    Attributes:
        name: ``git.sha``, ``arguments``, the name of a package or a variable.
        before: The values of the first side, ``-`` for a missing one.
        after: The values of the second side.
    """

    name: str
    before: str
    after: str


def differences(before: Sequence[Facts], after: Sequence[Facts]) -> list[Difference]:
    """List the differences: command, git, packages, machine, environment, in this order.

    Args:
        before: ``run.json`` of each run of the first side.
        after: The same of the second side.
    """
    known = [part for part in _LATE if all(part in _provenance(r) for r in (*before, *after))]
    sides = [[dict(_of(run, known)) for run in side] for side in (before, after)]
    names = dict.fromkeys(name for side in sides for found in side for name in found)
    every = (Difference(_plain(name), *(_values(side, name) for side in sides)) for name in names)
    commands = _arguments(*(_command(side[0]) for side in (before, after)))
    return [*commands, *(one for one in every if one.before != one.after)]


def _provenance(run: Facts) -> Facts:
    found = run.get("provenance")
    return found if isinstance(found, Mapping) else {}


def _of(run: Facts, late: Sequence[str]) -> Iterator[tuple[str, str]]:
    found = _provenance(run).items()
    facts = {key: value for key, value in found if key not in _LATE or key in late}
    first = {key: facts.pop(key) for key in ("git", "voirfiles", "packages") if key in facts}
    facts.pop("load_average", None)
    environment = {"env": facts.pop("env", None)}
    for name, value in _flat("", {**first, **facts, **environment}):
        if name not in _IDLE and not name.endswith(".path") and not _OF_RANKS.match(name):
            yield name, value
    yield "ranks", str(run.get("world_size", 1))
    yield from _flat("app", run.get("app"))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat(f"{name}.{index}", inner)
    elif value is not None:
        yield name, str(value)


def _values(side: Sequence[Mapping[str, str]], name: str) -> str:
    found = sorted({found.get(name, _ABSENT) for found in side})
    return ", ".join(value[:12] if name == "git.sha" else value for value in found)


def _plain(name: str) -> str:
    for section in _PLAIN:
        name = name.removeprefix(section)
    return name


def _command(run: Facts) -> list[str]:
    """The command line without options that do not affect measurements."""
    argv = run.get("argv")
    words = [str(word) for word in argv][1:] if isinstance(argv, list) else []
    kept, skip = list[str](), 0
    for word in words:
        name, glued, _ = word.partition("=")
        if skip:
            skip -= 1
        elif name in _SHOWN:
            skip = 0 if glued else _SHOWN[name]
        else:
            kept.append(word)
    return kept


def unlike_arguments(runs: Sequence[Facts]) -> list[str]:
    """For each run, the arguments that not all runs of its script have."""
    each = [_options(_command(run)) for run in runs]
    scripts = [str(run.get("script")) if run.get("argv") else None for run in runs]
    shared = {
        script: set.intersection(
            *(set(e) for e, s in zip(each, scripts, strict=True) if s == script)
        )
        for script in scripts
    }
    return [
        " ".join(one for one in options if one not in shared[script])
        for options, script in zip(each, scripts, strict=True)
    ]


def _options(words: list[str]) -> list[str]:
    """Words, with each option joined to its value."""
    made = list[str]()
    for word in words:
        if made and made[-1].startswith("-") and not word.startswith("-") and " " not in made[-1]:
            made[-1] += f" {word}"
        else:
            made.append(word)
    return made


def _arguments(before: list[str], after: list[str]) -> Iterator[Difference]:
    """The differing parts of two command lines, with the option of the first difference."""
    if before == after:
        return
    shorter = min(len(before), len(after))
    start = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if start and before[start - 1].startswith("-"):
        start -= 1
    cut = (" ".join(words[start : len(words) - end]) or _ABSENT for words in (before, after))
    yield Difference("arguments", *cut)
