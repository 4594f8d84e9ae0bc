"""Reading a script: what is no script, and loops in odd places."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from overseer.errors import VoirError
from overseer.reading import Reading, open_script, read_script, voirfile_text
from overseer.reading.sources import LONGEST_SCRIPT, project


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


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    [
        (b"# coding: klingon\nx = 1\n", "init-syntax", "unknown encoding"),
        (b"x = '\xff\xfe'\n", "init-script", "is no Python script"),
        (b"x = 1 #" + b"." * LONGEST_SCRIPT, "init-script", "more than 16 MB"),
    ],
    ids=["encoding", "bytes", "long"],
)
def test_what_python_cannot_read_is_refused(
    tmp_path: Path, text: bytes, slug: str, said: str
) -> None:
    (tmp_path / "main.py").write_bytes(text)
    with pytest.raises(VoirError) as refused:
        open_script(str(tmp_path / "main.py"))
    assert refused.value.slug == slug
    assert said in refused.value.what


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_what_is_nested_too_deeply_for_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*args: object) -> None:
        raise error

    (tmp_path / "main.py").write_text("x = 1\n")
    monkeypatch.setattr("ast.parse", fail)
    with pytest.raises(VoirError) as refused:
        open_script(str(tmp_path / "main.py"))
    assert refused.value.slug == "init-syntax"


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbfloss = 1\n", "# coding: latin-1\ncafé = 1\n".encode("latin-1")]
)
def test_a_script_is_decoded_as_python_does(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "main.py").write_bytes(text)
    assert open_script(str(tmp_path / "main.py")).tree.body


@pytest.mark.parametrize(
    ("imports", "package"),
    [
        ("from .train import main", "pkg"),
        ("from pkg.train import main", "pkg"),
        ("import pkg.train", "pkg"),
        ("import train", ""),
    ],
)
def test_a_package_that_imports_from_itself_is_read_as_python_runs_it(
    tmp_path: Path, imports: str, package: str
) -> None:
    home = tmp_path / "pkg"
    home.mkdir()
    (home / "__init__.py").touch()
    (home / "__main__.py").write_text(imports + "\n")
    (home / "train.py").write_text("loss = 1\n")
    script = open_script(str(home))
    assert script.package == package
    names = {source.module for source in project(script)}
    assert ("pkg.train" if package else "train") in names


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
        ("(loss_a + 2 * loss_b).backward()", None),
        ("(loss_a / 2).backward()", "// > loss_a as loss"),
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
                optimizer.step()
            for step, batch in enumerate(eval_dataloader):
                outputs = model(**batch)
    """


ADDED_UP = """
    {before}
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss.backward()
        {condition}:
            optimizer.step()
            optimizer.zero_grad()
    """


@pytest.mark.parametrize(
    ("condition", "every"),
    [
        ("if (i + 1) % 4 == 0", False),
        ("if i % n == n - 1 or i == len(loader) - 1", False),
        ("if accelerator.sync_gradients", False),
        ("if not args.dry_run", True),
        ("if True", True),
    ],
)
def test_iterations_whose_gradients_are_added_up_are_no_steps(
    tmp_path: Path, condition: str, every: bool
) -> None:
    reading = read(tmp_path, ADDED_UP.format(before="n = 4", condition=condition))
    assert (reading.of("step") is not None) is every
    assert (not reading.notes) is every
    assert not any(missing.role == "step" for missing in reading.missing)


def test_an_optimizer_that_steps_less_often_than_another_leaves_every_iteration_a_step(
    tmp_path: Path,
) -> None:
    text = """
        for i, real in enumerate(loader):
            loss_d = d(real)
            loss_d.backward()
            opt_d.step()
            if i % 5 == 0:
                loss_g = d(g(real))
                loss_g.backward()
                opt_g.step()
        """
    assert selector(read(tmp_path, text), "step") == "//(real as batch) > #endloop_i as step"


HELD = """
    def train(model, optimizer, loader):
        for batch in loader:
            {made}
            {backward}
            optimizer.step()
    """


@pytest.mark.parametrize(
    ("made", "backward", "code"),
    [
        ("out = model(**batch)", "out.loss.backward()", 'event["out"].loss'),
        ("o = model(batch)", "scaler.scale(o.loss).backward()", 'event["o"].loss'),
        ("o = model(batch)", "accelerator.backward(o['loss'])", "event[\"o\"]['loss']"),
        (
            "out = model(batch)",
            "out['losses']['sum'].backward()",
            "event[\"out\"]['losses']['sum']",
        ),
    ],
)
def test_a_loss_within_what_a_variable_holds_is_given_from_there(
    tmp_path: Path, made: str, backward: str, code: str
) -> None:
    loss = read(tmp_path, HELD.format(made=made, backward=backward)).of("loss")
    assert loss is not None
    assert loss.selector.startswith("//train(o")
    assert loss.selector.endswith(") > #endloop_batch")
    assert f"lambda event: ov.give(loss={code})" in loss.line


