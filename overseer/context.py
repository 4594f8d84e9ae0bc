"""The state of a run that the rooms below the engine share."""

from __future__ import annotations

from argparse import Namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol, TextIO

    from .clock import Clock, Overhead
    from .errors import Problem
    from .timers import Timer

    class Every(Protocol):
        """Creates a timer."""

        def __call__(self, seconds: float, fn: Callable[[], object], first: float = ...) -> Timer:
            """Call ``fn`` every ``seconds`` while the returned context is open."""


VERSION = "0.2.0"
#: ``ended_by`` of a run whose process became another program.
REPLACED = "replaced by another program"
#: The variable that names the directory of the run that has started this process.
JOINS = "_VOIR_JOB"


def maybe_rank(environ: Mapping[str, str]) -> bool:
    """Whether a launcher may have started this process as a rank: cheaper than finding out."""
    return any("RANK" in name or "PROCID" in name for name in environ)


class Own(dict):  # type: ignore[type-arg]
    """An event that voir itself gives; strict operators skip it if it lacks their key.

    Attributes:
        of_step: Number of the step that it belongs to, for the record; None if several or none.
    """

    of_step: int | None = None


class Context:
    """One run as the rooms below the engine see it; created by the engine.

    Args:
        environ: The environment that options are read from.
        clock: The run's clock.
        overhead: Counts voir's own cost.
        stderr: Stream for voir's messages.
        report: Reports a problem to the user, once.
        every: Calls a function periodically on voir's own thread.

    Attributes:
        argv: The command line.
        options: The values of voir's options, once they are parsed.
        voirfiles: Paths of the loaded voirfiles.
        labels: The ``name`` and the ``tags`` of the run.
        problems: Problems reported so far.
        summary: Sections of ``run.json`` by key; one file writes each key.
        live: By key, functions that compute a section of ``run.json`` while the script runs.
        controls: By control word of the header, what is called on voir's thread with its value once
            another program has set it: see ``rundir.control``.
        first_site: Number of the run's first site; lower numbers belong to other runs.
        configured: True once voirfiles have made their requests, so that measuring may start.
        located: True once the script has been found.
        file: Returns the script's file; None if it has none or it is not known yet.
        rank: The rank of this process in its process group, as ``rundir.job.Rank``; None: only the
            launcher's variables tell it, if any.
        parallel: Which of how many different batches this rank sees, as in ``run.json``; None if it
            is not known.
        joins: The directory of the run that started this process; empty if none did.
        outcome: The run's outcome so far.
        version: voir's version.
    """

    version = VERSION

    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Clock,
        overhead: Overhead,
        stderr: TextIO,
        report: Callable[[Problem], None],
        every: Every,
    ) -> None:
        self.environ, self.stderr = environ, stderr
        self.clock, self.overhead = clock, overhead
        self.report, self.every = report, every
        self.argv: list[str] = []
        self.options = Namespace()
        self.voirfiles: list[str] = []
        self.labels: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self.summary: dict[str, Any] = {}
        self.live: dict[str, Callable[[], Any]] = {}
        self.controls: dict[int, Callable[[int], object]] = {}
        self.first_site = 0
        self.configured = self.located = False
        self.file: Callable[[], str | None] = lambda: None
        self.rank: Any = None
        self.parallel: dict[str, Any] | None = None
        self.joins = ""
        self.outcome = Outcome()


class Outcome:
    """The outcome of a run.

    Attributes:
        over: True while the run is being closed; nothing new may start.
        exit_status: The script's exit status; minus the signal that killed it; None while it runs.
        error: The exception that ended the script, as the last line of its traceback shows it.
        stopped_early: The reason why the script was stopped early, if it was.
        ended_by: What ended the run, if not the end of the script.
        error_at: The place of the user's code that raised it: ``file``, ``line``, ``function``.
        idle: If a signal ended it: for how long there had been no step, as in ``run.json``.
    """

    def __init__(self) -> None:
        self.over = False
        self.exit_status: int | None = None
        self.error: str | None = None
        self.error_at: dict[str, Any] | None = None
        self.stopped_early: str | None = None
        self.ended_by: str | None = None
        self.idle: dict[str, Any] | None = None
