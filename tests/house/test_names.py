"""No import circles, no class or constant named twice, few modules outside the rooms."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from .source import ROOT, dotted, each, imports, modules


def test_no_module_imports_itself_through_others() -> None:
    names = {module.name for module in modules()}
    graph = {
        module.name: {one.target for one in imports(module)} & names - {module.name}
        for module in modules()
    }
    assert sum(map(len, graph.values())) > 500
    assert _circle(graph) == []


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, each imported by the next."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_class_and_no_public_constant_has_the_name_of_another() -> None:
    classes = [(node.name, at) for at, node in each(ast.ClassDef)]
    constants = [(n, m.name) for m in modules() for n in set(_constants(m.tree.body))]
    assert min(len(classes), len(constants)) > 200
    twice = _twice(classes) | _twice(constants)
    assert twice == {}


def _twice(named: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The places of each name that has several."""
    places = defaultdict(list)
    for name, place in named:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def _constants(body: list[ast.stmt]) -> Iterator[str]:
    """The public names in capitals that a module assigns, those for type checkers left out."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            if dotted(getattr(statement, "test", statement)) != "TYPE_CHECKING":
                blocks = (getattr(statement, block, []) for block in ("body", "orelse"))
                yield from (name for block in blocks for name in _constants(block))
            continue
        targets = getattr(statement, "targets", [getattr(statement, "target", statement)])
        for target in targets if isinstance(statement, ast.Assign | ast.AnnAssign) else []:
            for name in map(dotted, getattr(target, "elts", [target])):
                if name and name.isupper() and not name.startswith(("_", "TYPE_CHECKING")):
                    yield name


def test_few_modules_lie_outside_the_rooms() -> None:
    loose = {file.stem for file in (ROOT / "overseer").glob("*.py")} - {"__init__"}
    assert 0 < len(loose) <= 8, sorted(loose)
