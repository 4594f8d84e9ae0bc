"""A headless Chromium, told what to do through a pipe: no driver, no package besides."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
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


class Browser:
    """A page in a browser; it ends with the ``with`` block.

    Chromium is installed first as root on Debian; where there is none the test is skipped.

    Args:
        address: The page's.
        home: A directory for Chromium's own files.
        scripts: Whether the page's scripts run.

    Attributes:
        problems: What scripts of the page could not do, and errors on its console.
        requests: The addresses that it asked for.
    """

    def __init__(self, address: str, home: Path, scripts: bool = True) -> None:
        if chromium() is None and os.geteuid() == 0 and shutil.which("apt-get"):
            install = "timeout 180 apt-get install -y --no-install-recommends chromium"
            subprocess.run(install.split(), capture_output=True, check=False)
        if chromium() is None:
            pytest.skip("needs Chromium: apt-get install chromium")
        pipe = f"--remote-debugging-pipe --user-data-dir={home} 3<&0 4>&1 >/dev/null 2>&1"
        self._process = subprocess.Popen(
            f"exec {chromium()} {OPTIONS} {pipe}", shell=True, stdin=-1, stdout=-1
        )
        self._numbers, self._session = count(1), dict[str, str]()
        self.problems, self.requests = list[str](), list[str]()
        target = self._call("Target.createTarget", url="about:blank")
        attached = self._call("Target.attachToTarget", **target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Runtime", "Log", "Network", "Page"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call("Page.navigate", url=address)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def _call(self, method: str, **parameters: Any) -> Any:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        asked = {"id": next(self._numbers), "method": method, "params": parameters}
        to.write(json.dumps({**asked, **self._session}).encode() + b"\0")
        to.flush()
        answer: dict[str, Any] = {}
        while answer.get("id") != asked["id"]:
            answer = json.loads(b"".join(iter(lambda: back.read(1), b"\0")))
            self._note(answer.get("method", ""), answer.get("params", {}))
        return answer.get("result", {})

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(about["exceptionDetails"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(str(about["entry"]))

    def value(self, script: str) -> Any:
        """The value of an expression in the page."""
        asked = {"expression": script, "returnByValue": True}
        return self._call("Runtime.evaluate", **asked).get("result", {}).get("value")

    def until(self, script: str, wanted: Callable[[Any], object] = bool) -> Any:
        """The value of an expression as soon as it is as wanted, or when patience has run out."""
        until, value = time.monotonic() + PATIENCE, self.value(script)
        while not wanted(value) and time.monotonic() < until:
            time.sleep(0.2)
            value = self.value(script)
        return value


def shown(address: str, wanted: str, home: Path) -> str:
    """What a page shows as text as soon as ``wanted`` is in it, or when patience has run out."""
    with Browser(address, home) as page:
        script = "document.body ? document.body.innerText : ''"
        return str(page.until(script, lambda text: wanted in str(text)))
