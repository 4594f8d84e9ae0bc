"""Ways to make an instrument configurable: by a flag, an option, arguments, or a dataclass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from .errors import VoirError

if TYPE_CHECKING:
    from .overseer import Overseer

Instrument = Callable[..., Any]


def gated(flag: str, *rest: Any, help: str | None = None, instrument: Any = None) -> Any:
    """Run an instrument only when ``flag`` is given.

    ``@gated("--xyz")``, ``@gated("--xyz", "what it does")``, or
    ``gated("--xyz", instrument, help="what it does")``.
    """
    for value in rest:
        if isinstance(value, str):
            help = value
        else:
            instrument = value
    if instrument is None:
        return lambda found: gated(flag, help=help, instrument=found)
    dest = flag.lstrip("-").replace("-", "_")

    @functools.wraps(instrument, updated=())
    def run(ov: Overseer) -> Generator[Any, Any, None]:
        yield ov.phases.init
        ov.argparser.add_argument(flag, action="store_true", dest=dest, help=help)
        yield ov.phases.parse_args
        if getattr(ov.options, dest):
            ov.require(instrument)

    run.instrument = instrument  # type: ignore[attr-defined]
    return run


def parametrized(option: str, *rest: Any, **keywords: Any) -> Any:
    """Give an instrument an option, whose value it finds in ``ov.options``.

    ``@parametrized("--xyz", int, "what it does", 2)``, or with the keywords ``type``, ``help``,
    ``default``, ``instrument``.
    """
    names = ["type", "help", "default"]
    for value in rest:
        if callable(value) and not isinstance(value, type) and "instrument" not in keywords:
            keywords["instrument"] = value
        else:
            keywords[next(n for n in names if n not in keywords)] = value
    instrument = keywords.pop("instrument", None)
    if instrument is None:
        return lambda found: parametrized(option, instrument=found, **keywords)

    @functools.wraps(instrument, updated=())
    def run(ov: Overseer) -> Generator[Any, Any, None]:
        yield ov.phases.init
        ov.argparser.add_argument(option, **keywords)
        yield ov.phases.parse_args
        ov.require(instrument)

    run.instrument = instrument  # type: ignore[attr-defined]
    return run


def instrument_definition(fn: Callable[..., Any]) -> Callable[..., Instrument]:
    """Turn ``fn(ov, *args, **kwargs)`` into a factory: ``fn(*args, **kwargs)`` is an instrument."""

    @functools.wraps(fn)
    def make(*args: Any, **kwargs: Any) -> Instrument:
        @functools.wraps(fn)
        def instrument(ov: Overseer) -> Any:
            return fn(ov, *args, **kwargs)

        return instrument

    return make


def configurable(fn: Callable[..., Any]) -> Instrument:
    """Make the fields of a dataclass options of an instrument.

    ``fn`` takes the overseer and one argument annotated with a dataclass; its fields become
    options, the comments above them their help. It runs once the options are known.

    Raises:
        VoirError: The second argument is missing or has no dataclass for an annotation.
    """
    name, model = _model_of(fn)

    @functools.wraps(fn)
    def wrapped(ov: Overseer) -> Generator[Any, Any, None]:
        yield ov.phases.init
        ov.argparser.add_from_model(name, model)
        yield ov.phases.parse_args
        result = fn(ov, getattr(ov.options, name))
        if hasattr(result, "send"):
            yield from result

    return wrapped


def _model_of(fn: Callable[..., Any]) -> tuple[str, type]:
    import typing

    code: Any = getattr(fn, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    model = typing.get_type_hints(fn).get(names[1]) if len(names) > 1 else None
    if not hasattr(model, "__dataclass_fields__"):
        who = getattr(fn, "__name__", repr(fn))
        raise VoirError(
            "not-configurable",
            f"@configurable {who}{names}: its second argument is not annotated with a dataclass",
            f"Write: def {who}(ov, options: MyOptions), MyOptions being a @dataclass.",
        )
    assert isinstance(model, type)
    return names[1], model
