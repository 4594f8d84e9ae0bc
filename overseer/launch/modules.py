"""What runpy finds: ``-m module``, and the ``__main__`` of a directory or zip.

runpy itself does the finding, the naming and the complaining; only its last step, executing the
code it has found, is put off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from types import CodeType, FunctionType

from .ending import entries_of
from .program import (
    CannotRun,
    MainProgram,
    Target,
    current_directory,
    fresh_main,
    replace_first_path,
    safe_path,
)
from .source import Instrument, Unit, read_unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MARK = compile("0 / 0", "<voir>", "exec")  # Raises without touching the namespace.


class Module(MainProgram):
    """``voir -m module``."""

    _code: CodeType | None = None
    _spec: ModuleSpec | None = None

    def load(self, instrument: Instrument | None = None) -> None:
        """Set the stage, let runpy find the module, and run the prefix of it."""
        self._set_stage()
        self._find(self.target.name, alter_argv=True)
        self._unit = self._source()
        self.run_prefix(instrument)

    def run_whole(self) -> None:
        """Run the code that runpy has found."""
        assert self._code is not None
        self.execute(self._code)

    def _set_stage(self) -> None:
        sys.argv = ["-m", *self.target.argv]
        replace_first_path(None if safe_path() else current_directory())
        self.main = fresh_main()

    def _find(self, name: str, alter_argv: bool) -> None:
        """Go through runpy up to where it executes the code, and remember its frames."""
        import runpy

        run_module, run_code = (vars(runpy)[n] for n in ("_run_module_as_main", "_run_code"))
        try:
            _with_globals(run_module, _run_code=self._recorder(run_code))(name, alter_argv)
        except ZeroDivisionError as reached:
            if self._code is None:
                raise  # Not our mark, but an error in a package of the module.
            codes = (run_module.__code__, run_code.__code__)
            entries = entries_of(reached.__traceback__)
            self.under = [entry for entry in entries if entry.tb_frame.f_code in codes]
        except SystemExit as error:
            if type(error.__context__).__name__ == "_Error":
                self._complain(str(error.__context__))
            raise

    def _recorder(self, run_code: Callable[..., object]) -> Callable[..., None]:
        def record(code: CodeType, names: Any, init: Any, name: str, spec: ModuleSpec) -> None:
            self._code, self._spec = code, spec
            run_code(_MARK, names, init, name, spec)

        return record

    def _complain(self, what: str) -> NoReturn:
        # On one line, as python's: programs read the last line of stderr.
        raise CannotRun("no-module", f"{what}. Is it installed for {sys.executable}?") from None

    def _source(self) -> Unit | None:
        """The unit whose code is what python would run; ``None`` when there is no such source."""
        spec, code = self._spec, self._code
        get_data = getattr(spec and spec.loader, "get_data", None)
        if spec is None or code is None or get_data is None or not spec.origin:
            return None
        if not spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
            return None
        try:
            unit = read_unit(get_data(spec.origin), code.co_filename, warn=False)
        except Exception:
            return None
        return unit if unit.code == code else None  # A stale or rewritten .pyc wins in python.


class MainOf(Module):
    """``voir directory`` or ``voir archive.zip``."""

    def __init__(self, target: Target, file: str | None, filename: str) -> None:
        super().__init__(target, file)
        self._filename = filename

    def load(self, instrument: Instrument | None = None) -> None:
        """Set the stage, let runpy find ``__main__``, and run the prefix of it."""
        self._set_stage()
        self._find("__main__", alter_argv=False)
        self._unit = self._source()
        self.run_prefix(instrument)

    def _set_stage(self) -> None:
        sys.argv = [self.target.name, *self.target.argv]
        replace_first_path(self._filename)  # Even with -P: the user has named it.
        self.main = fresh_main()

    def _complain(self, what: str) -> NoReturn:
        remedy = "Name the script in it, or put its main program into a file __main__.py."
        raise CannotRun("no-main", what, remedy) from None


def _with_globals(function: FunctionType, **replaced: object) -> Callable[..., object]:
    """A copy of ``function`` that sees ``replaced`` in place of its module's globals."""
    names = {**function.__globals__, **replaced}
    return FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
