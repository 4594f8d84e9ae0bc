"""The rows of a summary that only a job of several processes has."""

from __future__ import annotations

from signal import SIGINT, SIGTERM

from ..errors import clean
from ..model.facts import at, count, duration, entries, number, part, percent, rates, signalled
from ..model.hangs import shown
from .text import TO, Piece, Row, cut, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..model.facts import Facts

#: Ranks that are shown of each kind.
MOST_RANKS = 8
#: The least rate, or number of steps, of a rank is below this share of the greatest if the ranks
#: differ.
UNLIKE = 0.98


def job_head(run: Facts) -> list[str]:
    """For the first line: ranks, hosts, attempt, and the rank of a repeated summary."""
    job = part(run, "job")
    ranks, world, hosts = number(job, "ranks"), number(job, "world_size"), job.get("hosts")
    of = f" of {world:.0f}" if world and ranks and world > ranks else ""
    said = [f"{ranks:.0f}{of} {_several(run)}" if ranks else ""]
    if isinstance(hosts, list) and len(hosts) > 1:
        said.append(f"{len(hosts)} hosts")
    attempt = number(job, "attempt")
    said.append(f"attempt {attempt:.0f}" if attempt and attempt > 1 else "")
    late = number(job, "late")
    said.append(f"again, with {kind_of_job(run)} {late:.0f}" if late is not None else "")
    return said


def first_failed(run: Facts) -> str:
    """The first rank that failed, before its end: ``rank 2: ``; empty if none failed."""
    failed = entries(part(run, "job"), "failed")
    return f"{kind_of_job(run)} {clean(failed[0].get('rank', '?'))}: " if failed else ""


def of_task(run: Facts, task: Facts) -> Iterator[Row]:
    """The range over the ranks, and the rank that the others wait for.

    Args:
        run: The job. If its verdict names that rank, the row does not.
        task: The task.
    """
    units = clean(task.get("units") or "items").removesuffix("/s")
    ends = rates(at(task, "ranks.rate.min"), at(task, "ranks.rate.max"))
    slowest = number(task, "ranks.slowest")
    steps = [number(task, f"ranks.steps.{key}") or 0.0 for key in ("min", "max")]
    waits = [percent(at(task, f"ranks.waiting.{key}")) for key in ("min", "max")]
    yield row(
        _several(run),
        f"{TO.join(dict.fromkeys(ends))} {units}/s each" if len(ends) == 2 else None,
        # Of ranks that wait for each other, it would be noise, or who waits longest.
        f"slowest {slowest:.0f}"
        if slowest is not None and not all(waits) and _differ(task, "rate")
        else None,
        f"waiting {TO.join(dict.fromkeys(filter(None, waits)))}" if all(waits) else None,
        Piece(
            f"{steps[0]:,.0f}{TO}{steps[1]:,.0f} steps" if _differ(task, "steps") else "", "warn"
        ),
        depth=1,
        style="",
    )
    yield from _pipeline(run, part(task, "pipeline"))
    if part(run, "diagnosis").get("verdict") != "straggler":
        found = part(task, "straggler")
        style = "" if found.get("kind") == "rotating" else "warn"
        yield row("late", Piece(clean(found.get("why") or ""), style), depth=1, style="")


def _pipeline(run: Facts, of: Facts) -> Iterator[Row]:
    """The schedule of a pipeline, its idle time, its longest stage, and the items of a step."""
    if not of:
        return
    stages, ranks = (count(number(of, key), key[:-1]) for key in ("stages", "ranks"))
    bubble, ideal = percent(number(of, "bubble")), percent(number(of, "ideal"))
    ramp, imbalance = duration(number(of, "ramp_up")), number(of, "imbalance")
    yield row(
        "pipeline",
        clean(of.get("schedule") or "a schedule without a name"),
        stages if of.get("stages") == of.get("ranks") else f"{stages} on {ranks}",
        count(number(of, "micro_batches"), "micro-batch", "micro-batches"),
        f"bubble {bubble}, {f'ideal {ideal}' if ideal else 'ideal unknown'}" if bubble else None,
        f"ramp-up {ramp}" if ramp else None,
        depth=1,
        style="",
    )
    each = [duration(number(one, "seconds")) or "" for one in entries(of, "each")]
    more = f" and {len(each) - MOST_RANKS} more" if len(each) > MOST_RANKS else ""
    told = part(run, "diagnosis").get("verdict") == "pipeline imbalance"  # Which names it.
    yield row(
        "stages",
        f"{' · '.join(each[:MOST_RANKS])}{more} of work a run",
        f"imbalance {imbalance:.2f}" if imbalance else None,
        None if told or (imbalance or 0.0) < 1.05 else clean(part(of, "slowest").get("why") or ""),
        depth=1,
        style="",
    )
    batch, several, runs, items = (
        number(of, key) for key in ("batch", "micro_batches", "accumulated", "items")
    )
    if items:
        made = f"{items:,.0f} in a step = {batch:,.0f} x {several:.0f} micro-batches"
        yield row("items", f"{made} x {runs:.0f} accumulated", depth=1, style="")


