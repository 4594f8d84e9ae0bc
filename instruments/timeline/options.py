"""``--trace``, ``--profile`` and their kin as options."""

from __future__ import annotations

import argparse
from typing import Any

from .settings import MAX_MB, PARSERS, PROFILE_STEPS, switch


class TraceSwitch(argparse.Action):
    """``--trace`` and ``--no-trace``; ``VOIR_TRACE`` may be a JSON object of settings too."""

    def __init__(self, option_strings: Any, dest: str, **keywords: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, type=switch, **keywords)

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Switch it on or off, keeping what else the environment asks for."""
        known = getattr(namespace, self.dest) or {}
        on = option != "--no-trace"
        setattr(namespace, self.dest, {**known, "enable": on, "never": not on})


def add_options(parser: Any) -> None:
    """Add ``--trace``, ``--profile`` and their kin."""
    add = parser.add_argument
    add("--trace", "--no-trace", action=TraceSwitch, dest="trace",
        help="write a timeline, trace.pftrace, for Perfetto")  # fmt: skip
    add("--trace-dir", type=PARSERS["directory"], metavar="DIR",
        help="where the trace goes (default: the run directory)")  # fmt: skip
    for name, metavar, what in (
        ("channels", "A,B", "record only these channels; patterns are allowed"),
        ("duration", "S", "record for so many seconds"),
        ("steps", "A:B", "record the steps from A on, before B"),
        ("every", "N", "record one step in N"),
        ("max-mb", "MB", f"size of the file; first and last are kept (default: {MAX_MB})"),
        ("level", "off|step|module|op", "how much detail (default: step)"),
        ("modules", "PATTERN", "at level module, only modules of such names"),
        ("rank", "R", "trace only this rank of a job"),
    ):
        key = name.replace("-", "_")
        add(f"--trace-{name}", type=PARSERS[key], metavar=metavar, help=what)
    add("--trace-ring", action="store_const", const=True,
        help="in a full file keep the last events, not first and last")  # fmt: skip
    add("--profile", action=argparse.BooleanOptionalAction, default=None,
        help="everything, in detail, of the first steps: --trace --trace-level op")  # fmt: skip
    for name, metavar, what in (
        ("steps", "N", f"how many steps (default: {PROFILE_STEPS})"),
        ("skip", "N", "steps to leave out first (default: 0)"),
        ("every", "N", "one step in N"),
        ("rank", "R", "only this rank of a job"),
    ):
        key = f"profile_{name}"
        add(f"--profile-{name}", type=PARSERS[key], metavar=metavar, help=f"with --profile: {what}")
