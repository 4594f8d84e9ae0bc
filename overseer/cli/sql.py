"""``voir sql RUN "select ..."``: ask a run, as a database that can only be read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import VoirError
from ..record.reading import Run, read_run
from .parsing import CommandParser
from .rows import Layout, cells, clean, row

_ABOUT = """\
Ask a run: its run.json, its events, its trace are tables. Without a query it says which, and what
they hold. Times are seconds since the start of the run.
"""
#: The longest cell.
_MOST = 60


def parser() -> CommandParser:
    """What ``voir sql`` takes."""
    example = 'voir sql voir-runs/RUN "select * from tasks"'
    made = CommandParser(prog="voir sql", description=_ABOUT, example=example)
    made.add_argument("run", metavar="RUN", help="a run directory")
    made.add_argument("query", metavar="QUERY", nargs="?", help="one select statement")
    made.add_argument("--to", metavar="FILE", help="write the whole database to a new file")
    made.add_argument("--json", action="store_true", help="the rows as JSON, for programs")
    return made


def sql(argv: list[str], width: int) -> Iterator[str]:
    """Answer the query in ``argv``; what to print.

    Args:
        argv: What follows ``voir sql``.
        width: Of the terminal.

    Raises:
        VoirError: There is no run, or the query cannot be answered.
    """
    options = parser().parse_args(argv)
    if options.to is not None and options.query is not None:
        what = "voir sql: it takes a query or --to, not both"
        raise VoirError("usage", what, f"Then: sqlite3 {options.to} QUERY")
    if options.to is not None:
        yield _written(Path(options.run), Path(options.to))
    elif options.query is None:
        yield _overview(Path(options.run), width)
    else:
        names, rows = _answered(Path(options.run), options.query)
        yield _as_json(names, rows) if options.json else _table(names, rows)


def _written(run: Path, to: Path) -> str:
    from sqlite3 import Error

    from ..database import open_database

    if to.exists():
        raise VoirError("sql-unwritable", f"{to} exists, and is left alone", "Name another file.")
    beside = to.with_name(f"{to.name}.part")
    try:
        with suppress(FileNotFoundError):
            beside.unlink()  # Left by a process that was killed.
        open_database(run, beside).close()
        os.replace(beside, to)
    except (OSError, Error) as error:
        what = f"{to} cannot be written: {getattr(error, 'strerror', None) or error}"
        raise VoirError("sql-unwritable", what, "Name another file: --to FILE.") from None
    return f"{to}\n"


def _overview(run: Path, width: int) -> str:
    """Each table: how many rows, and its columns."""
    from ..database import TABLES, open_database

    layout = Layout(width, False, column=24)
    with closing(open_database(run)) as database:
        counts = {t: database.execute(f"select count(*) from {t}").fetchone()[0] for t in TABLES}
    lines = (
        row(f"{name:<9} {counts[name]:>8,}", ", ".join(columns)) for name, columns in TABLES.items()
    )
    return layout.text(lines)


def _answered(path: Path, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of the answer."""
    import sqlite3

    from ..database import TABLES, empty_database, fill

    run = read_run(path)
    wanted = set[str]()
    with closing(empty_database()) as empty, closing(empty_database()) as database:
        try:
            empty.set_authorizer(partial(_only_reading, wanted))
            empty.execute(f"explain {query}")
            fill(database, run, _there(run, wanted))
            database.set_authorizer(partial(_only_reading, wanted))
            cursor = database.execute(query)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            what = f"the query cannot be answered: {error}"
            remedy = f"Tables are {', '.join(TABLES)}; their columns: voir sql {path}"
            raise VoirError("sql", what, remedy) from None


def _there(run: Run, wanted: set[str]) -> set[str]:
    """The tables that a query reads, when the run has what they are made from."""
    from ..database import TRACED, trace_of

    if wanted & TRACED and not any(map(trace_of, run.ranks or (run,))):
        what = f"{run.path} has no trace, and with it no {', '.join(sorted(wanted & TRACED))}"
        raise VoirError("no-trace", what, "Record one: voir --trace SCRIPT")
    return wanted


def _only_reading(read: set[str], action: int, *about: str | None) -> int:
    """Allow nothing but to read, and note which tables are."""
    import sqlite3

    if action == sqlite3.SQLITE_READ:
        read.add(str(about[0]))
    allowed = (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _as_json(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    found = [dict(zip(names, values, strict=True)) for values in rows]
    return json.dumps(found, indent=2, default=repr) + "\n"


def _table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """The rows below the names of their columns; numbers to the right."""
    texts = [names, *([_cell(value) for value in values] for values in rows)]
    widths = [max(cells(text[i]) for text in texts) for i in range(len(names))]
    right = [
        all(isinstance(values[i], int | float | None) for values in rows) for i in range(len(names))
    ]
    lines = []
    for text in texts:
        padded = (
            f"{' ' * (widths[i] - cells(cell))}{cell}"
            if right[i]
            else f"{cell}{' ' * (widths[i] - cells(cell))}"
            for i, cell in enumerate(text)
        )
        lines.append("  ".join(padded).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9g}"
    text = clean(value)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
