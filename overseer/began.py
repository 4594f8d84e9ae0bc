"""When voir began to load; imported before the rest of it."""

import time

#: What the thread that loads voir had used of the processor by then.
CPU_NS = time.thread_time_ns()
