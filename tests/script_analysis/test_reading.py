"""What is read of a script: the voirfile for what was seen, and what its text alone says."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent

import pytest

from overseer.errors import VoirError
from overseer.script_analysis.script import corrected, open_source, project
from overseer.script_analysis.text import lines, read

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
    assert written == expected, f"python -m tests.script_analysis.record {name} writes it anew"


#: Scripts, and what is probed: of what has no gradients, hooks see nothing, so it is live.
TEXTS = {
    "a loop with a loss": (
        "def fit(data):\n for x in data:\n  loss = x ** 2\n",
        ["//fit(x as batch, loss) > #endloop_x as step"],
    ),
    "a counter is no batch": (
        "for i in range(9):\n train_loss = i\n",
        ["//(train_loss as loss) > #endloop_i as step"],
    ),
    "the innermost loop": (
        "for epoch in range(3):\n for x in DATA:\n  loss = x\n loss = 0\n",
        ["//(x as batch, loss) > #endloop_x as step"],
    ),
    "a setting is no batch, and an error no loss beside one": (
        "for size in (8, 9):\n err = size\n loss = err ** 2\n",
        ["//(loss) > #endloop_size as step"],
    ),
    "a while loop": ("while more():\n loss = step()\n", ["//(loss) > #endloop_loss as step"]),
    "two functions": ("for x in D:\n loss = x\ndef f():\n for y in D:\n  loss = y\n", []),
    "no loss": ("for x in D:\n total = x\n", []),
    "enumerate": (
        "for i, (x, y) in enumerate(D):\n loss = m(x)\n loss.backward()\n o.step()\n",
        ["//(x as batch, loss) > #endloop_x as step"],
    ),
    "a step in another function": (
        "class T:\n def learn(self, x):\n  loss = self.model(x)\n  loss.backward()\n  o.step()\n"
        " def fit(self):\n  for batch in D:\n   self.learn(batch)\n   self.scheduler.step()\n",
        [],
    ),
    "gradients that add up": (
        "for i, x in enumerate(D):\n loss = m(x)\n loss.backward()\n if i % 4 == 0:\n  o.step()\n",
        [],
    ),
    "gradients that add up, with a variable beside the step": (
        "for i, x in enumerate(D):\n loss = m(x)\n loss.backward()\n"
        " if i % 4 == 0:\n  norm = clip(m)\n  o.step()\n",
        ["// > norm as step"],
    ),
    "updates that add up, by a function of the script": (
        "def apply(g): return g\nclass Optimizer:\n def step(self): return 1\n"
        "for i, x in enumerate(D):\n loss = m(x)\n if i % 4 == 0:\n  optimizer.step()\n",
        ["//Optimizer/step > #exit as step"],
    ),
    "updates that add up, without a name": (
        "for i, x in enumerate(D):\n loss = m(x)\n if i % 4 == 0:\n  optimizer.step()\n",
        [],
    ),
    "turns that skip a batch": (
        "for x in D:\n if bad(x):\n  continue\n loss = m(x)\n",
        ["//(x as batch, loss) > loss as step"],
    ),
    "a variable bound after the step": (
        "for x in D:\n if bad(x):\n  break\n loss = m(x)\n loss.backward()\n o.step()\n"
        " value = loss.item()\n",
        ["//(x as batch, loss) > value as step"],
    ),
    "a variable bound twice is none": (
        "n = 0\nfor x in D:\n if bad(x):\n  continue\n loss = m(x)\n loss = loss / 2\n"
        " loss.backward()\n o.step()\n n += 1\n",
        [],
    ),
    "what may raise": (
        "for x in D:\n try:\n  loss = m(x)\n except ValueError:\n  pass\n",
        ["//(x as batch, loss) > loss as step"],
    ),
    "what may raise between the loss and the step": (
        "for x in D:\n try:\n  loss = m(x)\n  loss.backward()\n  o.step()\n"
        " except ValueError:\n  pass\n",
        [],
    ),
    "training and evaluation by a flag": (
        "def run(data, train):\n for x in data:\n  loss = m(x)\n  if train:\n   grad = g(loss)\n",
        ["//run(x as batch, loss) > grad as step"],
    ),
    "training and evaluation by a flag that leaves": (
        "def run(data, train):\n for x in data:\n  loss = m(x)\n  if not train:\n   continue\n"
        "  grad = g(loss)\n",
        ["//run(x as batch, loss) > grad as step"],
    ),
    "a branch that calls what learns": (
        "def learn(x):\n loss = m(x)\n loss.backward()\n o.step()\n"
        "def run(data):\n for x in data:\n  if m.training:\n   learn(x)\n",
        [],
    ),
    "an evaluation beside the training": (
        "def train(D):\n for x in D:\n  loss = m(x)\n"
        "def evaluate(D):\n for x in D:\n  loss = m(x)\n",
        [
            "//train(x as batch, loss) > #endloop_x as step",
            "//evaluate(x as batch, loss) > #endloop_x as step",
        ],
    ),
    "a batch that a function gives": (
        "def get_batch(): return 1, 2\nwhile more():\n x, y = get_batch()\n loss = m(x)\n",
        [
            "//(x as batch, loss) > #endloop_x as step",
            "//get_batch(!#enter as loading, !!#exit as loaded)",
        ],
    ),
    "a batch that is cut out": (
        "for i in range(0, 9, 3):\n piece, y = X[i:i + 3], Y[i:i + 3]\n loss = m(piece)\n",
        ["//(piece as batch, loss) > #endloop_i as step"],
    ),
    "a number is no batch": (
        "for i in range(9):\n rate = get(i)\n row = X[i]\n loss = m(row)\n",
        ["//(loss) > #endloop_i as step"],
    ),
    "micro-batches": (
        "while True:\n for micro in range(4):\n  loss = m(x)\n  loss.backward()\n o.step()\n",
        ["// > #endloop_loss as step"],
    ),
    "optimizers in a loop": (
        "for x in D:\n scaler.scale(loss := m(x)).backward()\n for o in optimizers:\n  o.step()\n",
        ["//(x as batch, loss) > #endloop_x as step"],
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_alone(name: str, tmp_path: Path) -> None:
    body, selectors = TEXTS[name]
    found = read(sources(tmp_path, main=body))
    tasks = ['task="eval"' if "evaluate" in s else "" for s in selectors]
    expected = [f'ov.probe("{s}").give({task})' for s, task in zip(selectors, tasks, strict=True)]
    assert [line.code for line in found.lines] == expected
    assert {line.live for line in found.lines} <= {"backward" not in body}


STEPS = "for x in D:\n    loss = m(x)\n    loss.backward()\n    o.step()\n"
#: Scripts, and what is probed, what is done and of how many; None: no progress is written.
EPOCHS = {
    "up to a number": (
        "for epoch in range(3):\n STEPS",
        ("//(epoch) > #endloop_epoch", 'event["epoch"] + 1', "3"),
    ),
    "from one up to an attribute": (
        "def main(args):\n for epoch in range(1, args.epochs + 1):\n  STEPS",
        ("//main(epoch, args) > #endloop_epoch", 'event["epoch"]', 'event["args"].epochs'),
    ),
    "in a method, resumed": (
        "class T:\n def fit(self):\n  for _ in range(self.done, self.n):\n   STEPS",
        ("//T/fit(_, self) > #endloop__", 'event["_"] + 1', 'event["self"].n'),
    ),
    "the outermost": (
        "n = 5\nfor k in range(n):\n for i in range(2):\n  STEPS",
        ("//(k, n) > #endloop_k", 'event["k"] + 1', 'event["n"]'),
    ),
    "around another": ("for k in range(n := 5):\n for i in range(2):\n  STEPS", None),
    "of the steps themselves": (STEPS.replace("D:", "range(3):"), None),
    "beside it": ("for i in range(3): print(i)\nSTEPS", None),
    "two with one variable": ("for i in range(3): print(i)\nfor i in range(3):\n STEPS", None),
    "whose variable changes": ("for i in range(3):\n STEPS\n i = 7\n", None),
    "whose end changes": ("n = 3\nfor i in range(n):\n STEPS\n n = 7\n", None),
    "up to a global": ("N = 3\ndef f():\n for i in range(N):\n  STEPS", None),
    "from one up to a name": ("n = 3\nfor i in range(1, n):\n STEPS", None),
    "with a stride": ("for i in range(0, 9, 3):\n STEPS", None),
    "up to a call": ("for i in range(len(D)):\n STEPS", None),
    "over something else": ("for i in [1, 2]:\n STEPS", None),
}


@pytest.mark.parametrize("name", EPOCHS)
def test_the_loop_over_epochs_is_the_progress(name: str, tmp_path: Path) -> None:
    body, expected = EPOCHS[name]
    main = re.sub(" *STEPS", lambda found: indent(STEPS, " " * (len(found[0]) - 5)), body)
    lines = read(sources(tmp_path, main=main)).lines
    written = [" ".join(line.code.split()) for line in lines if line.role == "progress"]
    assert written == [
        f'ov.probe("{selector}").subscribe( lambda event: ov.give( task="train",'
        f' progress=({done}, {of}), units="epochs" ) )'
        for selector, done, of in ([expected] if expected else [])
    ]


def test_modules_of_the_project_are_read(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("from .engine import train\n")
    engine = "def train(data):\n for x in data:\n  loss = x\n  loss.backward()\n"
    (tmp_path / "lib" / "engine.py").write_text(engine)
    (line,) = read(sources(tmp_path, main="from lib import train\ntrain([])\n")).lines
    selector = "/lib.engine/train(x as batch, loss) > #endloop_x as step"
    assert line.code == f'ov.probe("{selector}").give()'


def test_what_could_be_given_is_in_the_scripts_own_names(tmp_path: Path) -> None:
    text = """
        def save():
            pass

        def evaluate(xs):
            for x in xs:
                print(x)

        def train(xs):
            for x in xs:
                loss = x
            save()
        """
    assert [line.code for line in lines(sources(tmp_path, main=text))] == [
        'ov.probe("//train(x as batch, loss) > #endloop_x as step").give()',
        'ov.probe("//train > loss").give()',
        'ov.probe("//train(x as batch, !#loop_x as compute_start, '
        '!!#endloop_x as compute_end)").give()',
        'ov.probe("//evaluate(x as batch) > #endloop_x as step").give(task="eval")',
        'ov.probe("//evaluate > LOSS as loss").give(task="eval")',
        'ov.probe("//save(!#enter as pause, !!#exit as resumed)").give()',
        'ov.probe("//evaluate(!#enter as pause, !!#exit as resumed)").give()',
    ]
    assert lines(sources(tmp_path, main="print(1)\n")) == []


def test_a_loop_of_iterate_lacks_its_loss_alone(tmp_path: Path) -> None:
    text = "for x in voir.iterate('train', D, report_batch=True):\n    loss = m(x)\n"
    (line,) = lines(sources(tmp_path, main=text))
    assert (line.role, line.code) == ("loss", "give(loss=loss) in the loop at main.py:1")


@pytest.mark.parametrize(
    ("data", "slug"),
    [
        (None, "init-script"),
        (b"# nothing\n", "init-empty"),
        *((data, "init-syntax") for data in (b"def f(:\n", b"x = '\xe9'\n", b"1" + b"+1" * 30_000)),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes | None, slug: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "main.py").write_bytes(data)
    with pytest.raises(VoirError) as refused:
        open_source(str(tmp_path / "main.py"))
    assert refused.value.slug == slug


def test_other_encodings_and_long_scripts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    loop = "# coding: latin-1\ndef train(data):\n for x in data:\n  loss = x, 'é'\n"
    long = "".join(f"def f{n}(a):\n return a + {n}\n" for n in range(5_000))
    path.write_bytes((loop + long).encode("latin-1"))
    assert len(read([open_source(str(path))]).lines) == 1


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("//fitt > loss", "//fit > loss"),
        ("//fit > los", "//fit > loss"),
        ("//fit(xs as batch) > #endloop_xs as step", "//fit(x as batch) > #endloop_x as step"),
        ("//fit(x as batch, !#loop_y as start, !!#endloop_y as end)", None),
        ("//nothing/of/the/kind > z", None),
    ],
)
def test_the_selector_in_place_of_a_misspelt_one(
    selector: str, expected: str | None, tmp_path: Path
) -> None:
    found = sources(tmp_path, main="def fit(data):\n    for x in data:\n        loss = x\n")
    assert corrected(selector, found) in (expected, expected or selector)
