"""Scripts that know the truth about themselves, and the probes that show their steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.running import PASSING, Place, Ran

#: The end of each iteration of the loop over ``inp``.
STEP = "//train(inp as batch) > #endloop_inp as step"
#: The beginning and the end of the work on each batch.
PAIR = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
LOADER = "// > loader"

#: A module for scripts that measure what they spend on waiting, and in ``train`` as a whole.
TRAINING = """
    import json
    import passing as time

    seconds = {"loading": 0.0, "train": 0.0}
    steps = []

    def spend(key, act, *args):
        since = time.perf_counter()
        act(*args)
        seconds[key] += time.perf_counter() - since

    def wait(delay=0.01):
        spend("loading", time.sleep, delay)

    def work(delay=0.005):
        time.sleep(delay)
        steps.append(delay)

    def truth():
        compute = seconds["train"] - seconds["loading"]
        print(json.dumps({"steps": len(steps), "loading": seconds["loading"], "compute": compute}))
    """

_VOIR = """
import passing, time
time.perf_counter_ns = passing.perf_counter_ns
from overseer.cli import main
main()
"""


class Timed(Place):
    """A place whose scripts have ``passing``, by which voir measures them too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.write("passing.py", PASSING)

    def voir(self, *arguments: str, **options: Any) -> Ran:
        """Run ``voir`` here, in passing time."""
        return self.run(sys.executable, "-c", _VOIR, *arguments, **options)


#: A stand-in for PyTorch's data loader, with the one class of it that matters.
DATALOADER = """
    class DataLoader:
        def __init__(self, dataset, batch_size):
            self.dataset = dataset
            self._index_sampler = self.batch_sampler = [
                range(i, min(i + batch_size, len(dataset)))
                for i in range(0, len(dataset), batch_size)
            ]

        def __len__(self):
            return len(self.batch_sampler)

        def __iter__(self):
            return _SingleProcessDataLoaderIter(self)

    class {name}:
        def __init__(self, loader):
            self._dataset = loader.dataset
            self._index_sampler = loader.batch_sampler
            self._sampler_iter = iter(self._index_sampler)

        def __iter__(self):
            return self
{answers}
    class _SingleProcessDataLoaderIter({name}):
        pass
    """
#: How it answers, in the simplest way; or as PyTorch's own, which does something when it has.
ANSWERS = """
        def __next__(self):
            return [self._dataset[i] for i in next(self._sampler_iter)]
"""
HOLDS = """
        def __next__(self):
            with Recorded():
                data = self._next_data()
                return data

        def _next_data(self):
            return [self._dataset[i] for i in next(self._sampler_iter)]

    class Recorded:
        leaves = staticmethod(bool)

        def __enter__(self):
            pass

        def __exit__(self, kind, *error):
            kind or self.leaves()
"""


def voirfile(place: Place, *selectors: str) -> None:
    """Write a voirfile that gives what the selectors capture."""
    probes = "".join(f"\n            ov.probe({selector!r}).give()" for selector in selectors)
    place.write(
        "voirfile.py",
        f"""
        def instrument_probes(ov):
            yield ov.phases.load_script{probes}
        """,
    )


def fake_torch(place: Place, iterator: str = "_BaseDataLoaderIter", answers: str = ANSWERS) -> None:
    """Put a package ``torch`` beside the script; ``iterator`` is the class with ``__next__``."""
    place.write("torch/__init__.py", "")
    place.write("torch/utils/__init__.py", "")
    place.write("torch/utils/data/__init__.py", "from .dataloader import DataLoader")
    place.write("torch/utils/data/dataloader.py", DATALOADER.format(name=iterator, answers=answers))


def truth(ran: Ran) -> dict[str, Any]:
    """What the script said of itself in its last line."""
    assert ran.status == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return said


def logged(place: Place, key: str) -> list[dict[str, Any]]:
    """The logged events that have ``key``, in order."""
    return [event for event in place.metrics() if key in event and "t" not in event]
