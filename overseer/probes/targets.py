"""Names bound by an assignment."""

from __future__ import annotations

import ast


def targets(target: ast.AST) -> list[str]:
    """Names in an assignment's target, left to right; attributes and items are skipped."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Starred):
        return targets(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in targets(element)]
    return []