@pytest.mark.parametrize("name", ["opt", "options"])
def test_an_optimizer_is_no_option(tmp_path: Path, name: str) -> None:
    text = f"""
        def train({name}, loader):
            for x in loader:
                loss = model(x)
                loss.backward()
                {name}.step()

        {name} = torch.optim.SGD(model.parameters())
        train({name}, loader)
        """
    assert selector(read(tmp_path, text), "options") is None


def test_what_is_assigned_to_an_attribute_is_shown_when_the_method_is_left(tmp_path: Path) -> None:
    text = """
        class Runner:
            def __init__(self):
                self.net: Module = make_net()
                self.opt, self.dl = SGD(self.net.parameters()), DataLoader(data)

            def run(self):
                for x, y in self.dl:
                    loss = f(self.net(x), y)
                    loss.backward()
                    self.opt.step()
        """
    reading = read(tmp_path, text)
    model, loader = reading.of("model"), reading.of("loader")
    assert model is not None
    assert loader is not None
    assert 'ov.give(model=event["self"].net)' in model.line
    assert 'ov.give(loader=event["self"].dl)' in loader.line
    assert model.selector == loader.selector == "//Runner/__init__(self) > #exit"


@pytest.mark.parametrize(
    ("over", "loader"),
    [
        ("forever(loader)", "//train > loader"),
        ("prefetch(dl, 2)", "//train > dl"),
        ("batches(X, 32)", "//train > stream as loader"),
    ],
)
def test_the_loader_is_what_a_generator_goes_over(tmp_path: Path, over: str, loader: str) -> None:
    text = f"""
        def train(loader, dl, X):
            stream = {over}
            for step in range(10):
                x = next(stream)
                loss = model(x)
                loss.backward()
                optimizer.step()
        """
    found = selector(read(tmp_path, text), "loader")
    assert found == loader.replace("> dl", "> dl as loader")


BY_HAND = """
    def train(params, data):
        for epoch in range(3):
            for xb, yb in batches(data):
                {body}

    def validate(params, data):
        for xb, yb in data:
            loss = f(params, xb)
            params = params
    """


@pytest.mark.parametrize(
    "body",
    [
        "loss, grads = value_and_grad(params, xb, yb)",
        "params, state, loss = update(params, state, xb)",
        "loss = mse(xb, yb); w -= 0.1 * xb.T @ loss",
        "loss = train_step(xb, yb)",
        "loss = f(xb); (g,) = torch.autograd.grad(loss, w)",
        "err = xb @ w - yb; loss = (err ** 2).mean(); w -= 0.1 * xb.T @ err",
    ],
)
def test_a_loop_that_updates_parameters_by_hand_is_found_by_its_loss(
    tmp_path: Path, body: str
) -> None:
    reading = read(tmp_path, BY_HAND.format(body=body))
    assert selector(reading, "loss") == "//train > loss"
    assert selector(reading, "step") == "//train(xb as batch) > #endloop_xb as step"


def test_a_loop_that_computes_a_loss_and_changes_nothing_learns_nothing(tmp_path: Path) -> None:
    assert not read(tmp_path, "for x in data:\n    loss = f(x)\n    print(loss)").findings


def test_a_loop_over_a_loader_is_that_of_a_script_that_learns_nothing(tmp_path: Path) -> None:
    text = "for images, names in tqdm(DataLoader(data)):\n    found.append(clf(images))"
    reading = read(tmp_path, text)
    assert selector(reading, "step") == "//(images as batch) > #endloop_images as step"
    assert not reading.learns


@pytest.mark.parametrize(
    ("target", "batch"), [("epoch, rows", "rows"), ("i, x, y", "x"), ("step, (x, y)", "x")]
)
def test_what_counts_is_no_batch(tmp_path: Path, target: str, batch: str) -> None:
    text = LOOP.format(target=target, over="stream", batch="weights")
    found = selector(read(tmp_path, text), "step")
    assert found is not None
    assert found.startswith(f"//({batch} as batch)")


def test_the_options_of_a_command_are_its_parameters(tmp_path: Path) -> None:
    text = """
        @click.command()
        @click.option("--epochs", default=2)
        def main(epochs, lr):
            pass
        """
    options = read(tmp_path, text).of("options")
    assert options is not None
    assert options.selector == "//main(epochs, lr) > #enter"
    assert "ov.give(options=event)" in options.line


@pytest.mark.parametrize("constant", ["CFG = {'lr': 0.1}", "device = 'cpu'"])
def test_a_constant_at_the_top_is_probed_before_the_script_is_loaded(
    tmp_path: Path, constant: str
) -> None:
    text = voirfile_text(read(tmp_path, constant))
    assert "yield ov.phases.parse_args" in text
    assert "load_script" not in text


@pytest.mark.parametrize(
    ("drawn", "batch"),
    [("dist.sample()", None), ("buffer.sample()", "x"), ("sample(16)", "x")],
)
def test_what_a_distribution_gives_is_no_batch(
    tmp_path: Path, drawn: str, batch: str | None
) -> None:
    text = f"""
        for episode in range(10):
            x = {drawn}
            loss = f(x)
            loss.backward()
            optimizer.step()
        """
    found = selector(read(tmp_path, text), "step")
    assert found == (
        "//(x as batch) > #endloop_episode as step" if batch else "// > #endloop_episode as step"
    )


