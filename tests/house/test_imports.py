"""Data flows one way: who may import whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .source import ROOT, Import, Module, called, imports, is_below, modules

ROOMS = ("launch", "probes", "reading", "record", "trace")
#: A record has its run's trace made after a kill, and SQL joins both; what is read of a script is
#: written as selectors. Never the other way.
ABOVE = {"record": ("trace",), "reading": ("probes",)}
OURS = ("overseer", "instruments", "voir")


def offending(
    *packages: str, forbidden: tuple[str, ...], allowed: tuple[str, ...] = ()
) -> list[str]:
    """``file:line imports name`` for every import of something below ``forbidden``."""
    found = (i for m in modules(*packages) if not m.below(*allowed) for i in imports(m))
    return [said(i) for i in found if is_below(i.target, *forbidden)]


def said(one: Import) -> str:
    """An import as a failing test names it."""
    return f"{one.at} imports {one.target}"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_do_not_import_each_other(room: str) -> None:
    others = tuple(
        f"overseer.{other}" for other in ROOMS if other not in (room, *ABOVE.get(room, ()))
    )
    inside = [m for m in modules("overseer") if m.below(f"overseer.{room}")]
    found = [said(i) for m in inside for i in imports(m) if is_below(i.target, *others)]
    assert found == []


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_do_not_import_what_wires_them(room: str) -> None:
    wiring = ("overseer.engine.overseer", "overseer.cli", "overseer.engine.phases")
    inside = [m for m in modules("overseer") if m.below(f"overseer.{room}")]
    found = [said(i) for m in inside for i in imports(m) if is_below(i.target, *wiring)]
    assert found == []


def test_the_ground_floor_imports_nothing_of_ours() -> None:
    floor = [m for m in modules() if m.name in ("overseer.errors", "overseer.clock")]
    assert len(floor) == 2
    assert [said(i) for m in floor for i in imports(m) if is_below(i.target, *OURS)] == []


def test_only_the_entry_points_import_the_command_line() -> None:
    entries = ("overseer.cli", "overseer.__main__", "voir.__main__", "voir.cli")
    assert offending(forbidden=("overseer.cli",), allowed=entries) == []


def test_the_engine_imports_neither_instruments_nor_the_facade() -> None:
    assert offending("overseer", forbidden=("instruments", "voir")) == []


def test_the_engine_finds_instruments_by_name_in_one_place() -> None:
    places = [
        module.name
        for module in modules("overseer")
        for name in imported_by_name(module)
        if is_below(name, "instruments")
    ]
    assert places == ["overseer.cli.main"]


def test_the_instruments_do_not_import_the_facade() -> None:
    assert offending("instruments", forbidden=("voir",)) == []


HOMES = {
    "giving": ("overseer.engine.operators",),
    "reactivex": ("overseer.engine.operators",),
    "ptera": ("overseer.probes.ptera",),
    "codefind": ("overseer.probes.ptera",),
}


@pytest.mark.parametrize("package", HOMES)
def test_untyped_packages_are_imported_in_one_place(package: str) -> None:
    assert offending(forbidden=(package,), allowed=HOMES[package]) == []
    by_name = {m.name for m in modules() for name in imported_by_name(m) if is_below(name, package)}
    assert by_name <= set(HOMES[package])


def imported_by_name(module: Module) -> Iterator[str]:
    """What ``module`` imports by a literal name: ``import_module("x")``, ``__import__("x")``."""
    for node in ast.walk(module.tree):
        name = called(node) or ""
        if name.rpartition(".")[2] in ("import_module", "__import__"):
            assert isinstance(node, ast.Call)
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_instruments_use_public_names_only() -> None:
    private = [
        f"{i.at} takes {i.name} from {i.target}"
        for module in modules("instruments", "voir")
        for i in imports(module)
        if i.target.startswith("overseer") and _is_private(f"{i.target}.{i.name or ''}")
    ]
    assert private == []


def test_instruments_leave_the_overseers_private_attributes_alone() -> None:
    touched = [
        f"{module.at(node)}: ov.{node.attr}"
        for module in modules("instruments")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ov"
        and node.attr.startswith("_")
    ]
    assert touched == []


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def test_a_package_only_says_what_it_exports() -> None:
    found = [
        module.at(statement)
        for module in modules()
        if module.path.name == "__init__.py"
        for statement in module.tree.body
        if not _exports(statement)
    ]
    assert found == []


def _exports(statement: ast.stmt) -> bool:
    """A docstring, an import, ``__all__``, ``__instruments__``."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(t, ast.Name) and t.id.startswith("__") for t in targets)


def test_the_example_does_not_know_voir() -> None:
    for file in (ROOT / "examples").rglob("*.py"):
        if file.name == "edited.py":  # Shows what a script can do that does know voir.
            continue
        example = Module(file, file.stem)
        assert [said(i) for i in imports(example) if is_below(i.target, *OURS, "giving")] == []


def test_the_example_voirfile_uses_the_public_name_only() -> None:
    found = [i.target for i in imports(Module(ROOT / "voirfile.py", "voirfile"))]
    assert found
    assert [name for name in found if not is_below(name, "voir")] == []
