"""What a reduction asks for when the streams end still fails the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place


@pytest.mark.parametrize(
    "wish",
    [
        'ov.given["?x"].min().filter(lambda x: x < 2).fail("too low: {}")',
        'ov.given["?y"].fail_if_empty("nothing came")',
    ],
)
def test_fail_at_the_end_fails_the_run(tmp_path: Path, wish: str) -> None:
    place = Place(tmp_path)
    place.write("main.py", "from voir import give\nfor i in (3, 1, 2): give(x=i)\nprint('ran')\n")
    place.write("voirfile.py", f"def instrument_x(ov):\n    yield ov.phases.init\n    {wish}\n")
    done = place.voir("main.py")
    assert done.seen == (1, "ran\n")
    assert "Failure" in done.stderr
    assert place.record()["exit_status"] == 1


def test_a_selector_that_is_no_string_is_explained(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "def f():\n    x = 1\nf()\n")
    place.write("voirfile.py", "def instrument_x(ov):\n    ov.probe(print).give()\n")
    done = place.voir("main.py")
    assert done.status == 0
    assert 'ov.probe("//print > x")' in done.stderr


@pytest.mark.parametrize("flags", [(), ("--trace",), ("--dash",)])
@pytest.mark.parametrize(
    "loss",
    [
        "import sys; sys.modules.clear()",
        "import sys; [sys.modules.pop(n) for n in [*sys.modules] if n not in ('sys', 'builtins')]",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    ],
)
def test_what_the_script_has_taken_away_costs_it_nothing(
    tmp_path: Path, loss: str, flags: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    place.write("main.py", f"{loss}\nprint('ran')\n")
    done = place.voir(*flags, "main.py")
    assert done.seen == (0, "ran\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "voir: " in done.stderr


def test_a_deleted_working_directory_does_not_keep_the_script_from_running(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    script = place.write("main.py", "print('ran')\n")
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && exec {' '.join(map(str, _voir()))} {script}"
    done = place.run("sh", "-c", command)
    assert done.seen == (0, "ran\n"), done.stderr


def _voir() -> list[str]:
    from tests.running import VOIR

    # A deleted directory is no place to import from, so that the checkout has to be named.
    return ["env", f"PYTHONPATH={Path(__file__).parents[2]}", *VOIR]


def test_what_is_given_and_logged_in_init_is_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "")
    place.write(
        "voirfile.py",
        """
        def instrument_x(ov):
            ov.give(x=1)
            yield ov.phases.init
            ov.log({"y": 2})
        """,
    )
    place.voir("main.py")
    assert [e["y"] for e in place.metrics() if "y" in e] == [2]
    assert [e["x"] for e in place.metrics() if "x" in e] == [1]


def test_help_names_the_option_whose_text_cannot_be_shown(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        def instrument_x(ov):
            yield ov.phases.init
            ov.argparser.add_argument("--share", help="added 100%")
        """,
    )
    done = place.voir("--help")
    assert done.seen == (2, "")
    assert "[option-help]" in done.stderr
    assert "--share" in done.stderr


def test_display_has_no_colours_where_nobody_wants_them(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "def f():\n    x = 1\nf()\n")
    place.write("voirfile.py", "def instrument_x(ov):\n    ov.probe('//f > x').display()\n")
    assert place.voir("main.py").stdout == "x: 1\n"
    assert "\x1b[" in place.voir("main.py", env={"FORCE_COLOR": "1"}).stdout


def test_instruments_may_import_what_they_like_when_the_script_has_ended(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "def f():\n    x = 1\nprint('script')")
    place.write(
        "vf.py",
        """
        def instrument_late(ov):
            yield ov.phases.run_script
            import concurrent.futures.thread
            ov.probe("//f > x").display()
        """,
    )
    ran = place.voir("--no-record", "--voirfile", "vf.py", "main.py")
    assert ran.seen == (0, "script\n")
    assert "failed" not in ran.stderr
    assert "it was set when the script had ended" in " ".join(ran.stderr.split())