def test_another_loop_that_learns_is_named(tmp_path: Path) -> None:
    text = """
        def pretrain(loader):
            for x in loader:
                loss = model(x)
                loss.backward()
                optimizer.step()

        def adapt(loader):
            for x in loader:
                loss = model(x)
                loss.backward()
                optimizer.step()
        """
    assert [note for note in read(tmp_path, text).notes if "main.py:9" in note]


@pytest.mark.parametrize(
    ("condition", "paused"), [("if step % 5 == 0", True), ("with context", False)]
)
def test_what_gives_each_step_its_batch_is_no_pause(
    tmp_path: Path, condition: str, paused: bool
) -> None:
    text = f"""
        def sample(n):
            return data[:n]

        def train():
            for step in range(10):
                {condition}:
                    x = sample(3)
                loss = model(x)
                loss.backward()
                optimizer.step()
        """
    assert (read(tmp_path, text).of("pause") is not None) is paused


def test_a_closure_of_the_loop_tells_what_the_model_is_given(tmp_path: Path) -> None:
    text = """
        x = load()
        for it in range(10):
            def closure():
                loss = f(net(x))
                loss.backward()
                return loss
            opt.step(closure)
        """
    assert selector(read(tmp_path, text), "step") == "//(x as batch) > #endloop_it as step"


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


ASKED = """
    import itertools

    def data(n=50):
        for i in range(n):
            yield [i] * 8

    def train(params, batches, others, X):
        itercount, ids, rng = itertools.count(), iter(range(50)), PRNGSequence(0)
        for epoch in range(3):
            {head}
                {body}
    """
PAIR = "//train(!#loop_{0} as compute_start, !!#endloop_{0} as compute_end)"
TURNS = "for _ in range(40):"


def loaders(reading: Reading) -> list[str]:
    return [each.selector for each in reading.findings if each.role == "loader"]


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (TURNS, "params, loss = update(params, next(batches))"),
        (TURNS, "params, loss = update(params, next(itercount), next(ids), next(batches, None))"),
        (TURNS, "x = np.asarray(next(batches)); params, loss = update(params, x)"),
        (TURNS, "x = next(batches)['x']; params, loss = update(params, x)"),
        ("for _ in itertools.repeat(None, 40):", "params, loss = update(params, next(batches))"),
        ("while n < 40:", "params, loss = update(params, next(batches)); n += 1"),
    ],
)
def test_no_pair_surrounds_the_wait_for_a_batch(tmp_path: Path, head: str, body: str) -> None:
    reading = read(tmp_path, ASKED.format(head=head, body=body))
    assert reading.of("step") is not None
    assert reading.of("pair") is None
    assert loaders(reading) == ["//train > batches as loader"]
    assert not any("Loading is not known" in note for note in reading.notes)


def test_each_iterator_that_a_turn_asks_is_a_loader(tmp_path: Path) -> None:
    body = "params, loss = update(params, next(batches), next(others), next(batches))"
    reading = read(tmp_path, ASKED.format(head=TURNS, body=body))
    assert reading.of("pair") is None
    assert loaders(reading) == ["//train > batches as loader", "//train > others as loader"]


@pytest.mark.parametrize(
    "body",
    [
        "params, loss = update(params, next(data()))",
        "params, loss = update(params, next(batches), next(data()))",
        "params, loss = update(params, load(next(batches)))",
        "params, loss = update(params, X[next(batches)])",
        "params, loss = update(params, X[next(batches)], next(others))",
        "x = X[next(batches)]; params, loss = update(params, x)",
    ],
)
def test_it_is_said_where_loading_is_not_known(tmp_path: Path, body: str) -> None:
    reading = read(tmp_path, ASKED.format(head=TURNS, body=body))
    assert reading.of("step") is not None
    assert reading.of("pair") is None
    assert loaders(reading) == []
    notes = [note for note in reading.notes if "Loading is not known" in note]
    assert len(notes) == 1
    assert "main.py:12" in notes[0]
    assert notes[0] in voirfile_text(reading)


@pytest.mark.parametrize(
    "body",
    [
        "params, loss = update(params, X)",
        "params, loss = update(params, X, next(itercount), next(ids))",
        "params, loss = update(params, X, next(rng))",
        "params, loss = update(params, X, next(model.parameters()).device)",
        "params, loss = update(params, X, next((x for x in X if x), None))",
        "params, loss = update(params, X, next(iter(params.values())))",
    ],
)
def test_what_next_gives_may_be_no_batch(tmp_path: Path, body: str) -> None:
    reading = read(tmp_path, ASKED.format(head=TURNS, body=body))
    assert selector(reading, "pair") == PAIR.format("_")
    assert loaders(reading) == []


def test_a_function_of_the_scripts_own_that_is_called_next_asks_nothing(tmp_path: Path) -> None:
    text = """
        next = take
        for _ in range(40):
            params, loss = update(params, next(batches))
        """
    found = selector(read(tmp_path, text), "pair")
    assert found == "//(!#loop__ as compute_start, !!#endloop__ as compute_end)"
