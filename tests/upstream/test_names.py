"""The names of voir 0.2.24 that are kept are here, and take every call that they took there."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

#: By module: what is there, and for what can be called its parameters as they stand in its source.
NAMES = """
voir: __version__; give(*args, **kwargs); log(**kwargs); configurable(fn); Overseer; StopProgram;
  iterate(task, iterable, report_batch=False, ignore_loading=False, batch_size=None);
  instrument_definition(fn)
voir.cli: main(argv=None)
voir.helpers: give; log; iterate; current_overseer
voir.version: version
voir.overseer: Overseer(instruments, logfile=None); Overseer.probe(self, selector, **kwargs);
  Overseer.run_phase(self, phase); Overseer.require(self, *instruments);
  Overseer.give(self, **data); Overseer.queue(self, **data); Overseer.abort(self, exc);
  Overseer.stop(self, value=None); Overseer.__call__(self, argv);
  JsonlFileLogger(filename, require_writable=True); JsonlFileLogger.log(self, data);
  JsonlFileLogger.close(self); LogStream.__call__(self, data); current_overseer
voir.phase: StopProgram; OverseerAbort; Phase(name, status='pending');
  Phase.__call__(self, priority=0); PhaseWithPriority(phase, priority); PhaseSequence(**phases);
  PhaseSequence.__iter__(self); BaseOverseer(phase_names, args=(), kwargs={});
  BaseOverseer.require(self, *instruments);
  BaseOverseer.stop(self, value=None); BaseOverseer.abort(self, exc);
  BaseOverseer.run_phase(self, phase); BaseOverseer.__call__(self, *args, **kwargs);
  GivenOverseer(phase_names, args=(), kwargs={}); GivenOverseer.give(self, **data);
  GivenOverseer.queue(self, **data)
voir.tools: gated(flag); gated(flag, help); gated(flag, instrument, help=None); configurable(fn);
  parametrized(option, type=None, help=None, default=None); instrument_definition(fn);
  parametrized(option, instrument, type=None, help=None, default=None)
voir.argparse_ext: ExtendedArgumentParser(*args, **kwargs);
  ExtendedArgumentParser.merge_base_config(self, config);
  ExtendedArgumentParser.add_from_model(self, dest, model, flatten=True)
voir.instruments: log(*patterns, context=[]); dash(ov); gpu_monitor(poll_interval=10, arch=None);
  early_stop(key, n, task=None, signal=None); monitor_all(poll_interval=10, arch=None);
  rate(interval=1, skip=0, method=None, batch_size_calc=None, sync=None)
voir.instruments.cpu: cpu_monitor(); process_monitor(pid, recursive=True)
voir.instruments.dash: dash
voir.instruments.gpu: find_monitors(); get_backends(); deduce_backend(); gpu_monitor();
  NotAvailable; select_backend(arch=None, force=False); gpu_info(smi, visible=True);
  BACKENDS; DEVICESMI; get_gpu_info(arch=None, visible=True)
voir.instruments.gpu.common: NotAvailable
voir.instruments.io: io_monitor(perdisk=False)
voir.instruments.log: log
voir.instruments.manage: early_stop
voir.instruments.metric: rate
voir.instruments.monitor: monitor(ov, poll_interval=10, worker_init=None, **monitors); monitor_all;
  gpu_monitor
voir.instruments.network: network_monitor(pernic=False)
voir.instruments.utils: Monitor(delay, func); Monitor.run(self); Monitor.start(self);
  Monitor.stop(self); ProcessMonitor(delay, func, worker_init=None); ProcessMonitor.start(self);
  ProcessMonitor.stop(self); ProcessPusher(delay, queue, func); ProcessPusher.push(self);
  ProcessPusher.run(self); ProcessPusher.stop(self); _Monitor(*args);
  monitor(delay, getfun, pushfun, process=True, worker_init=None)
voir.proc: run(argv, info, timeout=None, constructor=None, env=None, **options);
  LogEntry(event, data, pipe=None); LogEntry.get(self, item, default); LogEntry.dict(self);
  LogEntry.json(self); Multiplexer(timeout=0, constructor=None); Multiplexer.__iter__(self);
  Multiplexer.start(self, argv, info, env=None, use_stdout=False, buffered=True, **options);
  Multiplexer.add_process(self, *, proc, info, argv, streams, w)
