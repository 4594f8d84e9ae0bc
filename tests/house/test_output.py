"""stdout belongs to the script; only the command line prints or ends the process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source import Module, called, dotted, modules

ENDS = {"sys.exit", "os._exit", "exit", "quit", "os.abort"}
#: Who names sys.stdout without writing to it: two let out what the script has printed; the help
#: and .display(), by which the user asks giving to print there, look whether it is a terminal; and
#: a writer that is given it does not close it.
QUIET = {
    "overseer.engine.help",
    "overseer.launch.script",
    "overseer.views.dash.dash",
    "overseer.engine.operators",
    "overseer.record.smuggle",
}
#: Commands that run no script: stdout is their own.
COMMANDS = ("overseer.cli.commands", "overseer.cli.init", "overseer.cli.trace")


def outside(*allowed: str) -> list[Module]:
    return [module for module in modules() if not module.below(*allowed)]


def calls(module: Module, tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The calls in a part of a module: where, and of what."""
    return ((module.at(node), name) for node in ast.walk(tree) if (name := called(node)))


def test_only_the_command_line_prints_and_exits() -> None:
    found = [call for module in outside("overseer.cli") for call in calls(module, module.tree)]
    assert [at for at, name in found if name in ENDS | {"print", "pprint"}] == []


def test_only_the_scripts_own_ending_raises_system_exit() -> None:
    raised = [
        module.at(node)
        for module in outside("overseer.cli", "overseer.launch.ending")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in _names(node.exc)
    ]
    assert raised == []


def test_nobody_writes_to_the_scripts_stdout() -> None:
    touched = [
        module.at(node)
        for module in outside(*QUIET, *COMMANDS)
        for node in ast.walk(module.tree)
        if dotted(node) in ("sys.stdout", "sys.__stdout__")
    ]
    assert touched == []


def test_who_may_name_stdout_does_not_write_to_it() -> None:
    functions = [
        (module, node)
        for module in modules()
        if module.name in QUIET
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef) and "stdout" in ast.unparse(node)
    ]
    assert functions
    for module, function in functions:
        ends = {name.rpartition(".")[2] for _, name in calls(module, function)}
        assert ends & {"write", "writelines", "print"} == set(), module.at(function)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
