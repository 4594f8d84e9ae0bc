"""What the facade adds to what it takes from the engine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from overseer.engine.overseer import Overseer
from voir.argparse_ext import ExtendedArgumentParser
from voir.overseer import JsonlFileLogger


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


FIRST = {"cfg": {"number": 7, "inner": {"sweet": False}, "names": ["a"]}}
SECOND = {"cfg": {"number": 8, "flag": False}}
MERGED = Options(8, False, names=["a"], inner=Inner(sweet=False))


def parsed(arguments: str, *configs: dict[str, Any], model: Any = Options) -> Any:
    parser = ExtendedArgumentParser()
    parser.add_from_model("cfg", model)
    for config in configs:
        parser.merge_base_config(config)
    return parser.parse_args(arguments.split()).cfg


@pytest.mark.parametrize(
    ("arguments", "configs", "model", "expected"),
    [
        ("", [], Options, Options()),
        ("-x 2.5 --number 5 --no-flag", [], Options, Options(5, False, 2.5)),
        ("--names a --names b", [], Options, Options(names=["a", "b"])),
        ("--inner.wet 3 --inner.no-sweet", [], Options, Options(inner=Inner(3, False))),
        ("--no-flag", [], Options(number=9), Options(9, False)),
        ("", [FIRST, SECOND], Options, MERGED),
        ("--number 1 --names b", [FIRST], Options, Options(1, names=["b"], inner=Inner(10, False))),
    ],
)
def test_options_of_a_dataclass(
    arguments: str, configs: list[dict[str, Any]], model: Any, expected: Options
) -> None:
    assert parsed(arguments, *configs, model=model) == expected


@pytest.mark.parametrize("config", [{"cfg": {"numbr": 1}}, {"numbr": 1}])
def test_a_configuration_of_what_is_no_option_is_a_usage_error(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed("", config)
    assert "sets 'numbr', which is not an option" in capsys.readouterr().err


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
