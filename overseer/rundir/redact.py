"""Filters the environment and the command line, and hides secrets.

Only variables that can change a result are kept, by name. Values of variables and arguments are
hidden if a part of the name means a secret (``TOKEN``, ``PASSWORD``, ``KEY``, ...), or if the value
looks like one: a credential in a URL, or a well-known kind of token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "<hidden>"

#: Prefixes of variables that can change a run's behaviour or speed.
RELEVANT = (
    "ACCELERATE_", "ATEN_", "BLIS_", "CUBLAS", "CUDA", "CUDNN", "DEEPSPEED", "FI_", "GLOO_",
    "GOMP_", "GOTO_", "HF_", "HIP_", "HSA_", "JAX_", "KMP_", "LC_", "LD_", "LOCAL_", "MALLOC_",
    "MASTER_", "MIOPEN_", "MILABENCH_", "MKL_", "MPI", "NCCL_", "NEURON_", "NUMBA_", "NUMEXPR_",
    "NVIDIA_", "NVTE_", "OMP_", "OMPI_COMM_", "OPENBLAS_", "PYTHON", "PYTORCH_", "RCCL_", "ROCR_",
    "SLURM_", "TF_", "TOKENIZERS_", "TORCH", "TRANSFORMERS_", "TRITON_", "UCX_", "VECLIB_",
    "VOIR", "XLA_", "ZE_",
)  # fmt: skip
#: Full names of such variables.
NAMES = frozenset({
    "CI", "COLUMNS", "CONDA_DEFAULT_ENV", "CONDA_PREFIX", "DATA_FD", "GROUP_RANK", "LANG",
    "NO_COLOR", "FORCE_COLOR", "PATH", "RANK", "ROLE_RANK", "TERM", "TMPDIR", "TZ", "VIRTUAL_ENV",
    "WORLD_SIZE",
})  # fmt: skip

_SECRET = frozenset({
    "ACCESS", "APIKEY", "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "CREDENTIAL", "CREDENTIALS",
    "DSN", "JWT", "KEY", "KEYS", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "PRIVATE",
    "PWD", "SECRET", "SECRETS", "SESSION", "SIGNATURE", "TOKEN", "TOKENS",
})  # fmt: skip
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_TOKEN = re.compile(
    r"\b(?:"
    r"gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,}"  # Code hosts.
    r"|pypi-AgE[\w-]{16,}|hf_[A-Za-z0-9]{16,}|AIza[\w-]{30,}|A[KS]IA[A-Z0-9]{16}"
    r"|(?:sk|pk|rk)[-_](?=[\w-]*\d)[\w-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{10,}\.[\w.-]{10,}"  # A JSON web token.
    r")"
)
_COUNT = re.compile(r"[-+.\deE]{1,7}")
# URL queries and "name=value" lists have names inside.
_NAMED = re.compile(
    r"(?i)\b([\w-]*(?:token|secret|passw(?:or)?d|api_?key|signature)[\w-]*=)[^&\s,;]+"
)


def relevant_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that can change a result, sorted by name, secrets hidden."""
    names = sorted(name for name in environ if name in NAMES or name.startswith(RELEVANT))
    return {name: redact(environ[name], name) for name in names}


def redact_arguments(argv: Iterable[str]) -> list[str]:
    """A command line with secrets hidden: ``--token x``, ``--api-key=x``, credentials in URLs."""
    shown: list[str] = []
    owner = ""
    for argument in argv:
        name, equals, value = argument.partition("=")
        if equals and name.startswith("-"):
            shown.append(f"{name}={redact(value, name)}")
        else:
            shown.append(argument if argument.startswith("-") else redact(argument, owner))
        owner = argument if argument.startswith("-") and not equals else ""
    return shown


def redact(value: str, name: str = "") -> str:
    """``value`` of the variable or option ``name``, with secrets hidden."""
    if value and speaks_of_secret(name) and not _harmless(value):
        return HIDDEN
    value = _TOKEN.sub(HIDDEN, _IN_URL.sub(HIDDEN, value))
    # A function: templates with groups are parsed by an import in C code,
    # which would find a module beside the script.
    return _NAMED.sub(lambda found: found[1] + HIDDEN, value)


def speaks_of_secret(name: str) -> bool:
    """Whether a part of ``name`` is a word for a secret: ``HF_TOKEN``, ``--apiKey``."""
    return any(part.upper() in _SECRET for part in _PARTS.findall(name))


def _harmless(value: str) -> bool:
    # --max-tokens 512, --key-frames=1e3, --auth true: numbers and switches are no secrets.
    return bool(_COUNT.fullmatch(value)) or value.lower() in ("true", "false", "yes", "no")
