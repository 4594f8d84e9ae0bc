"""Which monitors run, and the options that decide it."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from instruments.monitors import instrument_monitors
from instruments.process import GLANCE
from overseer.errors import UsageError
from overseer.options import OptionParser


def run(ov: Any, *argv: str, environ: dict[str, str] | None = None) -> None:
    """Take ``instrument_monitors`` through the phases with the command line ``argv``."""
    ov.argparser = OptionParser(environ=environ or {})
    ov.require(instrument_monitors)
    ov._scheduler.end(ov.phases.init)
    ov.options = ov.argparser.resolve(list(argv))
    ov.walk_to_script()


def kinds(ov: Any) -> dict[str, float]:
    return {timer.fn._key: timer.seconds for timer in ov.timers}


EVERYTHING = {"cpudata", "memdata", "iodata", "netdata", "process", "gpudata"}


def test_everything_is_sampled_each_second_by_default(ov: Any) -> None:
    run(ov)
    assert kinds(ov) == {**dict.fromkeys(EVERYTHING, 1.0), "process": GLANCE}


def test_a_short_interval_is_that_of_all(ov: Any) -> None:
    run(ov, "--monitor-interval", "0.1")
    assert kinds(ov) == dict.fromkeys(EVERYTHING, 0.1)


def test_no_monitor_samples_nothing(ov: Any) -> None:
    run(ov, "--no-monitor")
    assert kinds(ov) == {}


def test_the_interval_applies_to_all(ov: Any) -> None:
    run(ov, "--monitor-interval", "0.5")
    assert kinds(ov) == {**dict.fromkeys(EVERYTHING, 0.5), "process": GLANCE}


def test_gpus_have_their_own_interval_and_can_be_sampled_alone(ov: Any) -> None:
    run(ov, "--no-monitor", "--poll-gpu", "3")
    assert kinds(ov) == {"gpudata": 3.0}


def test_poll_gpu_replaces_the_default_gpu_monitor(ov: Any) -> None:
    run(ov, "--poll-gpu", "3")
    assert kinds(ov) == {**dict.fromkeys(EVERYTHING, 1.0), "process": GLANCE, "gpudata": 3.0}


def test_the_environment_sets_the_options(ov: Any) -> None:
    run(ov, environ={"VOIR_MONITOR": "0", "VOIR_POLL_GPU": "2"})
    assert kinds(ov) == {"gpudata": 2.0}


@pytest.mark.parametrize("option", ["--monitor-interval", "--poll-gpu"])
@pytest.mark.parametrize("value", ["0", "nan", "1e12", "-3", "often"])
def test_an_impossible_interval_is_a_usage_error(ov: Any, option: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(ov, f"{option}={value}")
    assert caught.value.slug == "bad-interval"
    assert option in caught.value.what


def test_the_options_explain_themselves() -> None:
    parser = argparse.ArgumentParser()
    generator = instrument_monitors(_Overseer(parser))  # type: ignore[arg-type]
    next(generator)
    next(generator)
    text = parser.format_help()
    assert all(name in text for name in ("--no-monitor", "--monitor-interval S", "--poll-gpu S"))


class _Overseer:
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.argparser = parser

    class phases:
        init = parse_args = None


def test_a_voirfiles_own_monitor_replaces_the_default_one(ov: Any) -> None:
    from instruments.cpu import Cpu

    ov.require(Cpu(30.0))
    run(ov)
    assert kinds(ov)["cpudata"] == 30.0
    assert len(ov.timers) == len(EVERYTHING)
