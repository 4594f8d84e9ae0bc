"""What import-linter cannot hold: imports by name, private names, what a package is made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .source import PACKAGES, ROOT, Module, called, imports, is_below, modules


def test_what_is_imported_by_name_is_so_in_one_place() -> None:
    by_name = {(name.partition(".")[0], m.name) for m in modules() for name in imported_by_name(m)}
    found = {each for each in by_name if each[0] in ("instruments", "ptera", "giving")}
    assert found == {("instruments", "overseer.cli.main"), ("ptera", "overseer.probes.ptera")}


def imported_by_name(module: Module) -> Iterator[str]:
    """What ``module`` imports by a literal name: ``import_module("x")``, ``__import__("x")``."""
    for node in ast.walk(module.tree):
        name = called(node) or ""
        if name.rpartition(".")[2] in ("import_module", "__import__"):
            assert isinstance(node, ast.Call)
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_what_is_compiled_imports_nothing_in_functions() -> None:
    # There, an import is the script's: a file beside it would be taken for Python's module.
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (names,) = re.findall('^COMPILED = "(.*)"', setup, re.M)
    for name in names.split():
        tree = ast.parse((ROOT / f"overseer/model/{name}.py").read_text(encoding="utf-8"))
        within = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        found = [n for one in within for n in ast.walk(one)]
        assert not [n for n in found if isinstance(n, ast.Import | ast.ImportFrom)], name


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
        assert [i.at for i in imports(example) if is_below(i.target, *PACKAGES, "giving")] == []


def test_the_example_voirfile_uses_the_public_name_only() -> None:
    found = [i.target for i in imports(Module(ROOT / "voirfile.py", "voirfile"))]
    assert found
    assert [name for name in found if not is_below(name, "voir")] == []
