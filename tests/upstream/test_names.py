"""Every public name of voir 0.2.24 is here, and takes every call that it took there.

The lists are what its modules define, with the parameters as they stand in its source. Left out is
what only its files for AMD's, Habana's and Intel's devices have: functions around those makers'
libraries, which are not used here.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

#: Module, name, and for what can be called its parameters.
CALLABLES = """
voir give *args, **kwargs
voir log **kwargs
voir iterate task, iterable, report_batch=False, ignore_loading=False, batch_size=None
voir configurable fn
voir instrument_definition fn
voir.cli find_voirfiles script_path
voir.cli collect_instruments voirfiles
voir.cli collect_contrib_instruments
voir.cli main argv=None
voir.overseer Overseer instruments, logfile=None
voir.overseer Overseer.probe self, selector, **kwargs
voir.overseer Overseer.run_phase self, phase
voir.overseer Overseer.require self, *instruments
voir.overseer Overseer.stop self, value=None
voir.overseer Overseer.abort self, exc
voir.overseer Overseer.give self, **data
voir.overseer Overseer.queue self, **data
voir.overseer Overseer.__call__ self, argv
voir.overseer JsonlFileLogger filename, require_writable=True
voir.overseer JsonlFileLogger.log self, data
voir.overseer JsonlFileLogger.close self
voir.overseer LogStream.__call__ self, data
voir.overseer ProbeInstrument selector, **kwargs
voir.overseer ProbeInstrument.__call__ self, ov
voir.phase StopProgram *args
voir.phase OverseerAbort *args
voir.phase Phase name, status='pending'
voir.phase Phase.__call__ self, priority=0
voir.phase PhaseWithPriority phase, priority
voir.phase PhaseSequence **phases
voir.phase PhaseSequence.__iter__ self
voir.phase BaseOverseer phase_names, args=(), kwargs={}
voir.phase BaseOverseer.require self, *instruments
voir.phase BaseOverseer.stop self, value=None
voir.phase BaseOverseer.abort self, exc
voir.phase BaseOverseer.run_phase self, phase
voir.phase BaseOverseer.__call__ self, *args, **kwargs
voir.phase GivenOverseer phase_names, args=(), kwargs={}
voir.phase GivenOverseer.give self, **data
voir.phase GivenOverseer.queue self, **data
voir.tools gated flag
voir.tools gated flag, help
voir.tools gated flag, instrument, help=None
voir.tools parametrized option, type=None, help=None, default=None
voir.tools parametrized option, instrument, type=None, help=None, default=None
voir.tools instrument_definition fn
voir.tools configurable fn
voir.helpers give *args, **kwargs
voir.helpers log **kwargs
voir.helpers iterate task, iterable, report_batch=False, ignore_loading=False, batch_size=None
voir.argparse_ext Info name, type, help, annotation, prefix, parser, group
voir.argparse_ext contribute default, info
voir.argparse_ext ExtendedArgumentParser *args, **kwargs
voir.argparse_ext ExtendedArgumentParser.merge_base_config self, config
voir.argparse_ext ExtendedArgumentParser.add_from_model self, dest, model, flatten=True
voir.argparse_ext scrape_comments src
voir.argparse_ext AttributeVisitor
voir.argparse_ext AttributeVisitor.visit self, node
voir.argparse_ext scrape_variables_and_docstrings src
voir.argparse_ext get_attribute_docstrings cls
voir.instruments log *patterns, context=[]
voir.instruments dash ov
voir.instruments gpu_monitor poll_interval=10, arch=None
voir.instruments monitor_all poll_interval=10, arch=None
voir.instruments rate interval=1, skip=0, method=None, batch_size_calc=None, sync=None
voir.instruments early_stop key, n, task=None, signal=None
voir.instruments.cpu cpu_monitor
voir.instruments.cpu process_monitor pid, recursive=True
voir.instruments.cpu retrieve_process_info process, acc
voir.instruments.dash dash ov
voir.instruments.dash Plain x, fmt='{}'
voir.instruments.dash make_table rows
voir.instruments.gpu NotAvailable *args
voir.instruments.gpu find_monitors
voir.instruments.gpu get_backends
voir.instruments.gpu deduce_backend
voir.instruments.gpu select_backend arch=None, force=False
voir.instruments.gpu gpu_info smi, visible=True
voir.instruments.gpu get_gpu_info arch=None, visible=True
voir.instruments.gpu gpu_monitor
voir.instruments.gpu.common NotAvailable *args
voir.instruments.io io_monitor perdisk=False
voir.instruments.log log *patterns, context=[]
voir.instruments.manage early_stop key, n, task=None, signal=None
voir.instruments.metric rate interval=1, skip=0, method=None, batch_size_calc=None, sync=None
voir.instruments.metric default_batch_size_calc batch
voir.instruments.monitor monitor ov, poll_interval=10, worker_init=None, **monitors
voir.instruments.monitor monitor_all poll_interval=10, arch=None
voir.instruments.monitor gpu_monitor poll_interval=10, arch=None
voir.instruments.network network_monitor pernic=False
voir.instruments.utils Monitor delay, func
voir.instruments.utils Monitor.run self
voir.instruments.utils Monitor.start self
voir.instruments.utils Monitor.stop self
voir.instruments.utils ProcessMonitor delay, func, worker_init=None
voir.instruments.utils ProcessMonitor.start self
voir.instruments.utils ProcessMonitor.stop self
voir.instruments.utils ProcessPusher delay, queue, func
voir.instruments.utils ProcessPusher.push self
voir.instruments.utils ProcessPusher.run self
voir.instruments.utils ProcessPusher.stop self
voir.instruments.utils _Monitor *args
voir.instruments.utils monitor delay, getfun, pushfun, process=True, worker_init=None
voir.proc run argv, info, timeout=None, constructor=None, env=None, **options
voir.proc LogEntry event, data, pipe=None
voir.proc LogEntry.get self, item, default
voir.proc LogEntry.dict self
voir.proc LogEntry.json self
voir.proc Multiplexer timeout=0, constructor=None
voir.proc Multiplexer.start self, argv, info, env=None, use_stdout=False, buffered=True, **options
voir.proc Multiplexer.add_process self, *, proc, info, argv, streams, w
voir.proc Multiplexer.__iter__ self
voir.smuggle encode_as_escape_sequence s
voir.smuggle decode_escape_sequence s
voir.smuggle SmuggleWriter stream
voir.smuggle SmuggleWriter.write self, txt
voir.smuggle SmuggleWriter.flush self
voir.smuggle SmuggleWriter.close self
voir.smuggle SmuggleWriter.__enter__ self
voir.smuggle SmuggleWriter.__exit__ self, typ=None, exc=None, tb=None
voir.smuggle LineAccumulator
voir.smuggle LineAccumulator.process self, char
voir.smuggle utf8_length char
voir.smuggle Decoder principal
voir.smuggle Decoder.close self
voir.smuggle Decoder.process_char self, char
voir.smuggle Decoder.getline self, which
voir.smuggle Decoder.readline self, which
voir.smuggle MultimodalFile decoder, which, name
voir.smuggle MultimodalFile.close self
voir.smuggle MultimodalFile.fileno self
voir.smuggle MultimodalFile.readline self
voir.scriptutils resolve_script script, module_name=None
voir.scriptutils split_script script
"""
VALUES = {
    "voir": ["__version__"],
    "voir.helpers": ["current_overseer"],
    "voir.version": ["version"],
    "voir.smuggle": ["oldhex", "newhex", "hexsub", "hexsub_back"],
    "voir.instruments.gpu": ["BACKENDS", "DEVICESMI"],
}
#: What instances have, once they are made.
ATTRIBUTES = {
    ("voir.overseer", "Overseer", "()"): ["phases", "log", "given", "argparser", "options",
        "logfile", "status"],
    ("voir.phase", "Phase", "('init')"): ["name", "status", "value", "exception", "pending",
        "running", "done"],
    ("voir.phase", "BaseOverseer", "(['one'])"): ["phases", "status"],
    ("voir.phase", "GivenOverseer", "(['one'])"): ["phases", "status", "given"],
    ("voir.proc", "Multiplexer", "()"): ["processes", "blocking", "timeout", "constructor",
        "buffer"],
    ("voir.proc", "LogEntry", "('line', 'x')"): ["event", "data", "pipe"],
    ("voir.instruments.gpu", "select_backend", "('cpu')"): ["arch", "visible_devices",
        "get_gpus_info"],
}  # fmt: skip


def found(module: str, name: str) -> Any:
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def accepts(ours: Any, theirs: inspect.Signature) -> bool:
    """Whether ``ours`` can be called in each way in which ``theirs`` could, and means the same."""
    signature = own_signature(ours)
    if (
        positional(signature)[: len(positional(theirs))]
        != positional(theirs)[: len(positional(signature))]
    ):
        return False
    try:
        for arguments, keywords in calls(theirs):
            signature.bind(*arguments, **keywords)
    except (TypeError, ValueError):
        return False
    return True


def own_signature(ours: Any) -> inspect.Signature:
    """The signature; of a function that makes instruments without the overseer they will get."""
    signature = inspect.signature(ours)
    parameters = list(signature.parameters.values())
    if hasattr(ours, "__wrapped__") and parameters[0].name == "ov":
        return signature.replace(parameters=parameters[1:])
    return signature


def positional(signature: inspect.Signature) -> list[str]:
    """The names of what can be given by position."""
    every = signature.parameters.values()
    return [p.name for p in every if p.kind is p.POSITIONAL_OR_KEYWORD]


def calls(signature: inspect.Signature) -> list[tuple[list[str], dict[str, str]]]:
    """A call with as little as is allowed, one all by position, and one all by name."""
    every = list(signature.parameters.values())
    plain = [p for p in every if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = {p.name: p.name for p in every if p.kind is p.KEYWORD_ONLY}
    least = [p.name for p in plain if p.default is p.empty]
    first = [p.name for p in plain if p.name == "self"]
    rest = {p.name: p.name for p in plain if p.name != "self"}
    more = ["more"] if any(p.kind is p.VAR_POSITIONAL for p in every) else []
    other = {"other": "x"} if any(p.kind is p.VAR_KEYWORD for p in every) else {}
    return [
        (least, named),
        ([p.name for p in plain] + more, {**named, **other}),
        (first, {**rest, **named, **other}),
    ]


@pytest.mark.parametrize("line", CALLABLES.strip().splitlines())
def test_a_callable_takes_every_call_it_took(line: str) -> None:
    module, name, *parameters = line.split(" ", 2)
    theirs = inspect.signature(eval(f"lambda {' '.join(parameters)}: None"))
    ours = found(module, name)
    assert callable(ours)
    if isinstance(ours, type) and issubclass(ours, BaseException):
        return  # Python's own classes have no signature, and take anything.
    if name == "AttributeVisitor":
        assert ours().data == []
        return
    assert accepts(ours, theirs), f"{name}{own_signature(ours)}"


@pytest.mark.parametrize("module", VALUES)
def test_a_value_is_there(module: str) -> None:
    assert [
        name for name in VALUES[module] if not hasattr(importlib.import_module(module), name)
    ] == []


@pytest.mark.parametrize(("module", "kind", "made"), ATTRIBUTES)
def test_an_instance_has_what_it_had(module: str, kind: str, made: str) -> None:
    instance = eval(f"kind{made}", {"kind": found(module, kind)})
    wanted = ATTRIBUTES[module, kind, made]
    assert [name for name in wanted if not hasattr(instance, name)] == []


def test_the_check_sees_a_call_that_is_refused() -> None:
    theirs = inspect.signature(lambda a, b=1, *, c: None)
    assert accepts(lambda a, b=2, *more, c, d=0: None, theirs)
    assert not accepts(lambda a, b: None, theirs)
    assert not accepts(lambda b, a=1, *, c: None, inspect.signature(lambda a, b=1, *, c: None))
    assert not accepts(lambda a, b, *, c: None, theirs)


def test_an_instrument_is_not_replaced_by_the_module_of_its_name() -> None:
    import voir.instruments
    import voir.instruments.dash
    import voir.instruments.log

    assert callable(voir.instruments.log)
    assert callable(voir.instruments.dash)


def test_an_attribute_that_was_not_there_is_not_there() -> None:
    with pytest.raises(ImportError):
        from voir.instruments import no_such_instrument  # noqa: F401
