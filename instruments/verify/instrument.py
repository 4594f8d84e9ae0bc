"""``--verify`` and ``--verify-json FILE``: watch, stop when there is evidence, judge at the end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from overseer import Overseer
from overseer.errors import Problem

if TYPE_CHECKING:
    from .checks import Check

#: Steps after which the script is stopped, whatever is still not known by then.
MOST = 200


def instrument_verify(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer ``--verify``: check that a run shows what it should, and end with status 3 if not."""
    yield ov.phases.init
    add = ov.argparser.add_argument
    add("--verify", action="store_true",
        help="check what voir sees of the script, stop when there is evidence (at most 200 steps); "
        "status 3 when a check fails")  # fmt: skip
    add("--verify-json", metavar="FILE", help="also write the checks to FILE; implies --verify")
    add("--verify-loss", type=float, metavar="X",
        help="with --verify: the loss must come down to X")  # fmt: skip
    yield ov.phases.parse_args
    if ov.options.verify or ov.options.verify_json:
        yield from _verify(ov)


def _verify(ov: Overseer) -> Generator[Any, Any, None]:
    from .loaders import Loaders
    from .syncs import Syncs
    from .witness import Witness

    syncs, loaders = Syncs(ov.clock), Loaders()
    most = None if getattr(ov.options, "stop", None) else MOST
    witness = Witness(ov, syncs, most)
    ov.listen(witness)
    yield ov.phases.load_script
    try:
        with syncs, loaders:
            yield ov.phases.run_script(priority=1000)
    except GeneratorExit:
        raise
    except BaseException:
        pass  # What the script ended by is not this instrument's affair.
    witness.close()
    witness.found(loaders)
    if syncs.watched and syncs.steps:
        ov.summary["syncs"] = syncs.facts(witness.window_ns)  # For the diagnosis.
    yield ov.phases.finalize(priority=-1000)
    _judge(ov, witness)


def _judge(ov: Overseer, witness: Any) -> None:
    from .checks import judge
    from .evidence import gather

    checks = judge(gather(ov, witness))
    ov.summary["verify"] = [check.as_facts() for check in checks]
    ov.failed_checks = sum(check.verdict == "FAIL" for check in checks)
    if ov.options.verify_json:
        _write(ov, checks)


def _write(ov: Overseer, checks: list[Check]) -> None:
    import json

    failed = any(check.verdict == "FAIL" for check in checks)
    facts = {
        "script": ov.options.SCRIPT or ov.options.MODULE,
        "verdict": "FAIL" if failed else "PASS",
        "verify": [check.as_facts() for check in checks],
    }
    try:
        with open(ov.options.verify_json, "w", encoding="utf-8") as file:
            file.write(json.dumps(facts, indent=2) + "\n")
    except OSError as error:
        what = f"it cannot be written: {error.strerror}"
        remedy = "Name a file in a directory that exists and can be written to."
        ov.report(Problem("verify-json", ov.options.verify_json, what, remedy=remedy))
