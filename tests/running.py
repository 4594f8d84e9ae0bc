"""Running voir and python as a user does: as processes, in a directory of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.forking import PATIENCE, server

PYTHON = [sys.executable]
VOIR = [sys.executable, "-m", "voir"]
#: PyTorch, and most of what its first optimizer imports: ``torch._dynamo`` itself would be too
#: early for hooks.
TORCH = [
    "torch", "sympy", "torch.distributed.fsdp", "torch.onnx", "torch._numpy", "numpy.random",
    "torch._functorch._aot_autograd.schemas",
]  # fmt: skip
#: The schema of every ``run.json`` that a test reads.
SCHEMA = Path(__file__).parents[1] / "docs/run.schema.json"


@dataclass(frozen=True)
class Ran:
    """Exit status and output of a process."""

    status: int
    stdout: str
    stderr: str

    @property
    def seen(self) -> tuple[int, str]:
        """The status and stdout, which are the same with voir and without."""
        return self.status, self.stdout


class Place:
    """A directory with files in it, where commands are run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented as the test is."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    def probes(self, selectors: Sequence[str]) -> Path:
        """Write a voirfile that gives what is selected."""
        return self.write(
            "voirfile.py",
            f"""
            def instrument_probes(ov):
                yield ov.phases.load_script
                for selector in {list(selectors)}:
                    ov.probe(selector).give()
            """,
        )

    def run(self, *command: str, env: Mapping[str, str] | None = None, **options: Any) -> Ran:
        """Run a command here, with a clean environment and ``env``."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        at = {"cwd": self.path, "env": environment(env), "timeout": PATIENCE, **options}
        done = subprocess.run(command, capture_output=True, **at)
        return Ran(done.returncode, _text(done.stdout), _text(done.stderr))

    def voir(self, *arguments: str, warm: bool = False, fresh: bool = False, **options: Any) -> Ran:
        """Run ``voir`` here, in a fork of a process that has imported it already.

        Args:
            arguments: Those of the command.
            warm: In a fork of a process that has imported torch too.
            fresh: In a process of its own, for what depends on how a process starts.
            options: ``env``, ``input``; with any other, the process is always its own.
        """
        env = environment(options.get("env"))
        plain = not fresh and not options.keys() - {"env", "input"}
        forks = server(*TORCH * warm) if plain else None
        if forks is None or not forks.stands_for(self.path, env):
            return self.run(*VOIR, *arguments, **options)
        done = forks.run(arguments, self.path, env, options.get("input", b""))
        return Ran(done.returncode, _text(done.stdout), _text(done.stderr))

    def python(self, *arguments: str, **options: Any) -> Ran:
        """Run ``python`` here."""
        return self.run(*PYTHON, *arguments, **options)

    @property
    def runs(self) -> list[Path]:
        """The run directories that were made here."""
        return sorted((self.path / "voir-runs").glob("*"))

    def record(self) -> dict[str, Any]:
        """``run.json`` of the only run that was recorded here."""
        (run,) = self.runs
        facts: dict[str, Any] = json.loads((run / "run.json").read_text())
        assert faults(facts) == []
        return facts

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl`` of the only run recorded here."""
        (run,) = self.runs
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(facts: Mapping[str, Any]) -> list[str]:
    """Violations of docs/run.schema.json in a ``run.json``."""
    return [f"{fault.json_path}: {fault.message}" for fault in _validator().iter_errors(facts)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without what would change how voir or python behave."""
    dropped = (
        "VOIR", "PYTHON", "DATA_FD", "NO_COLOR", "FORCE_COLOR", "CI", "RANK", "SLURM", "OMPI",
        "PMI",
    )  # fmt: skip
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    # Tests run side by side: more threads of PyTorch would only wait for each other.
    return {"OMP_NUM_THREADS": "1", **kept, **(extra or {})}


def _text(output: bytes | str) -> str:
    return output if isinstance(output, str) else output.decode("utf-8", "backslashreplace")
