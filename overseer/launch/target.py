"""What to run, as the command line names it, and what is said when that cannot be run."""

from __future__ import annotations

from ..errors import UsageError


class Target:
    """What the user asked to run.

    Attributes:
        kind: ``script`` is also a directory or zip with a ``__main__``, or ``-`` for stdin.
        name: A path, a module, or ``module:function``.
        argv: The script's own arguments.
    """

    __slots__ = ("argv", "kind", "name")

    def __init__(self, kind: str, name: str, argv: tuple[str, ...] = ()) -> None:
        self.kind, self.name, self.argv = kind, name, argv


class CannotRun(UsageError):
    """The target is not there or is not a program; python's words, and its exit status.

    Attributes:
        system_error: What the system said of the file, if it is that.
    """

    system_error: OSError | None = None

    def __init__(self, slug: str, what: str, remedy: str | None = None, status: int = 1) -> None:
        super().__init__(slug, what, remedy)
        self.status = status


class NoSuchFile(CannotRun, FileNotFoundError):
    """There is no such script."""