voir.smuggle: encode_as_escape_sequence(s); decode_escape_sequence(s); SmuggleWriter(stream);
  SmuggleWriter.write(self, txt); SmuggleWriter.flush(self); SmuggleWriter.close(self);
  SmuggleWriter.__enter__(self); SmuggleWriter.__exit__(self, typ=None, exc=None, tb=None)
"""
#: What instances have, once they are made.
ATTRIBUTES = {
    "voir.overseer Overseer()": "phases log given argparser options logfile status",
    "voir.phase Phase('init')": "name status value exception pending running done",
    "voir.phase BaseOverseer(['one'])": "phases status",
    "voir.phase GivenOverseer(['one'])": "phases status given",
    "voir.proc Multiplexer()": "processes blocking timeout constructor buffer",
    "voir.proc LogEntry('line', 'x')": "event data pipe",
    "voir.instruments.gpu select_backend('cpu')": "arch visible_devices get_gpus_info",
}
MODULES = dict(line.split(": ") for line in NAMES.replace("\n  ", " ").strip().splitlines())
ENTRIES = [(module, name) for module, names in MODULES.items() for name in names.split("; ")]


def accepts(ours: Any, theirs: inspect.Signature) -> bool:
    """Whether ``ours`` can be called in each way in which ``theirs`` could, and means the same."""
    signature = inspect.signature(ours)
    if hasattr(ours, "__wrapped__") and next(iter(signature.parameters)) == "ov":
        # It makes instruments: callers leave the overseer out that these get.
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    names, old = positional(signature), positional(theirs)
    if names[: len(old)] != old[: len(names)]:
        return False
    try:
        for arguments, keywords in calls(theirs):
            signature.bind(*arguments, **keywords)
    except TypeError:
        return False
    return True


def positional(signature: inspect.Signature) -> list[str]:
    """The names of what can be given by position."""
    every = signature.parameters.values()
    return [p.name for p in every if p.kind is p.POSITIONAL_OR_KEYWORD]


def calls(signature: inspect.Signature) -> list[tuple[list[str], dict[str, str]]]:
    """A call with as little as is allowed, one all by position, and one all by name."""
    every = list(signature.parameters.values())
    plain, least = positional(signature), [p.name for p in every if p.default is p.empty]
    named = {p.name: p.name for p in every if p.kind is p.KEYWORD_ONLY}
    more = ["more"] if any(p.kind is p.VAR_POSITIONAL for p in every) else []
    other = {"other": "x"} if any(p.kind is p.VAR_KEYWORD for p in every) else {}
    first = [name for name in plain if name == "self"]
    rest = {name: name for name in plain if name != "self"}
    return [
        ([name for name in plain if name in least], named),
        (plain + more, {**named, **other}),
        (first, {**rest, **named, **other}),
    ]


@pytest.mark.parametrize(("module", "entry"), ENTRIES)
def test_a_name_is_there_and_takes_every_call_it_took(module: str, entry: str) -> None:
    name, called, parameters = entry.removesuffix(")").partition("(")
    ours: Any = importlib.import_module(module)
    for part in name.split("."):
        ours = getattr(ours, part)
    if called:
        assert accepts(ours, inspect.signature(eval(f"lambda {parameters}: None")))


@pytest.mark.parametrize("made", ATTRIBUTES)
def test_an_instance_has_what_it_had(made: str) -> None:
    module, call = made.split(" ", 1)
    instance = eval(call, vars(importlib.import_module(module)).copy())
    assert [name for name in ATTRIBUTES[made].split() if not hasattr(instance, name)] == []


def test_the_check_sees_a_call_that_is_refused() -> None:
    theirs = inspect.signature(lambda a, b=1, *, c: None)
    assert accepts(lambda a, b=2, *more, c, d=0: None, theirs)
    assert not accepts(lambda a, b: None, theirs)
    assert not accepts(lambda b, a=1, *, c: None, theirs)
    assert not accepts(lambda a, b, *, c: None, theirs)


def test_names_of_instruments_are_not_those_of_modules_and_others_are_not_there() -> None:
    from voir.instruments import dash, gpu_monitor, log

    assert callable(log)
    assert callable(dash)
    assert callable(gpu_monitor)
    with pytest.raises(ImportError):
        from voir.instruments import no_such_instrument  # noqa: F401
