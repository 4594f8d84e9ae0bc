"""Rules that import-linter cannot check: imports by name, private names, package contents."""

from __future__ import annotations

import ast
import re

from .source import PACKAGES, ROOT, Module, called, dotted, each, imports, is_below, modules

OURS = (*PACKAGES, "giving")


def test_each_import_by_name_has_one_place() -> None:
    """As in ``import_module("x")`` and ``__import__("x")``."""
    found = {
        (str(call.args[0].value).partition(".")[0], at.partition(":")[0])
        for at, call in each(ast.Call)
        if (called(call) or "").rpartition(".")[2] in ("import_module", "__import__")
        and isinstance(call.args[0], ast.Constant)
    }
    assert {one for one in found if one[0] in ("instruments", "ptera", "giving")} == {
        ("instruments", "overseer/engine/voirfile.py"),
        ("ptera", "overseer/probes/ptera.py"),
    }


def test_compiled_modules_import_nothing_in_functions() -> None:
    # There, an import is the script's: a file beside it would be taken for Python's module.
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (names,) = re.findall('^COMPILED = "(.*)"', setup, re.M)
    compiled = [m for m in modules() if m.name in {f"overseer.model.{n}" for n in names.split()}]
    assert compiled
    for at, function in each(ast.FunctionDef, ast.Lambda, among=compiled):
        found = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not found, at


def test_instruments_use_public_names_and_attributes_only() -> None:
    among = modules("instruments", "voir")
    found = [
        f"{i.at} takes {i.name} from {i.target}"
        for i in (i for module in among for i in imports(module))
        if is_below(i.target, "overseer") and re.search(r"\._(?!_)", f"{i.target}.{i.name or ''}")
    ]
    for at, node in each(ast.Attribute, among=among):
        if dotted(node.value) == "ov" and node.attr.startswith("_"):
            found.append(f"{at}: ov.{node.attr}")
    assert found == []


def test_a_package_holds_only_imports_and_all() -> None:
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


def test_the_example_does_not_import_voir() -> None:
    for file in (ROOT / "examples").rglob("*.py"):
        if file.name != "edited.py":  # That shows what a script can do that does know voir.
            known = [i for i in imports(Module(file, file.stem)) if is_below(i.target, *OURS)]
            assert known == []


def test_the_example_voirfile_uses_the_public_name_only() -> None:
    found = [i.target for i in imports(Module(ROOT / "voirfile.py", "voirfile"))]
    assert found
    assert [name for name in found if not is_below(name, "voir")] == []
