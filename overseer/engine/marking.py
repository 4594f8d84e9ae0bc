"""Records probes and streams in the trace: spans by selector, counters and instants.

They set nothing in the script but the probe; while no trace is written they do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Formatter
from typing import Any

from ..errors import VoirError
from ..trace.channels import Channel, channel, described, label_of

Event = dict[str, Any]

#: The channel of what voirfiles record, unless they name another.
VOIRFILE = "voirfile"

_WORD = re.compile(r"[^\W\d]\w*")
_SPAN = re.compile(
    r"(?P<code>[^>(]+?)\s*(\((?P<captures>.*)\))?\s*(>\s*(?P<loop>#loop_\w+))?\s*", re.DOTALL
)


def paired(selector: str, label: str | None) -> str:
    """A selector whose events are the beginnings and ends of what ``selector`` names.

    Args:
        selector: A function, ``//f > #loop_x`` for each turn of a loop, or a pair of one's own.
        label: What it names in braces is captured too.

    Raises:
        VoirError: It names a variable, or is none of these.
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
    """The variables that a label names, in order."""
    try:
        parts = [field for _, field, _, _ in Formatter().parse(label or "") if field]
    except ValueError:
        return []  # A brace by itself: the label is shown as it is.
    words = [found[0] for part in parts if (found := _WORD.match(part))]
    return list(dict.fromkeys(words))


def plain_name(selector: str) -> str:
    """What to call a span that was given no label: the function, or the loop's variable."""
    match = _SPAN.fullmatch(selector.strip())
    if match is None:
        return selector
    return match["loop"] or match["code"].rstrip("/ ").rpartition("/")[2].strip()


class _Values(dict[str, Any]):
    """An event's values, for a label; a name that it has not stays as it was written."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


def labeller(label: str | None, otherwise: str) -> Callable[[object], str]:
    """Makes the label of each event or value."""
    if label is None or "{" not in label:
        return lambda element: otherwise if label is None else label

    def made(element: object) -> str:
        values = element if isinstance(element, dict) else {"": element}
        settled = _Values((key, described(value)) for key, value in values.items())
        try:
            return Formatter().vformat(label, [settled[""]], settled)
        except Exception:  # As str.format, for any reason that is in the text.
            return label

    return made


def spans(selector: str, label: str | None, into: Channel) -> Callable[[Event], None]:
    """Turns the events of a :func:`paired` selector into spans."""
    made = labeller(label, plain_name(selector))
    opened: dict[Any, str] = {}

    def hear(event: Event) -> None:
        wrap = event.get("$wrap")
        if wrap is None:
            return
        if wrap["step"] == "begin":
            if into.recording:
                opened[wrap["id"]] = made(event)
                into.begin(opened[wrap["id"]])
        elif (known := opened.pop(wrap["id"], None)) is not None:
            into.end(known)

    return hear


def counters(name: str, unit: str, into: Channel) -> Callable[[object], None]:
    """Adds each element of a stream to a counter; of several values, one line for each."""
    counter = into.counter(name, unit)

    def hear(element: object) -> None:
        if not into.recording:
            return
        values = element if isinstance(element, dict) else {"": element}
        values = {key: value for key, value in values.items() if not key.startswith("$")}
        for key, value in values.items():
            (counter if len(values) == 1 else counter.series(key)).add(value)

    return hear


def instants(label: str, into: Channel) -> Callable[[object], None]:
    """Marks the moment of each element of a stream."""
    made = labeller(label, label)

    def hear(element: object) -> None:
        if into.recording:
            into.instant(label_of(made(element)))

    return hear


def channel_of(name: str | Channel | None) -> Channel:
    """The channel that was asked for."""
    return name if isinstance(name, Channel) else channel(name or VOIRFILE)
