"""Scripts that are run under voir in the process of the test, with instruments of a voirfile."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from instruments.auto import instrument_auto
from instruments.early_stop import instrument_stop
from instruments.rate import instrument_rates
from overseer import Overseer


class Ran:
    """A script that has run.

    Attributes:
        printed: What it printed.
        summary: The run's summary; ``tasks`` of it.
        problems: What was reported.
        given: The events that were given, and ``logged`` what left the process.
        error: What ended it; a stop is none.
        status: The exit status.
    """

    def __init__(
        self, script: Path, options: tuple[str, ...], instruments: tuple[Any, ...]
    ) -> None:
        self.given: list[dict[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.error: BaseException | None = None

        def instrument_listener(ov: Overseer) -> Any:
            ov.listen(self.given.append, "rate")
            ov.listen_log(self.logged.append)
            # Another test may have imported Dynamo: calls of models would be left alone.
            dynamo = sys.modules.pop("torch._dynamo", None)
            yield ov.phases.load_script
            if dynamo is not None:
                sys.modules["torch._dynamo"] = dynamo

        stock = [instrument_auto, instrument_rates, instrument_stop]
        overseer = Overseer([*stock, *instruments, instrument_listener], stderr=io.StringIO())
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                overseer(["--no-record", *options, str(script)])
            except BaseException as error:
                self.error = error
        self.printed, self.summary = printed.getvalue().split(), overseer.summary
        self.tasks: dict[str, Any] = overseer.summary.get("tasks", {})
        self.problems = [problem.slug for problem in overseer.problems]
        self.status, self.stopped = overseer.exit_status, overseer.stopped_early


def run(directory: Path, text: str, *options: str, instruments: tuple[Any, ...] = ()) -> Ran:
    """Run a script of this text."""
    script = directory / "main.py"
    script.write_text(dedent(text))
    return Ran(script, options, instruments)
