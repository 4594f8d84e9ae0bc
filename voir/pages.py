"""Shows a report of a run in a notebook."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def report(run: str | Path) -> Report:
    """Show the report of a run, a job or a bench inline in a notebook.

    Args:
        run: Its directory, or the name of a run.

    Raises:
        VoirError: There is no such run, or it cannot be read.
    """
    from overseer.cli.report import page_of

    return Report(page_of([str(run)])[1])


class Report:
    """A report, which notebooks show inline.

    Attributes:
        html: The page.
    """

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        from html import escape

        frame = 'style="width: 100%; height: 40rem; border: 0" sandbox="allow-scripts"'
        return f'<iframe {frame} srcdoc="{escape(self.html)}"></iframe>'
