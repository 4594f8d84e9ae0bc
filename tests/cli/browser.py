"""A headless Chromium, told what to do through a pipe: no driver, no package besides."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

#: What it needs to run in a container, without a display.
OPTIONS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"
PATIENCE = 60


def chromium() -> str | None:
    """Where Chromium is."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def shown(address: str, wanted: str, home: Path) -> str:
    """What a page shows as text as soon as ``wanted`` is in it, or when patience has run out.

    Chromium is installed first as root on Debian; where there is none the test is skipped.
    """
    if chromium() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = "timeout 180 apt-get install -y --no-install-recommends chromium"
        subprocess.run(install.split(), capture_output=True, check=False)
    if chromium() is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    pipe = f"--remote-debugging-pipe --user-data-dir={home} 3<&0 4>&1 >/dev/null 2>&1"
    process = subprocess.Popen(
        f"exec {chromium()} {OPTIONS} {pipe}", shell=True, stdin=-1, stdout=-1
    )
    assert process.stdin is not None and process.stdout is not None
    to, back, numbers = process.stdin, process.stdout, count(1)

    def call(method: str, session: dict[str, str], **parameters: Any) -> Any:
        asked = {"id": next(numbers), "method": method, "params": parameters, **session}
        to.write(json.dumps(asked).encode() + b"\0")
        to.flush()
        answer: dict[str, Any] = {}
        while answer.get("id") != asked["id"]:
            answer = json.loads(b"".join(iter(lambda: back.read(1), b"\0")))
        return answer.get("result", {})

    with process:
        target = call("Target.createTarget", {}, url=address)
        attached = call("Target.attachToTarget", {}, **target, flatten=True)
        text, until = "", time.monotonic() + PATIENCE
        while wanted not in text and time.monotonic() < until:
            time.sleep(0.2)
            script = "document.body ? document.body.innerText : ''"
            found = call("Runtime.evaluate", attached, expression=script)
            text = str(found.get("result", {}).get("value", ""))
        process.terminate()
    return text
