"""Ways to make an instrument configurable: by a flag, an option, arguments, or a dataclass."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator

from ..boundary import name_of
from ..errors import VoirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .handle import Handle
    from .phases import Instrument


def gated(flag: str, *rest: Any, help: str | None = None, instrument: Any = None) -> Any:
    """Run an instrument only when ``flag`` is given.

    ``@gated("--xyz")``, ``@gated("--xyz", "what it does")``, or
    ``gated("--xyz", instrument, "what it does")``.
    """
    for value in rest:
        if isinstance(value, str):
            help = value
        else:
            instrument = value
    made = functools.partial(_optional, flag, gate=True, action="store_true", help=help)
    return made if instrument is None else made(instrument)


def parametrized(option: str, *rest: Any, **keywords: Any) -> Any:
    """Give an instrument an option, whose value it finds in ``ov.options``.

    ``@parametrized("--xyz", int, "what it does", 2)``, or
    ``parametrized("--xyz", instrument, int, "what it does", 2)``; the last three also as the
    keywords ``type``, ``help`` and ``default``, with others of argparse's.
    """
    # A function that converts is followed by the help, if by anything; an instrument is not.
    called = rest and callable(rest[0]) and not isinstance(rest[0], type)
    if called and (len(rest) == 1 or not isinstance(rest[1], str)):
        keywords["instrument"], *rest = rest  # type: ignore[assignment]
    keywords.update(zip(("type", "help", "default"), rest))  # noqa: B905  # Fewer is normal.
    instrument = keywords.pop("instrument", None)
    if instrument is None:
        return lambda found: _optional(option, found, **keywords)
    return _optional(option, instrument, **keywords)


def _optional(option: str, instrument: Any, *, gate: bool = False, **keywords: Any) -> Instrument:
    """An instrument that adds the option, then requires the other one: if on, or in any case."""
    dest = keywords.setdefault("dest", option.lstrip("-").replace("-", "_"))

    def run(ov: Handle) -> Generator[Any, Any, None]:
        yield ov.phases.init
        ov.argparser.add_argument(option, **keywords)
        yield ov.phases.parse_args
        if not gate or getattr(ov.options, dest):
            ov.require(instrument)

    functools.update_wrapper(run, instrument, updated=())
    run.__name__ = run.__qualname__ = f"{name_of(instrument)} ({option})"
    run.instrument = instrument  # type: ignore[attr-defined]
    return run


def configurable(fn: Callable[..., Any]) -> Instrument:
    """Make the fields of a dataclass options of an instrument.

    ``fn`` takes the overseer and one argument annotated with a dataclass; its fields become
    options, the comments above them their help. It runs once the options are known.

    Raises:
        VoirError: The second argument is missing or has no dataclass for an annotation.
    """
    name, model = _model_of(fn)

    @functools.wraps(fn)
    def wrapped(ov: Handle) -> Generator[Any, Any, None]:
        yield ov.phases.init
        built = ov.argparser.add_from_model(name, model)
        yield ov.phases.parse_args
        result = fn(ov, built.value)
        if isinstance(result, Generator):
            yield from result

    return wrapped


def _model_of(fn: Callable[..., Any]) -> tuple[str, type]:
    code: Any = getattr(fn, "__code__", None)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount] if code is not None else ()
    model = _annotation(fn, names[1]) if len(names) > 1 else None
    if not isinstance(model, type) or not hasattr(model, "__dataclass_fields__"):
        who = name_of(fn)
        raise VoirError(
            "not-configurable",
            f"@configurable {who}({', '.join(names)}): its second argument is not annotated with "
            "a dataclass that can be found",
            f"Write: def {who}(ov, options: MyOptions), with MyOptions a @dataclass at top level.",
        )
    return names[1], model


def _annotation(fn: Any, name: str) -> object:
    """The annotation of one argument; the others may name what only a type checker knows."""
    if sys.version_info >= (3, 14):
        import annotationlib

        found = annotationlib.get_annotations(fn, format=annotationlib.Format.FORWARDREF).get(name)
    else:
        found = fn.__annotations__.get(name)
    if not isinstance(found, str):
        return found
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    try:
        return eval(found, fn.__globals__, {name: cell.cell_contents for name, cell in cells})
    except Exception:
        return None
