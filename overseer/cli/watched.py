"""What ``voir watch`` shows, and what its keys do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import Any

from ..boundary import said
from ..clock import monotonic, time_ns
from ..errors import UsageError, VoirError, clean
from ..job.feed import Feed
from ..job.live import LiveRanks
from ..model.facts import duration, part
from ..recorder.sites import WORD_TRACE
from ..rundir.control import ask
from ..rundir.reading import Run, read_run
from ..rundir.runfile import utc
from ..views.dash.board import Board
from ..views.dash.layout import LEAST_COLUMNS, LEAST_ROWS, View, lay_out, words
from ..views.dash.text import clock, padded
from ..views.summary import outcome
from ..views.text import cut
from .live import live_processes, short
from .runs import facts_of
from .stacks import stacks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..views.dash.text import Line

#: The keys, and what they do.
KEYS = (
    ("q", "quit", "leave; the run goes on"),
    ("?", "help", "show or hide this page"),
    ("tab", "task", "show the next task alone; after the last one, all"),
    ("r", "rank", "show the next rank of the job"),
    ("/", "find", "show only numbers whose names contain what you type; Esc shows all"),
    ("l", "log", "logarithmic axis for the loss: on, off, automatic"),
    ("+ -", "time", "a longer or shorter time range"),
    ("s", "stacks", "where the threads of all ranks are now"),
    ("t", "trace", "trace the next five steps in detail"),
)
#: Ranges of time, in seconds; after the last one, the whole run.
_RANGES = (10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86400.0)
#: Steps that the key t traces.
_TRACED = 5
#: Figures of a live run are old from this many seconds.
_OLD_SECONDS = 30.0
#: Seconds for which a message is shown.
_SAID_SECONDS = 10.0
_LOST = ("killed", "exit status")
_STYLES = {"good": "done", "warn": "loading", "bad": "bad"}
_AXES = {None: (True, "logarithmic"), True: (False, "linear"), False: (None, "automatic")}


class Watched:
    """Runs while they are watched: their boards, and what of them is shown.

    Args:
        paths: The runs; those after the first one are drawn over it.
        rank: The rank of a job that is shown first; None: the first one.

    Raises:
        VoirError: One of them cannot be read, or has no such rank.

    Attributes:
        page: ``help`` or ``stacks`` instead of the board; empty for the board.
    """

    def __init__(self, paths: Sequence[Path], rank: int | None = None) -> None:
        self._path, self.page, self.said = paths[0], "", ""
        self._view, self._typing, self._text, self._top = View(), False, list[str](), 0
        self._ranks: LiveRanks | None = None
        self._members: list[Run] = []
        self._feed = self._open(rank)
        self._others = [(_name(run), Feed(_first(run))) for run in map(read_run, paths[1:])]
        if self._others:
            self.board.title += f" · {self._path.name}"
        self._looked, self._trouble, self._lost = 0.0, "", (0, "")
        self.refresh()

    def _open(self, rank: int | None) -> Feed:
        """Read the run, of a job one rank."""
        run = read_run(self._path)
        self._members = [*run.ranks]
        if self._members:
            self._ranks = LiveRanks(self._members[0].path.parent)
        numbers = [each.rank for each in self._members or [run]]
        if rank is not None and rank not in numbers:
            what = f"{short(self._path)} has no rank {rank}"
            raise UsageError("usage", what, f"It has {', '.join(map(str, numbers[:20]))}.")
        found = next((each for each in self._members if each.rank == rank), None)
        feed = Feed(found.path if found is not None else _first(run))
        feed.board.rank = feed.run.rank
        return feed

    @property
    def board(self) -> Board:
        """The board of the first run."""
        return self._feed.board

    @property
    def said(self) -> str:
        """The last message, such as the answer to a key; it is shown for some seconds."""
        return self._said

    @said.setter
    def said(self, text: str) -> None:
        self._said, self._said_until = text, monotonic() + _SAID_SECONDS

    @property
    def ended(self) -> bool:
        """Whether no process of the first run goes on."""
        rows = self.board.ranks
        over = all(row.state == "" or _is_over(row.state) for row in rows)
        return self._feed.ended and (over or len(rows) < 2)

    @property
    def state(self) -> str:
        """What the run is doing, or how it ended."""
        return self._state()[0]

    def refresh(self) -> None:
        """Read what is new.

        Raises:
            VoirError: A run cannot be read any more.
        """
        try:
            self._feed.refresh()
            for _, feed in self._others:
                feed.refresh()
            self._trouble = ""
        except VoirError as error:
            self._trouble = error.what
            raise
        board, seconds = self.board, self._view.seconds
        if self._ranks is not None:
            board.ranks = self._ranks()
        if seconds is not None and board.now - self._looked > seconds:
            self._look_back()
        for name, task in board.tasks.items():
            beside = [
                (f"{label}, {_state_of(feed)[0]}", feed.board.tasks.get(name))
                for label, feed in self._others
            ]
            task.beside = [(label, other) for label, other in beside if other is not None]

    def as_facts(self) -> dict[str, Any]:
        """A line of ``--json``."""
        board = self.board
        known: dict[str, Any] = {
            "run": os.path.abspath(self._path),
            "at": utc(time_ns()),
            "state": self.state,
            "ended": self.ended,
            "seconds": round(board.now, 3),
            "tasks": {name: task.facts for name, task in board.tasks.items()},
            "values": {name: value for name, value in board.scalars if value is not None},
            "machine": {
                name: {"load": each.load, "memory": [each.used, each.total]}
                for name, each in board.meters.items()
            },
        }
        if len(board.ranks) > 1:
            known["rank"] = board.rank
            known["ranks"] = [row._asdict() for row in board.ranks]
        return known

    # The screen

    def lines(self, columns: int, rows: int) -> list[Line]:
        """``rows`` lines: the board, or a page, and the state of the run."""
        if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
            head, told = words(self.board)
            texts = [head, *told.split(" | "), self.state][:rows]
            return [((cut(each, max(columns - 1, 1)), ""),) for each in texts]
        shown: list[Line]
        if self.page == "help":
            shown = [
                ((f" {key:<5}", "bold"), (cut(what, columns - 7), "")) for key, _, what in KEYS
            ]
        elif self.page == "stacks":
            every = [row for line in self._text for row in wrap(line, columns - 1) or [""]]
            self._top = min(max(self._top, 0), max(len(every) - rows + 1, 0))
            shown = [((each, ""),) for each in every[self._top : self._top + rows - 1]]
        else:
            try:
                shown = lay_out(self.board, columns, rows - 1, self._view)
            except Exception as error:
                shown = [
                    ((cut(f" the record cannot be shown: {said(error)}", columns - 1), "bad"),)
                ]
        blank: list[Line] = [()] * (rows - 1 - len(shown))
        text, style = self._state()
        fresh = self.said if monotonic() < self._said_until else ""
        only = f"only: {self._view.only}" if self._view.only else ""
        note = clean(self._trouble or self._feed.said or fresh or only)
        text = cut(text, max(columns - 4 - len(note), columns // 2))
        line = ((f" {text}", style), (f"  {cut(note, max(columns - 4 - len(text), 1))}", "dim"))
        return [*shown, *blank, padded(line, columns - 1)]

    def keys(self, columns: int) -> Line:
        """The row of keys; while a filter is typed, the filter."""
        if self._typing:
            return (" filter: ", "bold"), (cut(self._view.only, columns - 12) + "▁", "")
        spans: list[tuple[str, str]] = []
        room = columns - 1
        for key, name, _ in KEYS:
            if key == "r" and len(self._members) < 2:
                continue
            room -= len(key) + len(name) + 3
            if room >= 0:
                spans += [(f" {key} ", "bold"), (f"{name} ", "dim")]
        return tuple(spans)

    def _state(self) -> tuple[str, str]:
        """The state of the run, and its style; of a job, how its first rank failed."""
        text, style = _state_of(self._feed)
        if not self.ended and (age := _age(self._feed.run)) >= _OLD_SECONDS:
            text += f"; figures of {duration(age)} ago"
        lost = sum(row.state.startswith(_LOST) for row in self.board.ranks)
        if lost != self._lost[0]:
            from ..job.figures import first_failed

            failed = first_failed(read_run(self._path).ranks)
            how = clean(outcome(failed.facts).text) if failed is not None else ""
            self._lost = lost, f"rank {failed.rank} failed first: {how}" if failed else ""
        if self._lost[1]:
            text, style = self._lost[1], "bad"
        return text, style

    # Keys

    def pressed(self, key: str) -> bool:
        """Do what a key asks; returns whether the user leaves."""
        if self._typing:
            self._type(key)
            return False
        if key in ("q", "\x03"):
            return True
        self.said = ""
        does: dict[str, Callable[[], object]] = {
            "?": lambda: self._turn("help"), "tab": self._next_task, "r": self._next_rank,
            "l": self._switch_axis, "+": lambda: self._zoom(1), "=": lambda: self._zoom(1),
            "-": lambda: self._zoom(-1), "/": self._begin_filter, "s": self._show_stacks,
            "t": self._trace, "escape": self._reset, "up": lambda: self._scroll(-1),
            "down": lambda: self._scroll(1),
        }  # fmt: skip
        does.get(key, lambda: None)()
        return False

    def _turn(self, page: str) -> None:
        self.page = "" if self.page == page else page

    def _reset(self) -> None:
        self.page, self._view = "", self._view._replace(only="")

    def _scroll(self, by: int) -> None:
        self._top += by

    def _begin_filter(self) -> None:
        self.page, self._typing, self._view = "", True, self._view._replace(only="")

    def _type(self, key: str) -> None:
        only = self._view.only
        self._typing = key not in ("enter", "escape")
        if key == "escape":
            only = ""
        elif key == "back":
            only = only[:-1]
        elif len(key) == 1:
            only += key
        self._view = self._view._replace(only=only)

    def _next_task(self) -> None:
        names = ["", *(task.name for task in self.board.tasks.values())]
        at = names.index(self._view.task) if self._view.task in names else 0
        self._view = self._view._replace(task=names[(at + 1) % len(names)])

    def _next_rank(self) -> None:
        numbers = [each.rank for each in self._members]
        if len(numbers) > 1:
            ranks, at = self.board.ranks, numbers.index(self.board.rank)
            try:
                self._feed = self._open(numbers[(at + 1) % len(numbers)])
            except VoirError as error:
                self.said = error.what
                return
            self.board.ranks = ranks
            self._look_back()

    def _switch_axis(self) -> None:
        log, name = _AXES[self._view.log]
        self._view, self.said = self._view._replace(log=log), f"axis of the loss: {name}"

    def _zoom(self, by: int) -> None:
        now, elapsed = self._view.seconds, self.board.now
        shorter = [each for each in _RANGES if each < elapsed]
        every: list[float | None] = [*shorter, None]
        at = every.index(now) if now in every else len(every) - 1
        seconds = every[min(max(at + by, 0), len(every) - 1)]
        self._view = self._view._replace(seconds=seconds)
        self.said = f"the last {clock(seconds)}" if seconds else "the whole run"
        self._look_back()

    def _look_back(self) -> None:
        self._looked = self.board.now
        for feed in (self._feed, *(feed for _, feed in self._others)):
            feed.look_back(self._view.seconds)

    def _show_stacks(self) -> None:
        if self.page == "stacks":
            self.page = ""
            return

        def ask_them(live: list[Path]) -> None:
            texts, silent = stacks_of(live)
            others = [f"{short(path)}: {why}" for path, why in silent.items()]
            head = f"stacks at {datetime.now():%H:%M:%S}"
            self._text = [head, "", *map(clean, "\n".join([*texts, *others]).splitlines())]
            self._top, self.page, self.said = 0, "stacks", "up and down scroll; s hides them"

        self._ask("asking for the stacks", ask_them)

    def _trace(self) -> None:
        def ask_them(live: list[Path]) -> None:
            refused = ask(live, WORD_TRACE, _TRACED)
            why = next((f"{short(path)}: {why}" for path, why in refused.items()), "")
            self.said = why or f"tracing {_TRACED} steps; then: voir trace view {short(self._path)}"

        self._ask("asking for a trace", ask_them)

    def _ask(self, doing: str, does: Callable[[list[Path]], object]) -> None:
        """Ask something of the live processes on a thread: they have seconds to answer."""
        try:
            live = live_processes(read_run(self._path))
        except VoirError as error:
            self.said = error.what
            return
        self.said = doing if live else "the run has ended"
        if live:
            threading.Thread(target=does, args=(live,), daemon=True).start()


class Chooser:
    """A list of runs to choose from.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: list[Path]) -> None:
        self.runs, self._at = runs, 0

    def lines(self, columns: int, rows: int) -> list[Line]:
        """The list, with its keys."""
        if not self.runs:
            return [((" no run is running; waiting for one to start", "dim"),), ((" q quit", ""),)]
        head: Line = ((" which run?", "bold"),)
        shown = [
            ((f" {'>' if at == self._at else ' '} {at + 1}  {cut(_line(run), columns - 9)}",
              "bold" if at == self._at else ""),)
            for at, run in enumerate(self.runs[: max(rows - 2, 1)])
        ]  # fmt: skip
        keys: Line = ((" up, down and enter, or a number; q quits", "dim"),)
        return [head, *shown, keys]

    def chosen(self, key: str) -> Path | None:
        """The run that a key chooses, if any."""
        self._at = min(self._at, max(len(self.runs) - 1, 0))
        if key.isdecimal() and 0 < int(key) <= len(self.runs):
            return self.runs[int(key) - 1]
        if key in ("up", "down") and self.runs:
            self._at = (self._at + (1 if key == "down" else -1)) % len(self.runs)
        return self.runs[self._at] if key == "enter" and self.runs else None


