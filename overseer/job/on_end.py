"""Watches a run from outside, and runs a command when it hangs, diverges or has ended.

``--on-end`` starts it as a process of its own. It only reads the run's directory, and waits for the
run's process.
"""

from __future__ import annotations

import math
import os
import re
import select
import sys
from contextlib import suppress
from pathlib import Path

from ..boundary import said
from ..clock import monotonic, sleep
from ..errors import clean
from ..files import read_json
from ..model.facts import entries, figure, main_task, ordered, part
from ..model.hangs import hang_of, shown
from ..recorder.log import is_alive, lives, read_header
from ..rundir.finishing import finish_run
from ..rundir.killed import as_it_is, has_ended
from ..rundir.reading import as_number, read_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..model.facts import Facts

#: The run's directory is looked at once a second, of large jobs less often: in between, this
#: multiple of the time that a look takes.
WATCH_SECONDS, WATCH_REST = 1.0, 50
#: Seconds after the end of the run's process, or of its record, until the command runs if other
#: ranks, or the process itself, go on.
LATER_SECONDS = 10.0
#: A run has diverged if its loss is so many times the first one.
DIVERGED = 10
#: How a run ended, beside ``ended``.
_HUNG, _DIVERGED, _FAILED, _KILLED = "hung", "diverged", "failed", "killed"


class RunProcess:
    """The process of a run, which is no child of this one.

    Args:
        pid: Its id.
        started: Its start time, from :func:`~overseer.clock.process_start`; 0 if unknown.
    """

    def __init__(self, pid: int, started: int) -> None:
        self._pid, self._started, self._fd = pid, started, -1
        with suppress(OSError, AttributeError):  # Only Linux has it; or the process has ended.
            self._fd = os.pidfd_open(pid)
        self._over = not is_alive(pid, started)

    def over_within(self, seconds: float) -> bool:
        """Wait for the end of the process, or a while, and return whether it has ended."""
        if self._fd < 0 or self._over:
            sleep(seconds)
            self._over = self._over or not is_alive(self._pid, self._started)
        else:
            self._over = bool(select.select([self._fd], [], [], seconds)[0])
        return self._over


class EndWatch:
    """Tells once that a run hangs, once that it has diverged, and once how it has ended.

    Args:
        directory: The run's.
        own: That of its process: the same one, or that of a rank.
        over_within: Waits for the end of the process, as that of :class:`RunProcess`.
        tell: Receives how it is: ``hung``, ``diverged``, ``ended``, ``failed`` or ``killed``; one
            line about that; and the exit status, if it is known.
    """

    def __init__(
        self,
        directory: Path,
        own: Path,
        over_within: Callable[[float], bool],
        tell: Callable[[str, str, int | None], object],
    ) -> None:
        self._directory, self._own = directory, own
        self._over_within, self._tell = over_within, tell
        self._known: dict[Path, tuple[int, dict[str, Any]]] = {}
        self._told: set[str] = set()

    def __call__(self) -> None:
        """Return once the end of the run has been told."""
        pause, latest = 0.0, math.inf
        while True:
            gone, began = self._over_within(pause), monotonic()
            facts = self._look()
            pause = max(WATCH_SECONDS, WATCH_REST * (monotonic() - began))
            self._tell_troubles(facts)
            if gone or "ended" in facts.get(self._own, {}):
                latest = min(latest, monotonic() + LATER_SECONDS)
            others = (each for each in facts if each != self._own)
            if (gone and all(map(has_ended, others))) or monotonic() >= latest:
                break
        with suppress(Exception):  # Then it is told as it is.
            finish_run(read_run(self._directory))
        self._tell_troubles(self._look())
        self._tell(*self._end())

    def _look(self) -> dict[Path, dict[str, Any]]:
        """The facts of the run's processes, by their directories."""
        members = (*self._directory.glob("rank*"), *self._directory.glob("process*"))
        found = {}
        for each in (self._directory, *members):
            with suppress(OSError, ValueError, TypeError):
                written = (each / "run.json").stat().st_mtime_ns
                if self._known.get(each, (0,))[0] != written:
                    self._known[each] = written, dict(read_json(each / "run.json"))
                found[each] = self._known[each][1]
        return found

    def _tell_troubles(self, every: dict[Path, dict[str, Any]]) -> None:
        for directory, facts in every.items():
            who = "" if directory == self._directory else f"{_name(directory)}: "
            with suppress(Exception):  # Another program's record.
                for trouble, why in troubles(directory, facts).items():
                    if trouble not in self._told:
                        self._told.add(trouble)
                        self._tell(trouble, who + why, None)

    def _end(self) -> tuple[str, str, int | None]:
        """How the run has ended, for ``tell``; of a job, how the process did that failed first."""
        from ..views.summary import outcome
        from .figures import job_facts

        try:
            facts: Facts = job_facts(read_run(self._directory))
            failed = entries(part(facts, "job"), "failed")
            if "ended" not in facts and not failed:  # Other ranks go on.
                facts = as_it_is(self._own, dict(read_json(self._own / "run.json")))
        except Exception as error:
            return _KILLED, f"its record cannot be read: {said(error)}", None
        first, raised = (failed or [{}])[0], part(facts, "error_at")
        text, where = outcome(facts).text, ""
        if first:
            text = f"{part(facts, 'job').get('kind', 'rank')} {first['rank']}: {first['why']}"
            where = str(first.get("where", ""))
        elif "file" in raised:
            where = f"{raised['file']}:{raised.get('line')}"
        text += f", {shown(where)}" if where else ""
        verdict = part(facts, "diagnosis")
        if "verdict" in verdict:
            text += f"; {verdict['verdict']}: {verdict.get('why')}"
        status = facts.get("exit_status")
        return how_ended(facts), text, status if isinstance(status, int) else None


