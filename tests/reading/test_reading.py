"""What is read of a script: the voirfile for what was seen, and what its text alone says."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

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


STEPS = "for x in D:\n    loss = m(x)\n    loss.backward()\n    o.step()\n"
TRAIN = f"def train():\n{indent(STEPS, '    ')}"
#: Scripts, and what is probed, what is done and of how many; None: no progress is written.
EPOCHS = {
    "up to a number": (
        f"for epoch in range(3):\n{indent(STEPS, '    ')}",
        ("//(epoch) > #endloop_epoch", 'event["epoch"] + 1', "3"),
    ),
    "from one up to an attribute": (
        f"{TRAIN}def main(args):\n for epoch in range(1, args.epochs + 1):\n  train()\nmain(A)\n",
        ("//main(epoch, args) > #endloop_epoch", 'event["epoch"]', 'event["args"].epochs'),
    ),
    "in a method, resumed": (
        f"class T:\n def fit(self):\n  for _ in range(self.done, self.n):\n{indent(STEPS, '   ')}",
        ("//T/fit(_, self) > #endloop__", 'event["_"] + 1', 'event["self"].n'),
    ),
    "of two functions with the same name": (
        f"{TRAIN}def g(n):\n for i in range(n): h()\n"
        "def f(n):\n for i in range(n): train()\nf(2)\n",
        ("//f(i, n) > #endloop_i", 'event["i"] + 1', 'event["n"]'),
    ),
    "around another": (
        f"for k in range(n := 5):\n for i in range(2):\n{indent(STEPS, '  ')}",
        None,
    ),
    "the outermost": (
        f"n = 5\nfor k in range(n):\n for i in range(2):\n{indent(STEPS, '  ')}",
        ("//(k, n) > #endloop_k", 'event["k"] + 1', 'event["n"]'),
    ),
    "of the steps themselves": (
        "for i in range(3):\n    loss = m(i)\n    loss.backward()\n    o.step()\n",
        None,
    ),
    "beside it": (f"for i in range(3): print(i)\n{STEPS}", None),
    "two with one variable": (
        f"for i in range(3): print(i)\nfor i in range(3):\n{indent(STEPS, '  ')}",
        None,
    ),
    "whose variable changes": (f"for i in range(3):\n{indent(STEPS, '  ')}  i = 7\n", None),
    "whose end changes": (f"n = 3\nfor i in range(n):\n{indent(STEPS, '  ')}  n = 7\n", None),
    "up to a global": (f"N = 3\n{TRAIN}def f():\n for i in range(N): train()\nf()\n", None),
    "from one up to a name": (f"n = 3\nfor i in range(1, n):\n{indent(STEPS, '  ')}", None),
    "with a stride": (f"for i in range(0, 9, 3):\n{indent(STEPS, '  ')}", None),
    "up to a call": (f"for i in range(len(D)):\n{indent(STEPS, '  ')}", None),
    "over something else": (f"for i in [1, 2]:\n{indent(STEPS, '  ')}", None),
}


@pytest.mark.parametrize("name", EPOCHS)
def test_the_loop_over_epochs_is_the_progress(name: str, tmp_path: Path) -> None:
    body, expected = EPOCHS[name]
    lines = read(sources(tmp_path, main=body)).lines
    written = [" ".join(line.code.split()) for line in lines if line.role == "progress"]
    assert written == [
        f'ov.probe("{selector}").subscribe( lambda event: ov.give( task="train",'
        f' progress=({done}, {of}), units="epochs" ) )'
        for selector, done, of in ([expected] if expected else [])
    ]


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
