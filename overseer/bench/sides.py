"""What a bench measures, and in which order: sides, and rounds of one process of each."""

from __future__ import annotations

from itertools import count, product
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

#: Name of the first side's second copy, whose difference from the first is that of the machine.
CONTROL = "A2"
#: Rounds with a control, of every four: one in each order.
_CONTROLLED = (0, 1)


class Side(NamedTuple):
    """One of the things compared.

    Attributes:
        name: ``A`` for the reference, then ``B``, ``C`` ...; ``A2`` for the control.
        label: What distinguishes it, for people.
        command: The script and its arguments, as ``voir`` takes them.
        python: The interpreter.
        ref: The commit as the user named it; empty for the working tree as it is.
        sha: That commit.
        env: Variables that are set for it.
        plain: Run by ``python`` alone, without voir.
    """

    name: str
    label: str
    command: tuple[str, ...]
    python: str
    ref: str = ""
    sha: str = ""
    env: Mapping[str, str] = {}
    plain: bool = False

    @property
    def control(self) -> bool:
        """Whether this is the reference once more."""
        return self.name == CONTROL

    def as_facts(self) -> dict[str, Any]:
        """The side as ``bench.json`` stores it, without what is empty."""
        facts = {key: value for key, value in self._asdict().items() if value}
        return {**facts, "command": list(self.command), "control": self.control}


def sides(
    commands: Sequence[Sequence[str]], pythons: Sequence[str], refs: Sequence[tuple[str, str]],
    options: Mapping[str, Sequence[str]], variables: Mapping[str, Sequence[str]],
) -> list[Side]:  # fmt: skip
    """All combinations of what varies; the first is the reference.

    Args:
        commands: Scripts with their arguments.
        pythons: Interpreters.
        refs: Commits: as named, and their hashes. ``("", "")`` for the working tree as it is.
        options: Values of each option that is added to the arguments.
        variables: Values of each variable that is set.
    """
    varied = [*options.items(), *variables.items()]
    bases = [(command, python, ref) for command in commands for python in pythons for ref in refs]
    settings = [*product(*(listed for _, listed in varied))]
    every = [(*base, values) for base in bases for values in settings]
    made = list[Side]()
    for name, (command, python, (ref, sha), values) in zip(_names(), every, strict=False):
        pairs = [(key, value) for (key, _), value in zip(varied, values, strict=True)]
        given, env = pairs[: len(options)], dict(pairs[len(options) :])
        parts = [" ".join(command)] * (len(commands) > 1) + [python] * (len(pythons) > 1)
        parts += [f"{ref} {sha[:7]}" if ref != sha else sha[:7]] * (len(refs) > 1)
        parts += [f"{key}={value}" for key, value in pairs]
        added = [word for key, value in given for word in (f"--{key}", value)]
        label = ", ".join(parts) or " ".join(command)
        made.append(Side(name, label, (*command, *added), python, ref, sha, env))
    return made


def _names() -> Iterator[str]:
    """A, B, ... Z, then S27, S28 ..."""
    yield from map(chr, range(ord("A"), ord("Z") + 1))
    yield from (f"S{number}" for number in count(27))


def order(compared: Sequence[Side], number: int) -> list[Side]:
    """The sides of a round, in their order: A B, then B A, so that a drift cancels out.

    Some rounds begin or end with the control, beside the reference.

    Args:
        compared: All sides, without the control.
        number: The round's number, from 1.
    """
    found = list(compared)
    if len(found) > 1 and number % 4 in _CONTROLLED:
        found.insert(0, found[0]._replace(name=CONTROL))
    return found if number % 2 else found[::-1]
