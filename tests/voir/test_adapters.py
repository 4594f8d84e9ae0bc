"""What the facade adds to what it takes from the engine."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from overseer.engine.overseer import Overseer
from overseer.errors import VoirError
from voir.argparse_ext import (
    ExtendedArgumentParser,
    Info,
    contribute,
    get_attribute_docstrings,
    scrape_comments,
    scrape_variables_and_docstrings,
)
from voir.cli import collect_instruments, find_voirfiles
from voir.instruments.dash import Plain, make_table
from voir.overseer import JsonlFileLogger, ProbeInstrument
from voir.scriptutils import resolve_script, split_script
from voir.smuggle import (
    Decoder,
    LineAccumulator,
    MultimodalFile,
    encode_as_escape_sequence,
    utf8_length,
)


@dataclass
class Inner:
    # How wet
    wet: int = 10
    sweet: bool = True


@dataclass
class Options:
    # How many
    number: int = 3

    flag: bool = True
    x: float = 0.5
    names: list[str] = field(default_factory=list)
    inner: Inner = field(default_factory=Inner)


def parsed(arguments: str, *configs: dict[str, Any], model: Any = Options) -> Any:
    parser = ExtendedArgumentParser()
    for config in configs:
        parser.merge_base_config(config)
    parser.add_from_model("cfg", model)
    return parser.parse_args(arguments.split()).cfg


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", Options()),
        ("--number 5 --no-flag", Options(number=5, flag=False)),
        ("-x 2.5", Options(x=2.5)),
        ("--names a --names b", Options(names=["a", "b"])),
        ("--inner.wet 3 --inner.no-sweet", Options(inner=Inner(3, False))),
    ],
)
def test_options_of_a_dataclass(arguments: str, expected: Options) -> None:
    assert parsed(arguments) == expected


def test_an_instance_has_its_own_defaults() -> None:
    assert parsed("--no-flag", model=Options(number=9)) == Options(number=9, flag=False)


def test_configurations_are_below_the_command_line_and_the_later_wins() -> None:
    first = {"cfg": {"number": 7, "inner": {"sweet": False}}}
    second = {"cfg": {"number": 8, "flag": False}}
    expected = Options(number=8, flag=False, inner=Inner(sweet=False))
    assert parsed("", first, second) == expected
    assert parsed("--number 1", first, second).number == 1


def test_a_configuration_comes_before_the_options_and_is_of_one_of_them() -> None:
    parser = ExtendedArgumentParser()
    parser.add_from_model("cfg", Options)
    with pytest.raises(VoirError, match="after add_from_model"):
        parser.merge_base_config({"cfg": {}})
    with pytest.raises(VoirError, match="no option"):
        parsed("", {"cfg": {"unknown": 1}})
    with pytest.warns(UserWarning, match="configuration of other is not used"):
        assert parsed("", {"other": {"number": 1}}) == Options()


def test_a_single_option_can_be_contributed() -> None:
    parser = ExtendedArgumentParser()
    contribute(4, Info("size", int, "How large", None, "", parser, parser))
    assert parser.parse_args([]).size == 4
    assert parser.parse_args(["--size", "5"]).size == 5
    assert "How large" in parser.format_help()


def test_comments_and_names_of_a_class_are_found() -> None:
    assert get_attribute_docstrings(Options)["number"] == "How many"
    source = 'class A:\n    # one\n    a: int = 1\n    """two"""\n    pass\n    b = 2\n'
    assert scrape_comments(source) == [(2, 4, "COMMENT", "one")]
    assert scrape_variables_and_docstrings(source) == [
        (3, 4, "VARIABLE", "a"),
        (4, 4, "DOC", "two"),
        (5, 4, "OTHER", None),
        (6, 4, "VARIABLE", "b"),
    ]


def test_a_logger_writes_lines_of_json_to_a_path_or_a_descriptor(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.touch()
    for place in (str(file), os.open(file, os.O_WRONLY | os.O_TRUNC)):
        logger = JsonlFileLogger(place)
        logger.log({"a": 1, "b": object})
        logger.close()
        assert file.read_text() == '{"a": 1, "b": "builtins.object"}\n'


def test_a_logger_that_cannot_write_says_so_unless_that_does_not_matter(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "where"
    with pytest.raises(OSError, match="No such file"):
        JsonlFileLogger(str(missing))
    logger = JsonlFileLogger(str(missing), require_writable=False)
    logger.log({"a": 1})
    logger.close()


def test_an_overseer_logs_to_a_path(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("import voir\nvoir.log(loss=1)\n")
    log = tmp_path / "log.jsonl"
    Overseer([], logfile=str(log), environ={"VOIR_NO_RECORD": "1"})([str(script)])
    assert '{"loss": 1}' in log.read_text().splitlines()


def test_a_probe_as_an_instrument_is_the_probe(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("def f():\n    x = 7\nf()\n")
    seen: list[int] = []

    def instrument(ov: Overseer) -> Any:
        yield ov.phases.load_script
        probe: Any = ov.require(ProbeInstrument("//f > x"))
        probe["x"] >> seen.append

    Overseer([instrument], environ={"VOIR_NO_RECORD": "1"})([str(script)])
    assert seen == [7]


def test_voirfiles_are_found_and_collected_as_the_command_does(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    file = tmp_path / "voirfile.py"
    file.write_text("def instrument_a(ov): pass\ninstrument_b = [{'x': instrument_a}]\n")
    (tmp_path / "sub").mkdir()
    assert find_voirfiles(tmp_path / "sub" / "main.py") == [str(file)]
    assert find_voirfiles(tmp_path) == [str(file)]
    assert [i.__name__ for i in collect_instruments([str(file)])] == ["instrument_a"] * 2


def test_a_voirfile_that_fails_is_an_error_for_who_collects(tmp_path: Path) -> None:
    file = tmp_path / "voirfile.py"
    file.write_text("1 / 0\n")
    with pytest.raises(VoirError, match="ZeroDivisionError"):
        collect_instruments([str(file)])


def test_a_script_is_split_where_it_begins_to_do_things(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "main.py"
    script.write_text("import os\ndef f(): print('f')\nprint('early')\ndef g(): f()\ng()\n")
    before, after = split_script(script)
    names: dict[str, Any] = {}
    exec(before, names)
    assert ("f" in names, "g" in names, capsys.readouterr().out) == (True, False, "")
    exec(after, names)
    assert capsys.readouterr().out == "early\nf\n"
    for name in ("argv", "path"):
        monkeypatch.setattr(sys, name, [*getattr(sys, name)])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    run = resolve_script(script)
    assert capsys.readouterr().out == ""
    run()
    assert capsys.readouterr().out == "early\nf\n"


def test_a_decoder_reads_both_halves_of_a_stream() -> None:
    hidden = encode_as_escape_sequence('{"a": 1}\n').encode()
    decoder = Decoder(io.BytesIO(b"shown " + hidden + b"too\nrest"))
    out, data = MultimodalFile(decoder, "out", 7), MultimodalFile(decoder, "data", 7)
    assert (out.readline(), data.readline(), data.readline()) == ("shown too\n", '{"a": 1}\n', None)
    assert (out.fileno(), out.readline()) == (7, None)
    for char in " of it\n":
        decoder.process_char(char)
    assert decoder.getline("out") == "rest of it\n"
    out.close()
    assert decoder.principal.closed


def test_lines_are_accumulated_and_characters_measured() -> None:
    lines = LineAccumulator()
    for char in "ab\nc":
        lines.process(char)
    assert (list(lines.lines), lines.current) == (["ab\n"], "c")
    assert [utf8_length(c.encode()[:1]) for c in "aé€𝄞"] == [1, 2, 3, 4]


def test_a_table_of_values_has_progress_first() -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=60)
    console.print(make_table({"train": {"loss": Plain(0.5, "{} nats"), "progress": "1/2"}}))
    lines = [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == [["train", "1/2"], ["loss", "0.5", "nats"]]
