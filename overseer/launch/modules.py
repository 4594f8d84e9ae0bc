"""Programs found by import: ``-m module[:function]``, and directories or zip files.

runpy finds and names the code, and raises its own errors; only its last step, executing the code,
is postponed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from types import CodeType, FunctionType, ModuleType

from ..boundary import entries_of
from .program import (
    CannotRun,
    MainProgram,
    Program,
    Target,
    current_directory,
    fresh_main,
    replace_first_path,
)
from .source import Instrument, MainSource, parse_main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MARK = compile("0 / 0", "<voir>", "exec")  # Raises without touching the namespace.


class Module(MainProgram):
    """``voir -m module``."""

    _code: CodeType | None = None
    _spec: ModuleSpec | None = None

    def load(self, instrument: Instrument | None = None) -> None:
        """Prepare ``sys`` and ``__main__``, let runpy find the module, and run its prefix."""
        self._set_stage()
        ahead = self._preparsed()
        self.begin()
        self._find(self.target.name, alter_argv=True)
        self._main_source = ahead if ahead is not None and self._is(ahead) else self._source()
        self.run_prefix(instrument)

    def run_whole(self) -> None:
        """Run the code that runpy found."""
        assert self._code is not None
        self.execute(self._code)

    def _set_stage(self) -> None:
        self.main = _stage_for_a_module(self.target)

    def _find(self, name: str, alter_argv: bool) -> None:
        """Run runpy up to the point where it executes the code; keep its frames."""
        import runpy

        run_module, run_code = (vars(runpy)[n] for n in ("_run_module_as_main", "_run_code"))

        def record(code: CodeType, names: Any, init: Any, name: str, spec: ModuleSpec) -> None:
            self._code, self._spec = code, spec
            run_code(_MARK, names, init, name, spec)

        # A copy of the function, with ``record`` in place of ``_run_code``.
        own = {**run_module.__globals__, "_run_code": record}
        copy = FunctionType(run_module.__code__, own, None, run_module.__defaults__)
        try:
            copy(name, alter_argv)
        except ZeroDivisionError as reached:
            if self._code is None:
                raise  # Raised by a package of the module, not by _MARK.
            codes = (run_module.__code__, run_code.__code__)
            entries = entries_of(reached.__traceback__)
            self.under = [entry for entry in entries if entry.tb_frame.f_code in codes]
        except SystemExit as error:
            if type(error.__context__).__name__ == "_Error":
                self._complain(str(error.__context__))
            raise

    def _complain(self, what: str) -> NoReturn:
        # On one line, like Python's message: programs read the last line of stderr.
        raise CannotRun("no-module", f"{what}. Is it installed for {sys.executable}?") from None

    def _preparsed(self) -> MainSource | None:
        """Parse the module before its packages run; afterwards it may turn out to be another."""
        try:
            with open(self.file or "", "rb") as file:
                return parse_main(file.read(), self.file or "", warn=False)
        except Exception:
            return None

    def _source(self) -> MainSource | None:
        """Parse the source of the code that runpy found; ``None`` if it has none."""
        spec: Any = self._spec
        code: Any = self._code
        try:
            if not spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
                return None
            data = spec.loader.get_data(spec.origin)
            source = parse_main(data, code.co_filename, warn=False)
        except Exception:
            return None
        return source if self._is(source) else None

    def _is(self, source: MainSource) -> bool:
        """True if the source compiles to the code found; a stale or rewritten .pyc may differ."""
        code = self._code
        return code is not None and (source.code, source.filename) == (code, code.co_filename)


class MainOf(Module):
    """``voir directory`` or ``voir archive.zip``."""

    def __init__(self, target: Target, file: str | None, filename: str) -> None:
        super().__init__(target, file)
        self._filename = filename

    def _find(self, name: str, alter_argv: bool) -> None:
        super()._find("__main__", alter_argv=False)

    def _set_stage(self) -> None:
        sys.argv = [self.target.name, *self.target.argv]
        replace_first_path(self._filename)  # Even with -P: the user named this path.
        self.main = fresh_main()

    def _complain(self, what: str) -> NoReturn:
        remedy = "Name the script in it, or put its main program into a file __main__.py."
        raise CannotRun("no-main", what, remedy) from None


def _stage_for_a_module(target: Target) -> ModuleType:
    sys.argv = ["-m", *target.argv]
    replace_first_path(None if sys.flags.safe_path else current_directory())
    return fresh_main()


class Function(Program):
    """A function run as a program, like the entry point of an installed command."""

    def load(self, instrument: Instrument | None = None) -> None:
        """Import the module under its own name; import hooks instrument it, not ``instrument``."""
        name, _, path = self.target.name.partition(":")
        if not (name and path):
            what = f"-m {self.target.name} names no function"
            raise CannotRun("no-function", what, "For example: -m package.module:main")
        _stage_for_a_module(self.target)
        self.begin()
        self._function = self._resolve(_import(name), path)

    def run(self) -> object:
        """Call the function and return its value; a number is also the exit status."""
        return self._function()

    def _resolve(self, module: ModuleType, path: str) -> Callable[[], object]:
        sys.argv[0] = getattr(module, "__file__", None) or module.__name__
        found: Any = module
        for part in path.split("."):
            if not hasattr(found, part):
                kind = "module " * isinstance(found, ModuleType)
                what = f"{kind}{getattr(found, '__name__', found)!r} has no attribute {part!r}"
                raise CannotRun("no-function", what, _callables(found, part))
            found = getattr(found, part)
        if not callable(found):
            what = f"{self.target.name} is not a function but {type(found).__name__}"
            raise CannotRun("no-function", what, _callables(module, path))
        return found  # type: ignore[no-any-return]


def _import(name: str) -> ModuleType:
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # A module that this one imports is missing.
        what = f"No module named {error.name}. Is it installed for {sys.executable}?"
        raise CannotRun("no-module", what) from None
    return sys.modules[name]


def _callables(found: object, part: str) -> str:
    from difflib import get_close_matches

    names = [n for n in dir(found) if not n.startswith("_") and callable(getattr(found, n, None))]
    near = get_close_matches(part, names, 3) or names[:5]
    return f"It has: {', '.join(near)}." if near else "It defines no function at all."
