"""Shows probes and streams in the trace: spans by selector, counters and instants.

Only the probe is inserted into the script. Without a trace, nothing is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Formatter
from typing import Any

from ..errors import VoirError
from ..trace.channels import Channel, channel, described, label_of

Event = dict[str, Any]

#: Channel of what voirfiles record, unless they name another.
VOIRFILE = "voirfile"

_WORD = re.compile(r"[^\W\d]\w*")
_SPAN = re.compile(
    r"(?P<code>[^>(]+?)\s*(\((?P<captures>.*)\))?\s*(>\s*(?P<loop>#loop_\w+))?\s*", re.DOTALL
)


def paired(selector: str, label: str | None) -> str:
    """Return a selector for the begin and end events of the code that ``selector`` names.

    Args:
        selector: A function, ``//f > #loop_x`` for each iteration of a loop, or a paired selector.
        label: The variables in its braces are captured too.

    Raises:
        VoirError: It names a variable, or nothing of these.
    """
    if "!!" in selector:
        return selector
    match = _SPAN.fullmatch(selector.strip())
    if match is None:
        raise VoirError(
            "span-selector",
            f"the span {selector!r} is neither a function nor a loop",
            'For example: ov.span("//train_epoch"), ov.span("//main > #loop_epoch", "{epoch}").',
        )
    marker = match["loop"] or "#enter"
    ends = marker.replace("#", "#end") if match["loop"] else "#exit"
    known = _WORD.findall(match["captures"] or "")
    captures = [match["captures"]] if known else []
    captures += [name for name in _names(label) if name not in known]
    captures += [f"!{marker} as span_begin", f"!!{ends} as span_end"]
    return f"{match['code']}({', '.join(captures)})"


def _names(label: str | None) -> list[str]:
    """The variables in a label, in order."""
    try:
        parts = [field for _, field, _, _ in Formatter().parse(label or "") if field]
    except ValueError:
        return []  # A single brace: the label is shown unchanged.
    words = [found[0] for part in parts if (found := _WORD.match(part))]
    return list(dict.fromkeys(words))


def plain_name(selector: str) -> str:
    """The default label of a span: the function, or the loop's variable."""
    match = _SPAN.fullmatch(selector.strip())
    if match is None:
        return selector
    return match["loop"] or match["code"].rstrip("/ ").rpartition("/")[2].strip()


class _Values(dict[str, Any]):
    """The values for a label; unknown names stay as they are."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


def labeller(label: str | None, otherwise: str) -> Callable[[object], str]:
    """Return a function that makes the label of an event or value."""
    if label is None or "{" not in label:
        return lambda element: otherwise if label is None else label

    def made(element: object) -> str:
        values = element if isinstance(element, dict) else {"": element}
        settled = _Values((key, described(value)) for key, value in values.items())
        try:
            return Formatter().vformat(label, [settled[""]], settled)
        except Exception:  # Like str.format, for an error in the label.
            return label

    return made


def spans(selector: str, label: str | None, into: Channel) -> Callable[[Event], None]:
    """Turn the events of a :func:`paired` selector into spans."""
    made = labeller(label, plain_name(selector))
    opened: dict[Any, str] = {}

    def record(event: Event) -> None:
        wrap = event.get("$wrap")
        if wrap is None:
            return
        if wrap["step"] == "begin":
            if into.recording:
                opened[wrap["id"]] = made(event)
                into.begin(opened[wrap["id"]])
        elif (known := opened.pop(wrap["id"], None)) is not None:
            into.end(known)

    return record


def counters(name: str, unit: str, into: Channel) -> Callable[[object], None]:
    """Add each element of a stream to a counter; several values become one line each."""
    counter = into.counter(name, unit)

    def record(element: object) -> None:
        if not into.recording:
            return
        values = element if isinstance(element, dict) else {"": element}
        values = {key: value for key, value in values.items() if not key.startswith("$")}
        for key, value in values.items():
            (counter if len(values) == 1 else counter.series(key)).add(value)

    return record


def instants(label: str, into: Channel) -> Callable[[object], None]:
    """Mark the moment of each element of a stream."""
    made = labeller(label, label)

    def record(element: object) -> None:
        if into.recording:
            into.instant(label_of(made(element)))

    return record


def channel_of(name: str | Channel | None) -> Channel:
    """The channel of this name."""
    return name if isinstance(name, Channel) else channel(name or VOIRFILE)
