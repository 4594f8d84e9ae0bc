"""The source distribution of voir 0.2.24, from PyPI, unpacked where git does not look."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "voir-0.2.24"
SHA256 = "36ccf92a2e969cee4c5148d139a93e2712c64b7ed487578cce3895f15ec873dd"
#: Seconds for pip, which makes the distribution's metadata too.
PATIENCE = 120


def unpacked() -> Path:
    """Where the distribution is unpacked; the test is skipped when it cannot be had."""
    place = ROOT / "build" / "upstream"
    if not (place / NAME / "tests").is_dir():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            archive = _downloaded(Path(folder))
            with tarfile.open(archive) as packed:
                safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                packed.extractall(place, **safely)  # type: ignore[arg-type]
    return place / NAME


def _downloaded(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", ":all:", "--dest", str(folder), "voir==0.2.24"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"voir 0.2.24 could not be had from PyPI in {PATIENCE} seconds")
    archive = folder / f"{NAME}.tar.gz"
    if done.returncode or not archive.is_file():
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        pytest.skip(f"voir 0.2.24 could not be had from PyPI: {reason}")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    return archive
