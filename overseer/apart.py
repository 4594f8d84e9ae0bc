"""Keeps voir's imports and the script's apart where a file beside the script shadows a module.

Where a file beside the script has the name of a module of Python's, of a dependency or of voir's,
``import`` finds that file in the script and the module in voir's code, whoever comes first, and
whenever: voir's code goes on importing as if nothing lay beside the script. This module is imported
before all others, and does nothing where there is no such file.
"""

import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

#: What voir imports from, beside Python's own modules.
_PACKAGES = {
    "overseer", "instruments", "voir", "rich", "pygments", "markdown_it", "mdurl", "psutil", "yaml",
    "pynvml", "ptera", "codefind", "giving", "reactivex", "varname", "executing", "asttokens",
    "typing_extensions",
}  # fmt: skip
#: What voir's functions import of Python's, some of them on threads of their own; and packages that
#: import more of themselves.
_LATE = (
    "ast", "ctypes", "difflib", "faulthandler", "fcntl", "hashlib", "json", "linecache", "select",
    "shlex", "traceback", "unicodedata", "warnings", "psutil", "pynvml", "rich.console", "giving",
    "ptera.selector",
)  # fmt: skip
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: ``sys.path`` as it was when voir began, where it was changed.
_path: "list[str]" = []
#: Where such files are.
_where: "set[str]" = set()
#: Names of the script's, and voir's modules of these names.
_names: "set[str]" = set()
_kept: "dict[str, Any]" = {}
#: What :class:`_Aside` has to put back, one for each time that it is entered.
_aside: "list[tuple[dict[str, Any], list[str]] | None]" = []
_runs = False
_lock: "Any" = None


def look(arguments: "Iterable[str]") -> None:
    """Find such files beside whatever ``arguments`` may run, and keep voir's imports from them."""
    global _lock
    try:
        os.getcwd()
    except OSError:  # The current directory has been deleted: there is nothing beside.
        return
    for place in _places(arguments):
        names = _beside(place)
        if names and not _holds_packages(place):
            _where.add(place)
            _names.update(names)
    if _where:
        import _thread

        _lock = _thread.RLock()
        _path[:] = sys.path
        _look_aside()
        _ours.update(vars(builtins), __import__=_import)
        sys.meta_path.insert(0, _Finder())


def _places(arguments: "Iterable[str]") -> "Iterator[str]":
    """Directories from which the script may import before Python's own."""
    for one in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if one:
            yield os.path.abspath(one)
    yield os.path.abspath("")
    for one in arguments:
        if os.path.exists(one):
            real = os.path.realpath(one)
            yield real if os.path.isdir(real) else os.path.dirname(real)


def _beside(place: str) -> "set[str]":
    """The names that voir imports which are modules in a directory."""
    try:
        found = os.listdir(place)
    except OSError:
        return set()
    known = _PACKAGES | sys.stdlib_module_names
    names = {name.partition(".")[0] for name in found if name.endswith((".py", ".so", ".pyc"))}
    packages = (os.path.join(place, name, "__init__.py") for name in known.intersection(found))
    return names & known | {one.split(os.sep)[-2] for one in packages if os.path.isfile(one)}


def _holds_packages(place: str) -> bool:
    """Whether it is the directory that voir itself is imported from, Python's, or of packages."""
    installed = os.path.basename(place) in ("site-packages", "dist-packages")
    return installed or place == _HOME or os.path.dirname(os.__file__).startswith(place)


class _Builtins(dict):  # type: ignore[type-arg]
    """Builtins with an ``import`` of their own; what becomes a builtin later is here too."""

    def __missing__(self, name: str) -> "Any":
        return vars(builtins)[name]


_ours = _Builtins()


class _Finder:
    """Has voir's modules and those of its dependencies import by :func:`_import`."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Find a module as the others do."""
        if name.partition(".")[0] not in _PACKAGES and _runs and not _aside:
            return None  # The script imports it.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _step_into(spec.loader)
                return spec
        return None


def _step_into(loader: "Any") -> None:
    if loader is None or isinstance(loader, type):
        return  # A directory, or built into Python: it imports nothing.
    run = loader.exec_module

    def exec_module(module: "Any") -> None:
        module.__dict__["__builtins__"] = _ours
        run(module)

    loader.exec_module = exec_module


def make_way() -> None:
    """The script is about to run: from here on the names are its own, but for what Python has."""
    if not _where:
        return
    _import_all()
    from subprocess import run

    listed = "import sys; print(*sys.modules, sep='\\n')"
    told = run([sys.executable, "-P", "-c", listed], capture_output=True, text=True, cwd=os.sep)
    global _runs
    _runs = True
    _names.difference_update(told.stdout.split(), ["__main__"])
    sys.path[:] = _path
    _kept.update(_taken_out())


def _import_all() -> None:
    """Import what voir may need later: nobody else imports while it looks aside."""
    names = [*_LATE]
    for package in ("overseer", "instruments"):
        for place, _, files in os.walk(os.path.join(_HOME, package)):
            parts = os.path.relpath(place, _HOME).replace(os.sep, ".")
            names += [f"{parts}.{file[:-3]}" for file in files if file.endswith(".py")]
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a dependency's age, say: it is not the script's.
        for name in names:
            try:
                __import__(name.removesuffix(".__init__"))
            except ImportError:
                pass  # It is for something that is not installed.


def _taken_out() -> "dict[str, Any]":
    names = [name for name in sys.modules if name.partition(".")[0] in _names]
    return {name: sys.modules.pop(name) for name in names}


def _look_aside() -> None:
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) not in _where]


def _import(
    name: str, globals: "Any" = None, locals: "Any" = None, fromlist: "Any" = (), level: int = 0
) -> "Any":
    """``__import__`` of voir's modules."""
    whole = name
    if level:
        home = globals["__package__"].rsplit(".", level - 1)[0]
        whole = f"{home}.{name}" if name else home
    top = whole.partition(".")[0]
    known = _kept if top in _names else sys.modules
    module = known.get(whole)
    if module is not None and all(one == "*" or hasattr(module, one) for one in fromlist or ()):
        return module if fromlist else known[top]
    with aside:
        return __import__(name, globals, locals, fromlist, level)


class _Aside:
    """A context in which nothing lies beside the script, for what imports by itself.

    The script's other threads see it too: one of voir's threads enters it as seldom as can be.

    Args:
        name: Only where the script has this name.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __enter__(self) -> None:
        if self._applies():
            _lock.acquire()
            outermost = _runs and not _aside
            _aside.append((_taken_out(), sys.path[:]) if outermost else None)
            if outermost:
                sys.modules.update(_kept)
                _look_aside()

    def __exit__(self, *error: object) -> None:
        if self._applies():
            if (before := _aside.pop()) is not None:
                _kept.update(_taken_out())
                sys.modules.update(before[0])
                sys.path[:] = before[1]
            _lock.release()

    def _applies(self) -> bool:
        return _lock is not None and (not self._name or self._name in _names)


aside = _Aside()
#: psutil looks itself up by its name.
aside_psutil = _Aside("psutil")


def _is_voir(argv: "list[str]") -> bool:
    """Whether it is voir that runs, rather than a program which imports it."""
    if argv[:1] == ["-m"]:  # Of `python -m voir ...`, when the module is looked for.
        return sys.orig_argv[-len(argv)] in ("voir", "-mvoir")
    return bool(argv) and os.path.basename(argv[0]) == "voir"


if _is_voir(sys.argv):
    look(sys.argv[1:])
