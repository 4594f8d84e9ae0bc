"""What commands refuse; ``tests/docs/test_errors.py`` has the messages that are documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.errors import VoirError
from overseer.trace.encoder import Encoder

from .said import said


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with scripts and runs of all kinds; ``good`` has a trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOIR_RUN_DIR", raising=False)
    files = {
        "main.py": "for x in [1]:\n    loss = x\n",
        "nested.py": "x = " + "+".join(["1"] * 30_000),
        "good/run.json": '{"ended": "x"}',
        "src/data.py": "",
        "other.json": '{"a": 1}',
        "chrome.json": '{"traceEvents": [{"ph": "X"}]}',
        "picture.png": "PNG" * 100,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with open("good/trace.pftrace", "wb") as file:
        Encoder(file.write, {"pid": 7, "name": "main.py"}, 1 << 60).flush()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/trace.pftrace").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "slug", "what"),
    [
        ("show x y", "usage", "it takes one run"),
        ("stop --at 0 x", "usage", "'0' is not a number of a step"),
        ("trace x --steps many", "usage", "'many' is not a number of steps up to 10,000"),
        ("watch --rank x", "usage", "'x' is not a number of a rank"),
        ("watch --json x y", "usage", "it takes one run"),
        ("compare good", "usage", "contains no run"),
        ("compare good ,", "usage", "a side names no run"),
        ("compare good nowhere", "run-missing", "nowhere: there is no such directory"),
        ("compare good src", "not-a-run", "src holds no run"),
        ("compare good good --threshold x", "usage", "'x' is not a percentage"),
        ("compare good good --threshold 1e9", "usage", "'1e9' is not a percentage"),
        ("doctor nowhere", "run-missing", "nowhere: there is no such directory"),
        ("init", "usage", "required: SCRIPT"),
        ("init --verbose main.py", "usage", "--verbose"),
        (
            "init -m no.such.module",
            "init-script",
            "source of module no.such.module",
        ),
        ("init main.ipynb", "init-notebook", "main.ipynb is a notebook"),
        ("init nested.py", "init-syntax", "python cannot read nested.py"),
        ("init -o missing/x.py main.py", "init-write", "No such file or directory"),
        ("sql good --to main.py", "sql-unwritable", "main.py exists already"),
        ("sql good --to no/run.db", "sql-unwritable", "no/run.db cannot be written"),
        ("sql good QUERY --to x", "usage", "it takes a query or --to, not both"),
        ("trace", "usage", "required"),
        ("trace summary", "usage", "contains no run"),
        ("trace summary nowhere", "no-trace", "there is no trace at nowhere"),
        ("trace summary src", "no-trace", "src has no trace.pftrace"),
        ("trace summary broken", "no-trace", "not a regular file"),
        ("trace summary good --top 0", "usage", "'0' is not a whole number"),
        ("trace summary good --top x", "usage", "'x' is not a whole number"),
        ("trace summary chrome.json", "not-a-trace", "it is a Chrome trace, in JSON"),
        ("trace summary other.json", "not-a-trace", "not a Perfetto trace: it is JSON"),
        ("trace summary picture.png", "not-a-trace", "picture.png is not a Perfetto trace"),
        ("trace export good --to pdf", "usage", "'pdf'"),
        ("trace export good --to json -o no/such.json", "export-unwritable", "no/such.json cannot"),
        ("trace view good --port 99999", "port-taken", "port 99999 cannot be used"),
    ],
)
def test_what_cannot_be_done_is_refused(here: Path, argv: str, slug: str, what: str) -> None:
    if slug == "port-taken":
        pytest.importorskip("viztracer")
    before = sorted(here.rglob("*"))
    with pytest.raises(VoirError) as refused:
        said(*argv.split())
    assert (refused.value.slug, what in refused.value.what) == (slug, True), refused.value.what
    assert sorted(here.rglob("*")) == before
