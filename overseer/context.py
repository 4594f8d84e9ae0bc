"""What the rooms of a run may know of it, and what they tell each other through it."""

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
        """Makes a timer."""

        def __call__(self, seconds: float, fn: Callable[[], object], first: float = ...) -> Timer:
            """Call ``fn`` every ``seconds`` while the context that this returns is open."""


VERSION = "0.2.0"
#: What ended a run that made its process another program.
REPLACED = "replaced by another program"


class Own(dict):  # type: ignore[type-arg]
    """An event that voir itself gives: a strict operator skips it if it lacks the key.

    Attributes:
        of_step: The step that it belongs to, for the record; None: no single one.
    """

    of_step: int | None = None


class Context:
    """One run, as the rooms below the engine see it; the engine makes it.

    Args:
        environ: The environment that options are read from.
        clock: The run's clock.
        overhead: Counts voir's own cost.
        stderr: Where voir may write.
        report: Tells the user about a problem, once.
        every: Calls a function now and then, on a thread of its own.

    Attributes:
        argv: The command line.
        options: The values of voir's options, once they are parsed.
        voirfiles: Paths of the voirfiles that are loaded.
        labels: The ``name`` and the ``tags`` of the run.
        problems: What has been reported.
        summary: Sections of ``run.json`` by key; each key is written by one file.
        live: Computes a section of ``run.json`` while the script runs, by key.
        first_site: Number of the run's first site: earlier ones belong to other runs.
        configured: Whether voirfiles have made their requests, so that measuring may begin.
        located: Whether the script has been found.
        file: Tells the script's file; None: it has none, or it is not known yet.
        outcome: How the run ended, as far as it has.
        version: Of voir.
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
        self.first_site = 0
        self.configured = self.located = False
        self.file: Callable[[], str | None] = lambda: None
        self.outcome = Outcome()


class Outcome:
    """How a run has ended.

    Attributes:
        over: Whether the run is being closed: nothing new begins.
        exit_status: The script's; negative: the signal that killed it. None: it goes on.
        error: The exception that ended the script, as the last line of its traceback has it.
        stopped_early: Why the script was ended before its end; None: it was not.
        ended_by: What ended the run, if not the end of its script.
    """

    def __init__(self) -> None:
        self.over = False
        self.exit_status: int | None = None
        self.error: str | None = None
        self.stopped_early: str | None = None
        self.ended_by: str | None = None
