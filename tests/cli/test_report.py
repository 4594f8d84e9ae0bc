"""``voir report``: the page, and what a browser makes of it."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import voir
from overseer.cli import report
from overseer.cli.report import page_of
from overseer.errors import VoirError
from overseer.model.decimate import extremes
from overseer.rundir.curves import step_curves, time_curves
from overseer.rundir.reading import read_run
from overseer.views.report import sections
from tests.job.simulate import SimulatedJob, Slow
from tests.running import Place

from .browser import Browser
from .said import said
from .test_compare import bench

#: A name that ends an element, and one that a terminal would obey.
HOSTILE = "</script><b id=hostile>\x1b[31m"
LONG = 8_000_000_000


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks: the second is slow; one step of the first takes 8 seconds more."""
    directory = tmp_path_factory.mktemp("jobs") / "job"
    facts: dict[str, Any] = {
        "name": HOSTILE,
        "problems": [{"slug": "x", "who": HOSTILE, "what": "&<", "where": "a.py:1"}],
        "provenance": {"hostname": "node0", "env": {"HOSTILE": HOSTILE}},
    }
    slow = [Slow(1, 0.5), Slow(0, 60.0, "other", steps=(700, 701))]
    made = SimulatedJob(ranks=2, steps=3000, slow=slow, tails=0.0)
    made.write(directory, facts={0: facts, 1: {}})
    lines = [
        {"t": 1793527201 + at, "accuracy": at / 60, HOSTILE: at % 7,
         "cpudata": {"load": [1, 50 + at % 40][1], "memory": [1 << 30, 1 << 34]}}
        for at in range(60)
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "rank0/metrics.jsonl").write_text(text)
    return directory


def test_no_peak_is_missing_and_no_value_is_made_up() -> None:
    values = [float(n % 10) for n in range(10_000)]
    values[4321], values[77] = 1000.0, math.nan
    kept = extremes(values, 100)
    assert len(kept) <= 100
    assert kept == sorted(kept)
    assert (4321 in kept, 77 in kept) == (True, False)
    assert extremes(values[:5], 100) == [0, 1, 2, 3, 4]
    assert extremes([], 10) == extremes([math.nan], 10) == []


def test_the_curves_are_those_of_the_steps(job: Path) -> None:
    first, second = (read_run(job / f"rank{n}") for n in (0, 1))
    found = step_curves(first, None, pytest.fail)
    slower = step_curves(second, None, pytest.fail)
    assert found is not None and slower is not None
    assert (found.task, found.n, len(found.seconds.x) <= 800) == ("train", 3000, True)
    step, seconds = found.outliers[0]
    assert (step, seconds > 6) == (700, True)
    assert max(found.seconds.y) == pytest.approx(seconds)
    assert found.seconds.x[found.seconds.y.index(max(found.seconds.y))] == 700
    assert sum(found.bars[1]) == 3000
    assert slower.own.y[40] > 1.2 * found.own.y[40]  # Both take as long, but one waits.
    assert found.times.x == sorted(found.times.x)
    assert found.times.y == sorted(found.times.y)
    assert {"loading", "forward", "communication"} <= {*found.parts}
    curves = {one.name: one for one in time_curves(first, pytest.fail)}
    assert {"accuracy", "cpu load", "cpu memory"} <= {*curves}
    assert (curves["cpu load"].unit, max(curves["cpu load"].curve.y)) == ("%", 89)
    assert step_curves(read_run(job / "rank1"), "none", pytest.fail) is None


def test_the_page_is_small_whole_and_escaped(job: Path, tmp_path: Path) -> None:
    (path,) = said("report", str(job), "-o", str(tmp_path / "page.html")).split()
    page = Path(path).read_text()
    assert len(page) < 300_000
    assert "<b id=hostile>" not in page
    assert "\x1b" not in page
    assert page.count("</script>") == 3
    for expected in ("straggler", "Loss", "Parts of a step", "node0", "&amp;&lt;", "step 700"):
        assert expected in page, expected
    assert 'srcdoc="&lt;!doctype' in voir.report(job)._repr_html_()


