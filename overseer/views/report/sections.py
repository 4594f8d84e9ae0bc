"""The sections of a report: what ``run.json`` says, as tables."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ...errors import clean
from ...model.facts import (
    breakdown,
    duration,
    entries,
    main_task_name,
    number,
    part,
    percent,
    rates,
    size,
)
from ..summary import summary_rows
from .page import pieces, rows_table, section, table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ...model.facts import Facts

#: Rows of the summary that have a place of their own on the page.
_ELSEWHERE = ("verdict", "next", "record")
#: Characters of a diff.
MOST_DIFF_SHOWN = 20_000
#: Rows of the table of ranks.
RANK_ROWS = 64
#: Parts of the provenance that are long, and shown folded.
_FOLDED = ("packages", "env")


def head(facts: Facts) -> str:
    """Title, verdict, and the rows of the summary."""
    first, rows = summary_rows(facts)
    kept = [row for row in rows if row.label.strip("└ ") not in _ELSEWHERE]
    title = clean(facts.get("name") or Path(str(facts.get("script") or "run")).name)
    return (
        f"<h1>{text(title)}</h1><p>{pieces(first)}</p>{_verdict(facts)}"
        f"{section('Figures', rows_table('Figures', kept))}"
    )


def _verdict(facts: Facts) -> str:
    found = part(facts, "diagnosis")
    if not found:
        return ""
    next_ = f"<br><span>next: {text(found['next'])}</span>" if found.get("next") else ""
    return (
        f'<div class="verdict"><b>{text(found.get("verdict") or "")}</b><br>'
        f"{text(found.get('why') or '')}{next_}</div>"
    )


def problems(facts: Facts) -> str:
    """What went wrong."""
    rows = [
        [str(one.get(key) or "") for key in ("who", "what", "where", "remedy")]
        for one in entries(facts, "problems")
    ]
    names = ["who", "what", "where", "what to do"]
    return section("Problems", table("Problems", names, rows))


def probes(facts: Facts) -> str:
    """The probes of voirfiles, and how often each fired."""
    rows = [
        [str(one.get("selector")), str(one.get("state")), str(one.get("fired") or 0),
         str(one.get("where") or "")]
        for one in entries(facts, "probes")
    ]  # fmt: skip
    return section("Probes", table("Probes", ["selector", "state", "fired", "where"], rows, (2,)))


def outliers(longest: Sequence[tuple[int, float]]) -> str:
    """The longest steps, each a link to its place in the charts."""
    links = ", ".join(
        f'<a href="#charts" data-step="{step}">step {step:,}: {text(duration(seconds))}</a>'
        for step, seconds in longest
    )
    return f"<p>The longest: {links}</p>" if links else ""


def ranks_table(members: Sequence[tuple[int, Facts]], job: Facts) -> str:
    """A row for each process of a job; of many, the rows of those that are latest most often.

    Args:
        members: The rank and the facts of each.
        job: Those of all together.
    """
    main = str(main_task_name(job))
    late = {one.get("rank"): one for one in entries(part(job, "tasks", main, "ranks"), "each")}
    latest = sorted(members, key=lambda it: -(number(late.get(it[0]), "last") or 0.0))[:RANK_ROWS]
    rows = []
    for rank, facts in sorted(latest, key=lambda it: it[0]):
        task = part(facts, "tasks", main)
        rate, step = part(task, "rate"), part(task, "step_seconds")
        rows.append(
            [
                str(rank),
                percent(number(late.get(rank), "last")) or "",
                duration(number(late.get(rank), "late")) or "",
                percent(breakdown(task).get("communication")) or "",
                f"{task.get('steps') or 0:,}",
                "".join(rates(rate.get("steady") or rate.get("wall"))),
                duration(step.get("median")) or "",
                duration(step.get("max")) or "",
                str(part(facts, "provenance").get("hostname") or ""),
                clean(facts.get("ended_by") or facts.get("error") or facts.get("now") or "ended"),
            ]
        )
    units = part(job, "tasks", main).get("units") or "items"
    names = ["rank", "slowest in steps", "then behind by", "waiting", "steps", f"{units}/s"]
    names += ["median step", "longest step", "host", "end"]
    few = f"the {RANK_ROWS} of {len(members):,} ranks that are last most often"
    more = f"<p>{few}</p>" if len(members) > RANK_ROWS else ""
    return table("Ranks", names, rows, range(8)) + more


def provenance(facts: Facts) -> str:
    """Where and how the run was made."""
    found = [*_flat("", part(facts, "provenance"))]
    plain = [each for each in found if each[0].partition(".")[0] not in _FOLDED]
    made = table("Provenance", ["fact", "value"], plain)
    for name in _FOLDED:
        inside = [each for each in found if each[0].partition(".")[0] == name]
        if inside:
            made += (
                f"<details><summary>{name}: {len(inside):,}</summary>"
                f"{table(name, ['name', 'value'], inside)}</details>"
            )
    return section("Provenance", made)


def diff(name: str, found: str, more: str) -> str:
    """A diff, folded, with coloured lines; empty without one.

    Args:
        name: What it is.
        found: Its text, of which the beginning is shown.
        more: Where the rest is.
    """
    if not found:
        return ""
    shown = found if len(found) <= MOST_DIFF_SHOWN else found[:MOST_DIFF_SHOWN].rpartition("\n")[0]
    lines = "\n".join(map(_diff_line, shown.split("\n")))
    left = len(found) - len(shown)
    rest = f"<p>and {left:,} more characters: {text(more)}</p>" if left else ""
    return f"<details><summary>{text(name)}</summary><pre>{lines}</pre>{rest}</details>"


def _diff_line(line: str) -> str:
    style = {"+": "good", "-": "del", "@": "dim"}.get(line[:1])
    shown = escape("".join(char for char in line if char.isprintable() or char == "\t"))
    return f'<span class="{style}">{shown}</span>' if style else shown


def differences(
    names: Sequence[str], unlike: Sequence[tuple[str, str, list[str]]], *diffs: str
) -> str:
    """What differs between sides; ``diffs`` are those of their code, as HTML."""
    rows = [[group, name, *values] for group, name, values in unlike]
    return section(
        "What was different", table("Differences", ["kind", "name", *names], rows), *diffs
    )


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, one in value.items():
        name = f"{prefix}{key}"
        if isinstance(one, dict):
            yield from _flat(f"{name}.", one)
        elif isinstance(one, list) and one and isinstance(one[0], dict):
            for at, each in enumerate(one):
                yield from _flat(f"{name}.{at}.", each)
        elif name.endswith("memory") or name == "memory.total":
            yield name, size(one) or ""
        elif one not in (None, "", [], {}):
            yield name, clean(one)