def _differ(task: Facts, figure: str) -> bool:
    """Whether the ranks differ: the rates of those that wait for each other are the same."""
    least, most = (number(task, f"ranks.{figure}.{key}") or 0.0 for key in ("min", "max"))
    return least < UNLIKE * most


def of_job(run: Facts) -> Iterator[Row]:
    """What failed, hangs or is missing, and earlier attempts."""
    job, kind = part(run, "job"), kind_of_job(run)
    failed = entries(job, "failed")
    signals = signalled(SIGINT), signalled(SIGTERM), "killed"
    stopped = [str(each.get("why")).startswith(signals) for each in failed]
    ended = len(failed) > 1 and not stopped[0] and all(stopped[1:])
    alike = {each.get("why") for each in failed}
    if len(failed) > 1 and len(alike) == 1 and stopped[0]:
        named = ranks_text([each.get("rank") for each in failed], kind)
        yield row("ended", Piece(cut(failed[0].get("why"), 100), "bad"), named)
        failed = []
    for index, each in enumerate(failed[: 1 if ended else MOST_RANKS]):
        first = None
        if index == 0 and len(failed) > 1 and not stopped[0]:
            first = "failed first" + ("; the others were ended by a signal" if ended else "")
        named = f"{kind} {clean(each.get('rank', '?'))}"
        where = shown(clean(each["where"])) if each.get("where") else None
        yield row(named, Piece(cut(each.get("why") or "failed", 100), "bad"), where, first)
    yield _more([] if ended else failed, "failed")
    running = entries(job, "running")
    for each in running[:MOST_RANKS]:
        named = f"{kind} {clean(each.get('rank', '?'))}"
        yield row(named, Piece(cut(each.get("now") or "running", 100), "warn"))
    yield _more(running, "run")
    missing = job.get("missing")
    if isinstance(missing, list) and missing:
        yield row("missing", Piece(f"{ranks_text(missing)} recorded nothing", "warn"))
    for each in entries(job, "earlier"):
        said = f"{number(each, 'ranks') or 0:.0f} ranks, {number(each, 'steps') or 0:,.0f} steps"
        yield row(f"attempt {each.get('attempt')}", said, cut(each.get("why") or "", 100))
    versions = job.get("versions")
    if isinstance(versions, list):
        yield row("versions", Piece(f"ranks run voir {', '.join(map(clean, versions))}", "warn"))


def doing_text(does: Facts, kind: str) -> str:
    """``ranks 0, 2-3 wait in all_reduce number 812 of group 0``; ``rank 1 is in forward``."""
    ranks, what = does.get("ranks"), does.get("what")
    ranks = ranks if isinstance(ranks, list) else []
    one = len(ranks) == 1
    verb = ("waits" if one else "wait") if does.get("waits") else "is" if one else "are"
    return ranks_text(ranks, kind) + (f" {verb} in {what}" if what else "")


def divergence_text(found: Facts, kind: str) -> str:
    """``rank 1 has a loader that ended after 99 batches, the others go on: main.py:40``."""
    ranks, what = found.get("ranks"), str(found.get("what"))
    ranks = ranks if isinstance(ranks, list) else []
    if len(ranks) == 1:
        verb, _, rest = what.partition(" ")
        what = f"{'has' if verb == 'have' else f'{verb}s'} {rest}"
    where = f": {shown(str(found['where']))}" if found.get("where") else ""
    return clean(f"{ranks_text(ranks, kind)} {what}, the others {found.get('others')}{where}")


def ranks_text(ranks: Sequence[object], kind: str = "rank") -> str:
    """Ranks as ``rank 3``, or ``ranks 0, 2-5``; a long list ends with their number."""
    numbers = sorted({each for each in ranks if isinstance(each, int)})
    spans: list[list[int]] = []
    for each in numbers:
        if spans and each == spans[-1][1] + 1:
            spans[-1][1] = each
        else:
            spans.append([each, each])
    shown = [f"{a}" if a == b else f"{a}-{b}" for a, b in spans]
    if len(shown) > MOST_RANKS:
        shown = [*shown[:MOST_RANKS], f"... ({len(numbers)} of them)"]
    several = {"rank": "ranks", "process": "processes"}
    return f"{kind if len(numbers) == 1 else several.get(kind, kind)} {', '.join(shown)}"


def kind_of_job(run: Facts) -> str:
    """``rank``; ``process`` for processes that are no ranks."""
    return "process" if part(run, "job").get("kind") == "process" else "rank"


def _several(run: Facts) -> str:
    return "processes" if kind_of_job(run) == "process" else "ranks"


def _more(found: Sequence[object], what: str) -> Row:
    left = len(found) - MOST_RANKS
    return row("", Piece(f"{left} more {what}", "dim") if left > 0 else None)
