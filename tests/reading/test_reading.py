"""Reading a script: what is no script, and loops in odd places."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from overseer.errors import VoirError
from overseer.reading import Reading, open_script, read_script, voirfile_text


def read(tmp_path: Path, text: str, **others: str) -> Reading:
    for name, other in others.items():
        (tmp_path / f"{name}.py").write_text(dedent(other))
    script = tmp_path / "main.py"
    script.write_text(dedent(text))
    return read_script(open_script(str(script)))


def selector(reading: Reading, role: str) -> str | None:
    found = reading.of(role)
    return found.selector if found is not None else None


@pytest.mark.parametrize(
    ("name", "text", "slug"),
    [
        ("a.py", "", "init-empty"),
        ("a.py", "# nothing\n", "init-empty"),
        ("a.py", "for x in\n", "init-syntax"),
        ("a.py", "x = 1\n\tif", "init-syntax"),
        ("a.py", "\x00", "init-syntax"),
        ("a.ipynb", '{"cells": []}', "init-notebook"),
        ("missing", None, "init-script"),
    ],
)
def test_what_is_no_script_is_refused(
    tmp_path: Path, name: str, text: str | None, slug: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(VoirError) as refused:
        open_script(str(tmp_path / name))
    assert refused.value.slug == slug
    assert refused.value.remedy


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(VoirError) as refused:
        open_script(str(tmp_path / "a.py"))
    assert refused.value.slug == "init-script"


def test_a_package_names_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "train.py").touch()
    with pytest.raises(VoirError) as refused:
        open_script(str(tmp_path))
    assert refused.value.slug == "init-package"
    assert "train.py" in str(refused.value.remedy)


def test_a_directory_that_python_runs_is_read(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text("loss = 1\n")
    assert open_script(str(tmp_path)).path == str(tmp_path / "__main__.py")


LOOP = """
    for {target} in {over}:
        loss = model({batch})
        loss.backward()
        optimizer.step()
    """


@pytest.mark.parametrize(
    ("target", "over", "batch", "step"),
    [
        ("x, y", "loader", "x", "//(x as batch) > #endloop_x as step"),
        ("batch", "tqdm(loader)", "batch", "//(batch) > #endloop_batch as step"),
        ("i, x", "enumerate(tqdm(loader))", "x", "//(x as batch) > #endloop_i as step"),
        ("i, (x, y)", "tqdm(enumerate(loader))", "x", "//(x as batch) > #endloop_i as step"),
        ("(i, (y, x))", "enumerate(loader, start=1)", "x", "//(x as batch) > #endloop_i as step"),
        ("x, u", "zip(loader, other)", "x", "//(x as batch) > #endloop_x as step"),
        ("*x, y", "loader", "x", "//(x as batch) > #endloop_x as step"),
        ("_", "range(9)", "data", "// > #endloop__ as step"),
    ],
)  # fmt: skip
def test_the_batch_and_the_name_of_a_loop(
    tmp_path: Path, target: str, over: str, batch: str, step: str
) -> None:
    reading = read(tmp_path, LOOP.format(target=target, over=over, batch=batch))
    assert selector(reading, "step") == step


@pytest.mark.parametrize(
    ("backward", "loss"),
    [
        ("loss.backward()", "// > loss"),
        ("loss.mean().backward()", None),
        ("(loss / 4).backward()", "// > loss"),
        ("(loss_a + 2 * loss_b).backward()", "// > loss_a as loss"),
        ("scaler.scale(loss).backward()", "// > loss"),
        ("accelerator.backward(loss)", "// > loss"),
        ("fabric.backward(loss, model=model)", "// > loss"),
        ("self.manual_backward(loss)", "// > loss"),
        ("loss.backward(gradient)", "// > loss"),
        ("criterion(output, target).backward()", None),
        ("self.loss.backward()", None),
        ("losses['all'].backward()", None),
        ("torch.autograd.grad(loss, weights)", None),
    ],
)
def test_the_loss_is_what_backward_is_called_on_or_given(
    tmp_path: Path, backward: str, loss: str | None
) -> None:
    text = f"""
        loss = loss_a = loss_b = gradient = output = target = 0
        for x in loader:
            {backward}
            optimizer.step()
        """
    reading = read(tmp_path, text)
    assert selector(reading, "loss") == loss
    assert (loss is None) == any(missing.role == "loss" for missing in reading.missing)


def test_an_environments_step_is_no_optimizers(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """
        def rollout(env):
            for t in range(100):
                env.step(action)

        def update():
            for batch in memory:
                loss = policy(batch)
                loss.backward()
                optimizer.step()
                scheduler.step()
        """,
    )
    assert selector(reading, "step") == "//update(batch) > #endloop_batch as step"


def test_the_function_that_trains_comes_before_one_that_tests(tmp_path: Path) -> None:
    body = """
            for x, y in loader:
                loss = f(x)
                loss.backward()
                opt.step()
        """
    text = f"def test_step(loader):{body}\ndef train(loader):{body}"
    assert selector(read(tmp_path, text), "loss") == "//train > loss"


def test_a_trainer_that_has_the_loop_is_named(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """
        class Lit(LightningModule):
            def training_step(self, batch, index):
                loss = self.layer(batch).mean()
                return loss

        trainer = Trainer(max_epochs=1)
        trainer.fit(Lit(), loader)
        """,
    )
    assert selector(reading, "loss") == "//Lit/training_step > loss"
    assert any("trainer.fit()" in note for note in reading.notes)


def test_a_script_without_a_loop_says_so(tmp_path: Path) -> None:
    reading = read(tmp_path, "print('hello')\n")
    assert {missing.role for missing in reading.missing} >= {"loss", "step", "loader", "model"}
    assert reading.findings == []
    compile(voirfile_text(reading), "voirfile.py", "exec")


def test_modules_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    text = "import broken, missing, json\nfrom good import *\nfrom . import nothing\n"
    good = "def train(loader):\n    for x in loader:\n        loss = x\n        loss.backward()\n"
    reading = read(tmp_path, text, broken="def (", good=good)
    assert selector(reading, "loss") == "/good/train > loss"


def test_modules_that_import_each_other_are_read_once(tmp_path: Path) -> None:
    reading = read(tmp_path, "import a", a="import b", b="import a\nimport main")
    assert reading.findings == []


def test_reading_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    read(tmp_path, f"open({str(marker)!r}, 'w')\n", other="raise SystemExit")
    assert not marker.exists()


def test_a_voirfile_is_python_whatever_the_scripts_name(tmp_path: Path) -> None:
    script = tmp_path / 'a "b" \\ c.py'
    script.write_text(dedent(LOOP.format(target="x", over="loader", batch="x")))
    text = voirfile_text(read_script(open_script(str(script))))
    compile(text, "voirfile.py", "exec")
    assert text.count("\n    ov.probe(") == 3
    assert max(len(line) for line in text.splitlines()) <= 120


HUGGING = """
    def main():
        args = parse_args()
        model = AutoModel.from_pretrained(args.name)
        optimizer = AdamW([{{"params": [p for p in model.parameters()]}}])
        for epoch in range(args.epochs):
            for step, batch in enumerate(train_dataloader):
                outputs = model(**batch)
                loss = outputs.loss
                loss = loss / args.accumulation{seen}
                accelerator.backward(loss)
                if step % args.accumulation == 0:
                    optimizer.step()
            for step, batch in enumerate(eval_dataloader):
                outputs = model(**batch)
    """


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        ("", None),
        ("\n                seen = loss.detach()", "//main(batch) > seen as step"),
    ],
)
def test_a_loop_whose_names_are_anothers_too_is_told_by_what_only_it_binds(
    tmp_path: Path, seen: str, step: str | None
) -> None:
    reading = read(tmp_path, HUGGING.format(seen=seen))
    assert selector(reading, "step") == step
    assert selector(reading, "options") == "//main > args as options"
    assert any(missing.role == "step" for missing in reading.missing) == (step is None)
