"""The recorder's C compiles without a warning, as users' compilers see it."""

from __future__ import annotations

import pytest

from .compiler import FILE, compiled

WARNINGS = ["-Wall", "-Wextra", "-Werror"]


# At -O2 compilers follow values, at -O0 they leave no code out.
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_it_compiles_without_a_warning(tmp_path, level):
    compiled(tmp_path / FILE, level, *WARNINGS)
