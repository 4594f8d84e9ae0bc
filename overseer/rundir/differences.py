"""The differences between groups of runs, from what ``run.json`` records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Facts = Mapping[str, Any]
#: Facts that differ between any two runs.
_IDLE = frozenset({
    "command", "load_average", "torch.seed", "python.build", "git.moved_to", "env.TERM",
    "env.COLUMNS", "env.VOIR_RUN_DIR", "env.VOIR_APP", "env.VOIR_NAME", "env.VOIR_TAG",
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
#: Commits and checksums, of which the beginning is shown.
_HASH = re.compile(r"[0-9a-f]{40,64}\Z")
#: What can differ.
GROUPS = ("code", "options", "packages", "machine")
#: The group of the sections that are not of the machine.
_GROUP_OF = {
    "git": "code", "voirfiles": "code", "arguments": "options", "env": "options", "app": "options",
    "ranks": "options", "seed": "options", "cwd": "options", "packages": "packages",
    "python": "packages", "torch": "packages", "voir": "packages",
}  # fmt: skip


class Difference(NamedTuple):
    """A difference between sides.

    Attributes:
        group: One of ``GROUPS``.
        name: ``git.sha``, ``arguments``, the name of a package or a variable.
        values: The values of each side, ``-`` for a missing one.
    """

    group: str
    name: str
    values: list[str]


def differences(sides: Sequence[Sequence[Facts]]) -> list[Difference]:
    """List the differences, in the order of ``GROUPS``.

    Args:
        sides: ``run.json`` of each run of each side.
    """
    every = [run for side in sides for run in side]
    unknown = [part for part in _LATE if not all(part in _provenance(run) for run in every)]
    found = [_of(side, unknown) for side in sides]
    names = dict.fromkeys(name for each in found for name in each)
    values = {name: [_shown(each.get(name, {_ABSENT})) for each in found] for name in names}
    commands = _arguments([_command(side[0]) for side in sides])
    unlike = [
        *commands,
        *(Difference(_group(name), _plain(name), each) for name, each in values.items()
          if len({*each}) > 1),
    ]  # fmt: skip
    return sorted(unlike, key=lambda one: GROUPS.index(one.group))


def _provenance(run: Facts) -> Facts:
    found = run.get("provenance")
    return found if isinstance(found, Mapping) else {}


def _of(side: Sequence[Facts], unknown: Sequence[str]) -> dict[str, set[str]]:
    """The values that each fact has in the runs of a side.

    Each different section is read once: repeated runs share nearly all of them.
    """
    sections = [
        {**_provenance(run), "ranks": run.get("world_size", 1), "app": run.get("app")}
        for run in side
    ]
    found: dict[str, set[str]] = {}
    for key in dict.fromkeys(key for each in sections for key in each):
        if key in unknown or key in _IDLE:
            continue
        different = {repr(value): value for each in sections if (value := each.get(key), True)}
        flat = [dict(_flat(key, value)) for value in different.values()]
        for name in dict.fromkeys(name for each in flat for name in each):
            if name not in _IDLE and not name.endswith(".path") and not _OF_RANKS.match(name):
                found[name] = {each.get(name, _ABSENT) for each in flat}
    return found


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat(f"{name}.{index}", inner)
    elif value is not None:
        yield name, str(value)


def _shown(values: set[str]) -> str:
    return ", ".join(value[:12] if _HASH.match(value) else value for value in sorted(values))


def _group(name: str) -> str:
    return _GROUP_OF.get(name.partition(".")[0], GROUPS[-1])


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


def _arguments(commands: Sequence[list[str]]) -> Iterator[Difference]:
    """The differing parts of command lines, with the option of the first difference."""
    first, shorter = commands[0], min(map(len, commands))
    if all(words == first for words in commands):
        return
    start = end = 0
    while start < shorter and all(words[start] == first[start] for words in commands):
        start += 1
    while end < shorter - start and all(words[-1 - end] == first[-1 - end] for words in commands):
        end += 1
    if start and first[start - 1].startswith("-"):
        start -= 1
    cut = [" ".join(words[start : len(words) - end]) or _ABSENT for words in commands]
    yield Difference("options", "arguments", cut)
