"""The catalogue of metrics is that of the record: no metric is in one and not in the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from overseer.model.catalogue import (
    CURVES,
    EVENT_METRICS,
    METRIC_GROUPS,
    RUN_METRICS,
    TASK_METRICS,
    Metric,
    curve,
    lower_is_better,
)
from tests.running import SCHEMA

DOCUMENT = json.loads(SCHEMA.read_text("utf-8"))
#: Keys of ``run.json`` that hold metrics; ``tasks`` are apart.
SECTIONS = ("seconds", "overhead", "progress", "host", "devices")


def metrics(schema: Mapping[str, Any], key: str = "") -> Iterator[str]:
    """The keys of all numbers that a part of the schema has."""
    if "$ref" in schema:
        schema = DOCUMENT["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    for name, inner in schema.get("properties", {}).items():
        if name != "index":  # A device's number.
            yield from metrics(inner, f"{key}.{name}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from metrics(schema["additionalProperties"], f"{key}.*")
    if "items" in schema:
        yield from metrics(schema["items"], key)
    if schema.get("type") in ("number", "integer"):
        yield key[1:]


def test_every_metric_of_the_schema_is_in_the_catalogue_and_the_other_way_round() -> None:
    assert sorted(metrics(DOCUMENT["$defs"]["task"])) == sorted(TASK_METRICS)
    properties = {key: DOCUMENT["properties"][key] for key in SECTIONS}
    assert sorted(metrics({"properties": properties})) == sorted(RUN_METRICS)


def every() -> list[Metric]:
    monitored = [one for source in METRIC_GROUPS.values() for one in source.metrics.values()]
    return [*TASK_METRICS.values(), *RUN_METRICS.values(), *EVENT_METRICS.values(), *monitored]


def test_each_has_a_name_a_unit_and_a_sentence_and_can_be_shown() -> None:
    assert [one.key for one in every() if not (one.name and one.unit and one.about)] == []
    assert {one.better for one in every()} == {"up", "down", ""}
    shown = [one.text(2.5) for one in every() if re.search(r"\d", one.text(2.5))]
    assert (len(shown), {one.text("much") for one in every()}) == (len(every()), {""})


@pytest.mark.parametrize(
    ("name", "lower"),
    [("loss", True), ("eval/val_loss", True), ("Error_rate", True), ("eval/loss", True),
     ("accuracy", False), ("f1", False), ("train_rate", False)],
)  # fmt: skip
def test_the_better_direction_comes_from_the_catalogue_or_else_from_the_name(
    name: str, lower: bool
) -> None:
    assert lower_is_better(name) is lower


def test_a_monitors_metric_under_anothers_name_has_the_others_meaning() -> None:
    assert (curve("gpudata", "load").unit, curve("cpudata", "load").unit) == ("1", "%")
    assert curve("cpudata", "power").unit == "W"
    assert {curve(key, name).curve for key in METRIC_GROUPS for name in CURVES} == {True}
