"""What is foreseen of a script from its plain text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overseer.foreseen import may_learn


@pytest.mark.parametrize(
    ("text", "beside", "expected"),
    [
        ("import time\nsince = time.time()\nimport torch\n", "", True),
        ("def f():\n    from torch import nn\n", "", True),
        ("accelerator.backward(loss)\n", "", True),
        ("from net import *\n", "import torch\n", True),
        ("def f():\n    import net.parts, sys\n", "import torch\n", True),
        ("from .net import model\n", "import torch\n", True),
        ("from net import model\n", "import numpy\n", False),
        ("import os\nprint('net')\n", "import torch\n", False),
        ("from here on\nimport /net\nfrom . import x\nimport\n", "import torch\n", False),
        ("", "", False),
    ],
)
@pytest.mark.parametrize("where", ["net.py", "src/net/__init__.py", "net/parts.py"])
def test_whether_a_script_may_learn_by_pytorch(
    tmp_path: Path, text: str, beside: str, expected: bool, where: str
) -> None:
    script, module = tmp_path / "main.py", tmp_path / where
    module.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text)
    module.write_text(beside)
    named = "net.parts" in text
    there = named == (where == "net/parts.py") or not beside
    assert may_learn(str(script)) == (expected and there)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert not may_learn(str(tmp_path / "pipe.py"))
    assert not may_learn(str(tmp_path / "none.py"))
    assert not may_learn(str(tmp_path))
