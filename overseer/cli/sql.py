"""``voir sql RUN "select ..."``: queries a run as a read-only database."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import UsageError, VoirError
from ..files import whole
from ..rundir.reading import Run
from ..rundir.tables import TRACED, open_database
from ..views.text import Layout, cut, row, table
from .commands import CommandParser, Terminal
from .runs import RUN_HELP, finished_run, run_directory, warn

_ABOUT = """\
Query a run with SQL: its run.json, its events and its trace are tables. Without a query, list the
tables and their columns. Times are seconds since the start of the run.
"""


def parser() -> CommandParser:
    """The parser of ``voir sql``."""
    example = 'voir sql voir-runs/RUN "select * from tasks"'
    made = CommandParser(prog="voir sql", description=_ABOUT, example=example)
    made.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    made.add_argument("query", metavar="QUERY", nargs="?", help="one select statement")
    made.add_argument("--to", metavar="FILE", help="write the whole database to a new file")
    made.add_argument("--json", action="store_true", help="print the rows as JSON")
    return made


def sql(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Answer the query in ``argv``; yield the output.

    Args:
        argv: The arguments of ``voir sql``.
        terminal: The output's terminal.

    Raises:
        VoirError: There is no run, or the query cannot be answered.
    """
    options = parser().parse_intermixed_args(argv)
    named, query = options.run, options.query
    if query is None and named is not None and re.search(r"\s", named) and not Path(named).exists():
        named, query = None, named
    directory = run_directory(named)
    if options.to is not None:
        if query is not None:
            what = "voir sql: it takes a query or --to, not both"
            raise UsageError("usage", what, f"Then: sqlite3 {options.to} QUERY")
        yield _written(directory, Path(options.to))
    elif query is None:
        yield _overview(finished_run(directory), terminal.width)
    else:
        yield _answer(*_answered(finished_run(directory), query), options.json)


def _answer(names: list[str], rows: list[tuple[Any, ...]], as_json: bool) -> str:
    if as_json:
        found = [dict(zip(names, values, strict=True)) for values in rows]
        return json.dumps(found, indent=2, default=repr) + "\n"
    numbers = [all(isinstance(values[i], int | float | None) for values in rows)
               for i in range(len(names))]  # fmt: skip
    return table([names, *([_cell(value) for value in values] for values in rows)], numbers)


def _written(directory: Path, to: Path) -> str:
    if to.exists():
        raise VoirError("sql-unwritable", f"{to} exists already", "Name another file.")
    run = finished_run(directory)
    try:
        with whole(to) as file:
            open_database(run, file.name, report=warn).close()
    except (OSError, sqlite3.Error) as error:
        what = f"{to} cannot be written: {getattr(error, 'strerror', None) or error}"
        raise VoirError("sql-unwritable", what, "Name another file: --to FILE.") from None
    return f"{to}\n"


def _overview(run: Run, width: int) -> str:
    """List each table with its number of rows and its columns."""
    rows = []
    with closing(open_database(run, report=warn)) as database:
        for (name,) in database.execute("select name from sqlite_master").fetchall():
            found = database.execute(f"select * from {name} limit 0").description
            (count,) = database.execute(f"select count(*) from {name}").fetchone()
            rows.append(row(f"{name:<9} {count:>8,}", ", ".join(column[0] for column in found)))
    return Layout(width, column=24).text(rows) + 'For example: voir sql RUN "select * from tasks"\n'


def _answered(run: Run, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and the rows of the answer."""
    with closing(open_database(run, query=query, report=warn)) as database:
        database.execute("pragma query_only = 1")
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # Do not create files either.
        try:
            cursor = database.execute(query)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _refused(run, str(error)) from None


def _refused(run: Run, why: str) -> VoirError:
    if why.removeprefix("no such table: ") in TRACED:
        return VoirError(
            "no-trace", f"{run.path} has no trace: {why}", "Record one: voir --trace SCRIPT"
        )
    remedy = f"List the tables: voir sql {run.path}"
    return VoirError("sql", f"the query cannot be answered: {why}", remedy)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else cut(value, 60)
