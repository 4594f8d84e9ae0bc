"""What is recorded of environment and arguments: what can change a result, and no secret."""

from __future__ import annotations

import pytest

from overseer.rundir.redact import HIDDEN, redact, redact_arguments, relevant_environment

TOKENS = [
    "ghp_0123456789abcdefABCDEF0123456789abcd", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "github_pat_11ABCDEFG0123456789_abcdefghijklmnopqrstuvwxyz", "AKIAIOSFODNN7EXAMPLE",
    "sk-proj-0123456789abcdefghijklmn", "xoxb-123456789012-abcdefghij",
    "glpat-0123456789abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
]  # fmt: skip
SECRETS = "HF_TOKEN HF_HUB_TOKEN SLURM_JWT JAX_API_KEY VOIR_PASSWORD TORCH_SECRET MPI_PASSWD"
KEPT = {
    "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4", "PYTHONHASHSEED": "0", "RANK": "1",
    "NCCL_DEBUG": "INFO", "VOIR_QUIET": "1", "TOKENIZERS_PARALLELISM": "false",
    "PYTHONPATH": "/a:/b", "PATH": "/usr/bin", "HF_HOME": "/data/hf_transformers_cache",
    "XLA_FLAGS": "--xla_gpu_autotune_level=4", "NCCL_SOCKET_IFNAME": "eth0",
    "LD_LIBRARY_PATH": "/opt/sk-learn-experiments/lib",
}  # fmt: skip


def test_variables_that_can_change_a_result_are_kept_and_those_that_name_secrets_hidden():
    secret, others = SECRETS.split(), ["HOME", "AWS_SECRET_ACCESS_KEY", "MAIL", "HISTFILE"]
    environ = {**KEPT, **dict.fromkeys([*secret, *others], "a value")}
    assert relevant_environment(environ) == {**dict.fromkeys(secret, HIDDEN), **KEPT}


@pytest.mark.parametrize("token", TOKENS)
def test_what_looks_like_a_token_is_hidden_wherever_it_stands(token):
    for text in ("{}", "prefix {}", "a={},b"):
        assert redact(text.format(token)) == text.format(HIDDEN)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ("voir main.py --epochs 3", "voir main.py --epochs 3"),
        ("--token abcdef --lr 1e-3", "--token <hidden> --lr 1e-3"),
        ("--api-key=abcdef", "--api-key=<hidden>"),
        ("--apiKey abcdef", "--apiKey <hidden>"),
        ("--max-tokens 512 --key=3", "--max-tokens 512 --key=3"),
        ("--password", "--password"),
        ("--password --verbose x", "--password --verbose x"),
        ("--db postgres://me:pw@host/db", "--db postgres://<hidden>@host/db"),
        ("--url=https://h/?token=abc&x=1", "--url=https://h/?token=<hidden>&x=1"),
        ("wandb.api_key=abc", "wandb.api_key=<hidden>"),
        ("data=imagenet a b", "data=imagenet a b"),
        ("--tokenizer bert-base --passes long", "--tokenizer bert-base --passes long"),
    ],
)
def test_a_command_line_is_shown_without_its_secrets(argv, shown):
    assert redact_arguments(argv.split()) == shown.split()