def test_a_browser_draws_it_alone_and_zooms_all_charts_together(job: Path, tmp_path: Path) -> None:
    said("report", str(job))
    with Browser((job / "report.html").as_uri(), tmp_path / "home") as page:
        drawn = page.until("document.documentElement.dataset.drawn")
        assert drawn == str(page.value("document.querySelectorAll('.plot canvas').length"))
        assert int(drawn) >= 6
        assert page.value("document.getElementById('hostile')") is None
        shown = "[...document.querySelectorAll('#charts figure')].map((it) => it.dataset.shown)"
        whole = page.value(shown)
        page.value("document.querySelector('a[data-step]').click()")
        zoomed = page.until(shown, lambda now: now[-1] != whole[-1])
        assert zoomed[:2] == ["680 720", "680 720"] != whole[:2]
        begin, end = map(float, zoomed[-1].split())  # In seconds; one of the steps takes 8 s.
        assert 8 < end - begin < 30
        page.value("document.querySelector('#chart0 button').click()")
        assert page.until(shown, lambda now: now == whole) == whole
        page.value("document.querySelector('#chart0 .controls button[aria-pressed]').click()")
        assert page.value("document.querySelector('#chart0 [aria-pressed=true]').textContent")
        assert page.problems == []
        assert [*filter(lambda it: not it.startswith("file:"), page.requests)] == []


def test_a_first_rank_without_steps_is_no_obstacle(job: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"job/rank{rank}").mkdir(parents=True)
        facts = (job / f"rank{rank}/run.json").read_text()
        (tmp_path / f"job/rank{rank}/run.json").write_text(facts)
    (tmp_path / "job/rank1/steps.npy").write_bytes((job / "rank1/steps.npy").read_bytes())
    (tmp_path / "job/rank1/stacks.txt").write_text("Thread 1: <wait>")
    _, page = page_of([str(tmp_path / "job")])
    assert "Times of steps, rank 1" in page
    assert "Thread 1: &lt;wait&gt;" in page


def rows(page: str, caption: str) -> list[list[str]]:
    """The texts of the cells of a table."""
    table = page.partition(f"<caption>{caption}</caption>")[2].partition("</table>")[0]
    lines = re.findall("<tr.*?</tr>", table)
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]


def test_each_rank_of_a_job_has_its_share_of_the_waits(job: Path) -> None:
    _, page = page_of([str(job)])
    head, *found = rows(page, "Ranks")
    each = [dict(zip(head, row, strict=True)) for row in found]
    assert [row["rank"] for row in each] == ["0", "1"]
    shares = [float(row["slowest in steps"].removesuffix(" %")) for row in each]
    assert shares[1] > 90 > 10 > shares[0]
    assert sum(shares) == pytest.approx(100, abs=1)
    assert float(each[1]["then behind by"].removesuffix(" ms")) == pytest.approx(50, rel=0.2)
    assert float(each[0]["waiting"].removesuffix(" %")) > 15
    many = [(rank, {}) for rank in range(1000)]
    late = {"each": [{"rank": rank, "last": rank / 1000} for rank in range(1000)]}
    table = sections.ranks_table(many, {"tasks": {"train": {"steps": 9, "ranks": late}}})
    assert [row[0] for row in rows(table, "Ranks")[1:]] == [*map(str, range(936, 1000))]
    assert "64 of 1,000 ranks" in table


def test_a_bench_has_a_mark_for_each_pair_and_the_parts_that_explain(tmp_path: Path) -> None:
    bench(tmp_path / "bench", 0.96)
    for n in range(1, 5):
        file = tmp_path / f"bench/B/{n}/run.json"
        facts = json.loads(file.read_text())
        facts["tasks"]["train"]["breakdown"]["loading"] += 1863 * 0.0041
        file.write_text(json.dumps(facts))
    _, page = page_of([str(tmp_path / "bench")])
    assert page.count("<circle") == 8  # Four pairs with B, and four of the reference with itself.
    assert "<title>round 3: -4.1 %</title>" in page
    assert "A2 (control)" in page
    assert "the grey band the threshold of 2 %" in page
    assert "loading +4.1 of +4.1 ms" in page
    assert rows(page, "train: rate against A")[1][2] == "4 pairs"
    assert rows(page, "train")[0] == ["train", "A, of 4", "B, of 4", "B against A"]
    _, page = page_of([str(tmp_path / "bench/A/1"), str(tmp_path / "bench/B/1")])
    assert ("<circle" in page, "one run a side: no verdict" in page) == (False, True)


