"""Completing options in the shell: what may come next, and the scripts that ask for it."""

from __future__ import annotations

import argparse

from ..engine.options import OptionParser

SHELLS = ("bash", "zsh")
#: What the scripts ask with: ``voir --completion words WORD...``, the last of them begun.
WORDS = "words"

_BASH = """\
# voir's options for bash; in ~/.bashrc: eval "$(voir --completion bash)"
_voir_complete() {
    local found
    found=$(voir --completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
    COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _voir_complete voir
"""
_ZSH = """\
#compdef voir
# voir's options for zsh; in ~/.zshrc, after compinit: eval "$(voir --completion zsh)"
_voir_complete() {
    local -a found
    found=(${(f)"$(voir --completion words "${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)"})
    if (( ${#found} )); then
        compadd -a found
    else
        _files
    fi
}
compdef _voir_complete voir
"""


def script(shell: str) -> str:
    """What to evaluate in ``shell`` so that it completes voir's options."""
    return {"bash": _BASH, "zsh": _ZSH}[shell]


def candidates(parser: OptionParser, words: list[str]) -> list[str]:
    """What the last of ``words``, which is begun or empty, may become; nothing: a file's name.

    Args:
        parser: Knows the options, those of voirfiles included.
        words: What stands behind ``voir``.
    """
    *before, begun = words or [""]
    awaited: argparse.Action | None = None
    for word in before:
        if awaited is not None:
            awaited = None
        elif word.startswith("-") and word not in ("-", "-m", "--"):
            awaited = _awaiting(parser, word)
        else:
            return []  # The script: what follows is its own.
    if awaited is not None:
        return _begun(begun, [str(c) for c in awaited.choices or () if c != WORDS])
    return _begun(begun, sorted(parser._option_string_actions)) if begun.startswith("-") else []


def _awaiting(parser: OptionParser, word: str) -> argparse.Action | None:
    """The option, if the next word is its value."""
    action = parser._option_string_actions.get(word)
    return action if action is not None and action.nargs is None else None


def _begun(begun: str, words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(begun)]
