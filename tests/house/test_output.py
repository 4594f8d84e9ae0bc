"""stdout belongs to the script; only the command line prints or ends the process."""

from __future__ import annotations

import ast

from .source import Module, called, dotted, each, is_below, modules

ENDS = {"sys.exit", "os._exit", "exit", "quit", "os.abort"}
#: Who names sys.stdout without writing to it: two let out what the script has printed; the help
#: and .display(), by which the user asks giving to print there, look whether it is a terminal; and
#: a writer that is given it does not close it.
QUIET = {
    "overseer.engine.help",
    "overseer.launch.script",
    "overseer.views.dash.dash",
    "overseer.engine.operators",
    "overseer.rundir.smuggle",
}
#: Commands that run no script: stdout is their own.
COMMANDS = (
    "overseer.cli.commands",
    "overseer.cli.init",
    "overseer.cli.trace",
    "overseer.cli.watch",
)


def outside(*allowed: str) -> list[Module]:
    return [module for module in modules() if not is_below(module.name, *allowed)]


def test_only_the_command_line_prints_and_exits() -> None:
    calls = each(ast.Call, among=outside("overseer.cli"))
    assert [at for at, call in calls if called(call) in ENDS | {"print", "pprint"}] == []


def test_only_the_scripts_own_ending_raises_system_exit() -> None:
    raises = each(ast.Raise, among=outside("overseer.cli", "overseer.launch.ending"))
    assert [at for at, node in raises if "SystemExit" in ast.unparse(node)] == []


def test_no_module_writes_to_the_scripts_stdout_even_where_it_names_it() -> None:
    named = each(ast.Attribute, among=outside(*QUIET, *COMMANDS))
    assert [at for at, node in named if dotted(node) in ("sys.stdout", "sys.__stdout__")] == []
    quiet = [module for module in modules() if module.name in QUIET]
    functions = each(ast.FunctionDef, among=quiet)
    naming = [(at, node) for at, node in functions if "stdout" in ast.unparse(node)]
    assert naming
    for at, function in naming:
        calls = {called(node) or "" for node in ast.walk(function)}
        assert {c.rpartition(".")[2] for c in calls}.isdisjoint({"write", "writelines", "print"}), (
            at
        )
