"""Separates voir's imports from the script's where a file beside the script shadows a module.

A file beside the script may have the name of a module of Python, of a dependency or of voir. Then
``import`` finds that file in the script, and the real module in voir's code, in any order and at
any time. This module must be imported before all others. It does nothing without such a file.
"""

import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

#: Packages that voir imports from, besides Python's own modules.
_PACKAGES = {
    "overseer", "instruments", "voir", "rich", "pygments", "markdown_it", "mdurl", "psutil", "yaml",
    "pynvml", "ptera", "codefind", "giving", "reactivex", "varname", "executing", "asttokens",
    "typing_extensions",
}  # fmt: skip
#: Modules of Python that voir's functions import later, some of them on voir's threads; and
#: packages that import more of themselves later.
_LATE = (
    "ast", "ctypes", "difflib", "faulthandler", "fcntl", "hashlib", "json", "linecache", "select",
    "shlex", "traceback", "unicodedata", "warnings", "psutil", "pynvml", "rich.console", "giving",
    "ptera.selector",
)  # fmt: skip
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: ``sys.path`` when voir started, if it was changed.
_path: "list[str]" = []
#: Directories with such files.
_where: "set[str]" = set()
#: Shadowed names, and voir's modules of these names.
_names: "set[str]" = set()
_kept: "dict[str, Any]" = {}
#: What :class:`_Aside` restores: one entry for each time that it was entered.
_aside: "list[tuple[dict[str, Any], list[str]] | None]" = []
_runs = False
_lock: "Any" = None


def look(arguments: "Iterable[str]") -> None:
    """Find such files beside the scripts in ``arguments``; hide them from voir's imports."""
    global _lock
    try:
        os.getcwd()
    except OSError:  # The current directory has been deleted.
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
    """Directories that the script searches for modules before Python's own."""
    for one in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if one:
            yield os.path.abspath(one)
    yield os.path.abspath("")
    for one in arguments:
        if os.path.exists(one):
            real = os.path.realpath(one)
            yield real if os.path.isdir(real) else os.path.dirname(real)


def _beside(place: str) -> "set[str]":
    """The modules in a directory whose names voir imports."""
    try:
        found = os.listdir(place)
    except OSError:
        return set()
    known = _PACKAGES | sys.stdlib_module_names
    names = {name.partition(".")[0] for name in found if name.endswith((".py", ".so", ".pyc"))}
    packages = (os.path.join(place, name, "__init__.py") for name in known.intersection(found))
    return names & known | {one.split(os.sep)[-2] for one in packages if os.path.isfile(one)}


def _holds_packages(place: str) -> bool:
    """Test whether the directory holds voir itself, Python's library or installed packages."""
    installed = os.path.basename(place) in ("site-packages", "dist-packages")
    return installed or place == _HOME or os.path.dirname(os.__file__).startswith(place)


class _Builtins(dict):  # type: ignore[type-arg]
    """Builtins with voir's ``import``; builtins that are added later are found too."""

    def __missing__(self, name: str) -> "Any":
        return vars(builtins)[name]


_ours = _Builtins()


class _Finder:
    """Makes voir's modules and those of its dependencies import through :func:`_import`."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Find a module with the other finders."""
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
    """Give the shadowed names to the script, which is about to run."""
    if not _where:
        return
    _import_all()
    from subprocess import run

    listed = "import sys; print(*sys.modules, sep='\\n')"
    done = run([sys.executable, "-P", "-c", listed], capture_output=True, text=True, cwd=os.sep)
    global _runs
    _runs = True
    _names.difference_update(done.stdout.split(), ["__main__"])
    sys.path[:] = _path
    _kept.update(_taken_out())


def _import_all() -> None:
    """Import what voir may need later; other threads must not import inside ``aside``."""
    names = [*_LATE]
    for package in ("overseer", "instruments"):
        for place, _, files in os.walk(os.path.join(_HOME, package)):
            parts = os.path.relpath(place, _HOME).replace(os.sep, ".")
            names += [f"{parts}.{file[:-3]}" for file in files if file.endswith(".py")]
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Warnings of old dependencies, say.
        for name in names:
            try:
                __import__(name.removesuffix(".__init__"))
            except ImportError:
                pass  # An optional dependency is not installed.


def _taken_out() -> "dict[str, Any]":
    names = [name for name in sys.modules if name.partition(".")[0] in _names]
    return {name: sys.modules.pop(name) for name in names}


def _look_aside() -> None:
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) not in _where]


def _import(
    name: str, globals: "Any" = None, locals: "Any" = None, fromlist: "Any" = (), level: int = 0
) -> "Any":
    """Stands in for ``__import__`` in voir's modules."""
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
    """Within the block, imports ignore what lies beside the script; for code that imports itself.

    The script's other threads are affected too, so voir's threads enter it as rarely as possible.

    Args:
        name: Has an effect only if the script shadows this module; empty: always.
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
#: psutil imports itself by name.
aside_psutil = _Aside("psutil")


def _is_voir(argv: "list[str]") -> bool:
    """Test whether voir itself runs, rather than a program that imports it."""
    if argv[:1] == ["-m"]:  # ``python -m voir``, while runpy looks for the module.
        return sys.orig_argv[-len(argv)] in ("voir", "-mvoir")
    return bool(argv) and os.path.basename(argv[0]) == "voir"


if _is_voir(sys.argv):
    look(sys.argv[1:])
