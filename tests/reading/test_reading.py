"""What is read of a script: the voirfile for what was seen, and what its text alone says."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from overseer.errors import VoirError
from overseer.reading.observed import read
from overseer.reading.script import corrected, open_source, project
from overseer.reading.voirfile import template

from .record import GOLDEN, NAMES, recorded, text


def sources(path: Path, **files: str) -> list:
    """The script ``main`` and the modules that it imports."""
    for name, body in files.items():
        (path / f"{name}.py").write_text(dedent(body))
    return project(open_source(str(path / "main.py")), str(path))


@pytest.mark.parametrize("name", NAMES)
def test_the_voirfile_for_what_was_seen_of_a_program(name: str) -> None:
    written = text(name, recorded()[name])
    expected = (GOLDEN / f"{name}.py.txt").read_text()
    assert written == expected, f"python -m tests.reading.record {name} writes it anew"


TEXTS = {
    "a loop with a loss": (
        "def fit(data):\n    for x in data:\n        loss = x ** 2\n",
        ["//fit(x as batch, loss) > #endloop_x as step"],
        True,
    ),
    "a counter is no batch": (
        "for i in range(9):\n    train_loss = i\n",
        ["//(train_loss as loss) > #endloop_i as step"],
        True,
    ),
    "the innermost loop": (
        "for epoch in range(3):\n    for x in DATA:\n        loss = x\n    loss = 0\n",
        ["//(x as batch, loss) > #endloop_x as step"],
        True,
    ),
    "a setting is no batch, and an error no loss beside one": (
        "for size in (8, 9):\n    err = size\n    loss = err ** 2\n",
        ["//(loss) > #endloop_size as step"],
        True,
    ),
    "a while loop": (
        "while more():\n    loss = step()\n",
        ["//(loss) > #endloop_loss as step"],
        True,
    ),
    "two functions": (
        "for x in D:\n    loss = x\ndef f():\n    for y in D:\n        loss = y\n",
        [],
        True,
    ),
    "no loss": ("for x in D:\n    total = x\n", [], True),
    "enumerate": (
        "for i, (x, y) in enumerate(D):\n    loss = m(x)\n    loss.backward()\n    o.step()\n",
        ["//(x as batch, loss) > #endloop_x as step"],
        False,
    ),
    "a step in another function": (
        """
        class T:
            def learn(self, x):
                loss = self.model(x)
                loss.backward()
                self.optimizer.step()
            def fit(self):
                for batch in self.loader:
                    self.learn(batch)
                    self.scheduler.step()
        """,
        ["//T/fit(batch) > #endloop_batch as step", "//T/learn > loss"],
        False,
    ),
    "gradients that add up": (
        """
        for i, x in enumerate(D):
            loss = m(x)
            loss.backward()
            if i % 4 == 0:
                o.step()
        """,
        [],
        False,
    ),
    "micro-batches": (
        """
        while True:
            for micro in range(4):
                loss = m(x)
                loss.backward()
            o.step()
        """,
        ["// > #endloop_loss as step"],
        False,
    ),
    "optimizers in a loop": (
        """
        for x in D:
            scaler.scale(loss := m(x)).backward()
            for o in optimizers:
                o.step()
        """,
        ["//(x as batch, loss) > #endloop_x as step"],
        False,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_alone(name: str, tmp_path: Path) -> None:
    body, selectors, live = TEXTS[name]
    found = read(sources(tmp_path, main=body))
    assert [line.code for line in found.lines] == [f'ov.probe("{s}").give()' for s in selectors]
    assert all(line.live is live for line in found.lines)


def test_modules_of_the_project_are_read(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("from .engine import train\n")
    engine = "def train(loader):\n    for x in loader:\n        loss = x\n        loss.backward()\n"
    (tmp_path / "lib" / "engine.py").write_text(engine)
    found = read(sources(tmp_path, main="from lib import train\ntrain([])\n"))
    (line,) = found.lines
    assert (
        line.code == 'ov.probe("/lib.engine/train(x as batch, loss) > #endloop_x as step").give()'
    )


CORRECTED = {
    "//fitt > loss": "//fit > loss",
    "//fit > los": "//fit > loss",
    "//fit(xs as batch) > #endloop_xs as step": "//fit(x as batch) > #endloop_x as step",
    "//fit(x as batch, !#loop_y as start, !!#endloop_y as end)": None,
    "//nothing/of/the/kind > z": None,
}


@pytest.mark.parametrize("selector", CORRECTED)
def test_the_selector_in_place_of_a_misspelt_one(selector: str, tmp_path: Path) -> None:
    found = sources(tmp_path, main="def fit(data):\n    for x in data:\n        loss = x\n")
    better = corrected(selector, found)
    assert (None if better == selector else better) == CORRECTED[selector]


def test_a_template_has_the_scripts_own_functions(tmp_path: Path) -> None:
    found = sources(tmp_path, main="def go(xs):\n    for x in xs:\n        print(x)\n")
    assert [line.code for line in template(found)] == [
        'ov.probe("//go(x as batch) > #endloop_x as step").give()',
        'ov.probe("//go > LOSS as loss").give()',
    ]
    assert template(sources(tmp_path, main="print(1)\n")) == []


REFUSED = {
    "init-script": None,
    "init-empty": b"# nothing\n",
    "init-syntax": b"def f(:\n",
    "init-syntax ": "x = 'é'\n".encode("latin-1"),
    "init-syntax  ": b"x = " + b"+".join([b"1"] * 30_000),
}


@pytest.mark.parametrize("slug", REFUSED)
def test_what_cannot_be_read_is_refused(slug: str, tmp_path: Path) -> None:
    path, data = tmp_path / "main.py", REFUSED[slug]
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(VoirError) as refused:
        open_source(str(path))
    assert refused.value.slug == slug.strip()


def test_other_encodings_and_long_scripts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_bytes("# coding: latin-1\nx = 'é'\n".encode("latin-1"))
    assert open_source(str(path)).tree.body
    loop = "def train(data):\n    for x in data:\n        loss = x\n"
    path.write_text(loop + "".join(f"def f{n}(a):\n    return a + {n}\n" for n in range(5_000)))
    assert len(read([open_source(str(path))]).lines) == 1