def _name(directory: Path) -> str:
    """``rank 3``, ``process 1``."""
    return re.sub(r"(\d+)$", r" \1", directory.name)


def troubles(directory: Path, facts: dict[str, Any]) -> dict[str, str]:
    """Whether a process hangs (``hung``) or its loss has diverged (``diverged``), and why.

    Args:
        directory: Its directory.
        facts: Its ``run.json``.
    """
    header = read_header(os.fspath(directory))
    if header is not None and lives(header):  # It may not be able to write that it hangs.
        facts = as_it_is(directory, facts)
    hang = hang_of(facts)
    found = {_HUNG: hang.why if hang is not None else "", _DIVERGED: divergence_of_loss(facts)}
    return {trouble: why for trouble, why in found.items() if why}


def divergence_of_loss(facts: Facts) -> str:
    """``the loss is NaN, at first 2.31``, if that of the main task has diverged; otherwise empty.

    It has if the last one is NaN or infinite, or ten times a positive first one.
    """
    tasks = ordered(dict(part(facts, "tasks")))
    loss = part(main_task(facts) or next(iter(tasks.values()), {}), "loss")
    first, last = as_number(loss.get("first")), as_number(loss.get("last"))
    if last is None:
        return ""
    grown = first is not None and 0 < first < math.inf and last > DIVERGED * first
    text = f"the loss is {figure(loss['last'])}, at first {figure(loss.get('first'))}"
    return text if grown or not math.isfinite(last) else ""


def how_ended(facts: Facts) -> str:
    """``ended``, ``failed`` or ``killed``: by a signal, Ctrl-C too, or without an end."""
    status = facts.get("exit_status")
    if isinstance(status, int) and status:
        return _KILLED if status < 0 else _FAILED
    killed = "ended" not in facts or str(facts.get("ended_by")).startswith("killed")
    return _KILLED if killed else "ended"


def run_command(command: str, directory: Path, ended: str, text: str, status: int | None) -> None:
    """Run a shell's command, with the run's directory and how it ended in the environment.

    Its input is empty. Its output goes to descriptor 1 of this process, which is the run's stderr.
    """
    import subprocess

    environ = {
        **os.environb,
        b"VOIR_RUN": os.fsencode(directory),
        b"VOIR_ENDED": ended.encode(),
        b"VOIR_MESSAGE": clean(text).encode(errors="replace"),
    }
    if status is not None:
        environ[b"VOIR_EXIT_STATUS"] = b"%d" % status
    try:
        subprocess.call(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, env=environ)
    except OSError as error:
        sys.stderr.write(f"voir: --on-end: {clean(said(error))}\n")


def main() -> None:
    """Watch a run: the arguments are its two directories, its pid, and the start of that."""
    directory, own, pid, started = sys.argv[1:]
    command = os.environ.pop("VOIR_ON_END")  # A run that the command starts has none.

    def tell(ended: str, text: str, status: int | None) -> None:
        run_command(command, Path(directory), ended, text, status)

    process = RunProcess(int(pid), int(started))
    EndWatch(Path(directory), Path(own), process.over_within, tell)()
