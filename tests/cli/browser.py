"""A headless Chromium, told what to do through a pipe: no driver, no package besides."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: What it needs to run in a container, without a display.
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
PATIENCE = 60


def found() -> str | None:
    """Where Chromium is."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def chromium() -> str:
    """Where Chromium is; as root on Debian it is installed first, elsewhere the test is skipped."""
    if found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(install, capture_output=True, timeout=180, check=False)
    path = found()
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    return path


class Browser:
    """A running Chromium with one page.

    Args:
        home: Where it keeps its files.
    """

    def __init__(self, home: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place() -> None:
            # It reads from 3 and writes to 4; the pipe's own numbers may be those.
            os.dup2(to_read, 203)
            os.dup2(to_write, 204)
            os.dup2(203, 3)
            os.dup2(204, 4)

        command = [chromium(), *OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={home}"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._count, self._buffer, self._page = 0, b"", ""

    def open(self, address: str) -> None:
        """Open a page."""
        target = self._call("Target.createTarget", url=address)["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._page = attached["sessionId"]

    def text(self) -> str:
        """What the page shows as text."""
        script = "document.body ? document.body.innerText : ''"
        answer = self._call("Runtime.evaluate", expression=script)
        return str(answer.get("result", {}).get("value", ""))

    def wait_for(self, holds: Callable[[str], bool]) -> str:
        """The page's text as soon as it is as it should be, or when patience has run out."""
        until = time.monotonic() + PATIENCE
        while not holds(text := self.text()) and time.monotonic() < until:
            time.sleep(0.2)
        return text

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._write)
        os.close(self._read)

    def _call(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        asked = {"id": self._count, "method": method, "params": parameters}
        if self._page:
            asked["sessionId"] = self._page
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._count:
                return answer.get("result", {})

    def _message(self) -> Any:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 16)
            assert data, "Chromium has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def browsing(home: Path) -> Iterator[Browser]:
    """A browser for as long as it is needed."""
    browser = Browser(home)
    try:
        yield browser
    finally:
        browser.close()