def _line(path: Path) -> str:
    try:
        run = read_run(path)
        argv = run.facts.get("argv")
        began = f"{datetime.fromtimestamp(run.began):%H:%M}  " if run.began else ""
        name = f"{run.facts['name']}  " if "name" in run.facts else ""
        words = " ".join(map(str, argv[1:])) if isinstance(argv, list) else ""
        return clean(f"{began}{name}{short(path)}  {words}")
    except VoirError as error:
        return f"{short(path)}  {error.what}"


def _state_of(feed: Feed) -> tuple[str, str]:
    """The state of one process, and its style."""
    run = feed.run
    facts = facts_of(run) if run.facts else {"state": "starting"}
    found = outcome(facts)
    text, style = found.text, _STYLES.get(found.style, "")
    if "ended" in facts:
        text = f"{text} · {clock(feed.board.now)}"
    elif part(facts, "idle").get("hangs"):
        text, style = f"hangs: {text.removeprefix('running: ')}", "bad"
    elif not any(task.facts.get("steps") for task in feed.board.tasks.values()):
        text += ", no step seen so far"
    return clean(text), style


def _first(run: Run) -> Path:
    """The directory of a run's first rank, or its own."""
    return run.ranks[0].path if run.ranks else run.path


def _is_over(state: str) -> bool:
    return state.startswith(("ended", *_LOST))


def _name(run: Run) -> str:
    return clean(str(run.facts.get("name") or run.path.name))


def _age(run: Run) -> float:
    """Seconds since the run's figures were written."""
    try:
        return max(0.0, (time_ns() - (run.path / "run.json").stat().st_mtime_ns) / 1e9)
    except OSError:
        return 0.0