def record(place: Place, name: str) -> None:
    """Record a run with uncommitted changes, for which git may be too slow in a busy moment."""
    for _ in range(20):
        assert place.voir("--run-dir", name, "main.py").status == 0
        facts = json.loads((place.path / name / "run.json").read_text())
        if "changes" in facts["provenance"]["git"]:
            return
        shutil.rmtree(place.path / name)
    pytest.skip("git takes more than 0.15 s")


def test_the_code_that_is_not_committed_and_that_between_commits_are_diffs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    place, commit = Place(tmp_path), "git -c user.name=T -c user.email=t@x commit -qam it"
    monkeypatch.chdir(tmp_path)
    place.write("main.py", "print(1)\n")
    place.run("sh", "-c", f"git init -q . && git add main.py && {commit}")
    place.write("main.py", f"print(1)  # {HOSTILE}\n")
    record(place, "a")
    place.run("sh", "-c", commit)
    place.write("main.py", "".join(f"print({n})\n" for n in range(4000)))
    record(place, "b")
    _, page = page_of(["a"])
    assert "Uncommitted changes" in page
    assert "<summary>1 file, +1 -1</summary>" in page
    assert '<span class="good">+print(1)  # &lt;/script&gt;&lt;b id=hostile&gt;[31m</span>' in page
    _, page = page_of(["a", "b"])
    for diff in ("A to B, commits: 1 file", "A, uncommitted: 1 file", "B, uncommitted: 1 file"):
        assert page.count(f"<summary>{diff}, +") == 1, diff
    assert "more characters: b/changes.diff" in page
    assert ["code", "git.diff", "-", "1 file, +1 -1"] in rows(page, "Differences")
    assert len(page) < 150_000


def test_several_runs_are_on_the_same_axes(job: Path, tmp_path: Path) -> None:
    _, page = page_of([str(job / "rank0"), str(job / "rank1")])
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [line["label"] for line in data["charts"][1]["lines"]] == ["A", "B"]
    assert "What was different" in page
    again = str(copied(job, tmp_path / "again"))
    _, page = page_of([str(job / "rank0"), again])
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    accuracy = next(one for one in data["charts"] if one["lines"][0]["y"][-1] == 0.98333)
    assert [line["label"] for line in accuracy["lines"]] == ["A", "B"]
    with pytest.raises(VoirError, match="none"):
        said("report", str(tmp_path / "none"))


def copied(job: Path, to: Path, rank: int = 0) -> Path:
    """A rank of the job as a run."""
    to.mkdir(parents=True)
    for name in ("run.json", "steps.npy", "metrics.jsonl"):
        if (job / f"rank{rank}" / name).exists():
            (to / name).write_bytes((job / f"rank{rank}" / name).read_bytes())
    return to


def damaged(page: str) -> list[str]:
    """What the page says of damaged files, without directories."""
    told = page.partition("<h2>Damaged files</h2>")[2].partition("</section>")[0]
    return [one.rpartition("/")[2] for one in re.findall("<li>(.*?)</li>", told)]


def test_a_page_says_which_files_are_torn(job: Path, tmp_path: Path) -> None:
    torn = copied(job, tmp_path / "torn")
    assert damaged(page_of([str(torn)])[1]) == []
    facts = json.loads((torn / "run.json").read_text())
    facts["steps"] = {**facts.get("steps", {}), "rows": 3000}
    (torn / "run.json").write_text(json.dumps(facts))
    for name in ("steps.npy", "metrics.jsonl"):
        (torn / name).write_bytes((torn / name).read_bytes()[:-30])
    _, page = page_of([str(torn)])
    expected = ["metrics.jsonl: 1 line incomplete or damaged", "steps.npy has 2,999 of 3,000 rows"]
    assert ("Loss" in page, damaged(page)) == (True, expected)
    _, page = page_of([str(torn), str(torn)])
    assert damaged(page) == expected
    (torn / "steps.npy").write_bytes(b"no steps")
    (torn / "metrics.jsonl").unlink()
    _, page = page_of([str(torn)])
    assert ("Loss" in page, "Figures" in page) == (False, True)
    assert damaged(page) == ["steps.npy is not a file of steps: it is not a NumPy file"]


