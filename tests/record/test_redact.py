"""What is recorded of environment and arguments: what can change a result, and no secret."""

from __future__ import annotations

import pytest

from overseer.record.redact import HIDDEN, redact, redact_arguments, relevant_environment

TOKENS = [
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github_pat_11ABCDEFG0123456789_abcdefghijklmnopqrstuvwxyz",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "sk-proj-0123456789abcdefghijklmn",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghij",
    "glpat-0123456789abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
]


def test_only_variables_that_can_change_a_result_are_kept():
    environ = {
        "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4", "PYTHONHASHSEED": "0", "RANK": "1",
        "NCCL_DEBUG": "INFO", "VOIR_QUIET": "1", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "s",
        "SSH_AUTH_SOCK": "/tmp/x", "MAIL": "me", "HISTFILE": "h",
    }  # fmt: skip
    assert relevant_environment(environ) == {
        "CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4",
        "PYTHONHASHSEED": "0", "RANK": "1", "VOIR_QUIET": "1",
    }  # fmt: skip


SECRETS = "HF_TOKEN HF_HUB_TOKEN SLURM_JWT JAX_API_KEY VOIR_PASSWORD TORCH_SECRET MPI_PASSWD"
HARMLESS = {
    "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": "/a:/b", "PATH": "/usr/bin",
    "HF_HOME": "/data/hf_transformers_cache", "XLA_FLAGS": "--xla_gpu_autotune_level=4",
    "LD_LIBRARY_PATH": "/opt/sk-learn-experiments/lib", "NCCL_SOCKET_IFNAME": "eth0",
}  # fmt: skip


def test_a_variable_that_names_a_secret_is_hidden_and_a_harmless_one_stays():
    secrets = SECRETS.split()
    environ = {**dict.fromkeys(secrets, "a value"), **HARMLESS}
    assert relevant_environment(environ) == {**dict.fromkeys(secrets, HIDDEN), **HARMLESS}


@pytest.mark.parametrize("token", TOKENS)
def test_what_looks_like_a_token_is_hidden_wherever_it_stands(token):
    for text in (token, f"prefix {token}", f"a={token},b"):
        assert token not in redact(text)
        assert HIDDEN in redact(text)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["voir", "main.py", "--epochs", "3"], ["voir", "main.py", "--epochs", "3"]),
        (["--token", "abcdef", "--lr", "1e-3"], ["--token", HIDDEN, "--lr", "1e-3"]),
        (["--api-key=abcdef"], [f"--api-key={HIDDEN}"]),
        (["--apiKey", "abcdef"], ["--apiKey", HIDDEN]),
        (["--max-tokens", "512", "--key=3"], ["--max-tokens", "512", "--key=3"]),
        (["--password"], ["--password"]),
        (["--password", "--verbose", "x"], ["--password", "--verbose", "x"]),
        (["--db", "postgres://me:pw@host/db"], ["--db", f"postgres://{HIDDEN}@host/db"]),
        (["--url=https://h/?token=abc&x=1"], [f"--url=https://h/?token={HIDDEN}&x=1"]),
        (["wandb.api_key=abc"], [f"wandb.api_key={HIDDEN}"]),
        (["data=imagenet", "a b"], ["data=imagenet", "a b"]),
        (["--tokenizer", "bert-base"], ["--tokenizer", "bert-base"]),
        (["--passes", "long"], ["--passes", "long"]),
    ],
)
def test_a_command_line_is_shown_without_its_secrets(argv, shown):
    assert redact_arguments(argv) == shown