def test_a_damaged_rank_is_named_and_a_damaged_run_refused(job: Path, tmp_path: Path) -> None:
    half = (job / "rank1/run.json").read_bytes()[:-100]
    for rank in (0, 1):
        copied(job, tmp_path / f"job/rank{rank}", rank)
    (tmp_path / "job/rank1/run.json").write_bytes(half)
    _, page = page_of([str(tmp_path / "job")])
    assert damaged(page) == ["run.json is missing or damaged"]
    for text, slug in ((half, "run-damaged"), (b"[1]", "run-damaged"),
                       (b'{"schema": 99}', "run-newer"), (None, "not-a-run")):  # fmt: skip
        other = tmp_path / f"{slug}-{len(text or b'')}"
        other.mkdir()
        if text is not None:
            (other / "run.json").write_bytes(text)
        with pytest.raises(VoirError) as refused:
            said("report", str(other))
        assert refused.value.slug == slug


def test_the_record_of_another_program_has_a_page_without_figures(tmp_path: Path) -> None:
    odd = {"tasks": ["a"], "provenance": 3, "problems": {"a": 1}, "diagnosis": "x", "name": {},
           "probes": 5, "script": 4, "steps": [1]}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(odd))
    _, page = page_of([str(tmp_path)])
    assert "did not finish" in page


def test_where_nothing_can_be_written_another_place_is_asked_for(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, real = copied(job, tmp_path / "run"), report.whole

    def read_only(path: Path, **options: Any) -> Any:
        if path.parent == run:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, **options)

    monkeypatch.setattr(report, "whole", read_only)
    with pytest.raises(VoirError, match="Read-only file system") as refused:
        said("report", str(run))
    assert "-o FILE" in str(refused.value.remedy)
    assert said("report", str(run), "-o", str(tmp_path / "new/page.html")).endswith("page.html\n")


def test_20_000_names_make_a_small_page_and_few_charts(job: Path, tmp_path: Path) -> None:
    run = copied(job, tmp_path / "run")
    facts, names = json.loads((run / "run.json").read_text()), range(20_000)
    main = facts["tasks"].pop("train")
    facts["tasks"] = {
        **{f"task {n} of many": {"steps": 5, "rate": {"wall": 1.0}} for n in names},
        "train": main,
    }
    facts["values"] = {f"value {n}": {"last": n} for n in names}
    facts["problems"] = [{"slug": "x", "who": f"w{n}", "what": "y" * 5000} for n in range(1000)]
    (run / "run.json").write_text(json.dumps(facts))
    with (run / "metrics.jsonl").open("w") as file:
        for at in range(4):
            values = {f"value {n}": n + at for n in names[at % 2 :: 2]}
            file.write(json.dumps({"t": 1793527201.0 + at, **values}) + "\n")
    _, page = page_of([str(run)])
    assert "and 19,951 more tasks, with fewer steps" in page
    assert "and 600 more" in page
    assert len(page) < 700_000  # 400 problems of 1,000 characters each among it.
    assert page.count("<figure id=") < 20
    facts["tasks"] = dict([*facts["tasks"].items()][-5_000:])
    (run / "run.json").write_text(json.dumps(facts))
    _, both = page_of([str(run), str(run)])
    assert ("task 15049 of many" in both, "task 15050 of many" in both) == (True, False)


def test_the_points_of_many_devices_are_fewer_each(job: Path, tmp_path: Path) -> None:
    run = copied(job, tmp_path / "run")
    with (run / "metrics.jsonl").open("w") as file:
        for at in range(1000):
            gpus = {str(n): {"load": (at * n) % 7, "power": at % (n + 2)} for n in range(50)}
            file.write(json.dumps({"t": 1793527201.0 + at, "gpudata": gpus}) + "\n")
    curves = [one.curve for one in time_curves(read_run(run), pytest.fail)]
    assert len(curves) == 100
    assert max(len(curve.x) for curve in curves) == 60


def test_without_javascript_the_tables_are_read(job: Path, tmp_path: Path) -> None:
    said("report", str(job), "-o", str(tmp_path / "page.html"))
    with Browser((tmp_path / "page.html").as_uri(), tmp_path / "home", scripts=False) as page:
        text = page.until("document.body.innerText", lambda it: "slowest in steps" in str(it))
        assert "The charts need JavaScript" in text
        assert page.value("document.documentElement.dataset.drawn") is None
        assert page.value("[...document.querySelectorAll('table')].every((it) => it.caption)")
        unnamed = "[...document.querySelectorAll('th')].filter((it) => !it.textContent).length"
        assert page.value(unnamed) == 0
