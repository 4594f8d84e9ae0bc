"""Which DataLoaders a script goes over, when no probe shows its loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overseer.imports import Watch, on_import

#: Loaders that are remembered.
LOADERS = 16


class Loaders:
    """Remembers each DataLoader that is iterated over within the ``with`` block.

    Only under ``--verify``: the class's ``__iter__`` is wrapped, and put back.
    """

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self._watch: Watch | None = None
        self._kind: Any = None
        self._inner: Any = None

    def __enter__(self) -> Loaders:
        self._watch = on_import("torch.utils.data", self._wrap)
        return self

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.dispose()
        if self._inner is not None:
            self._kind.__iter__ = self._inner

    def of(self, batch_size: int | None) -> Any:
        """The one whose batches have this size, else the first."""
        alike = (one for one in self.seen if getattr(one, "batch_size", None) == batch_size)
        return next(alike, self.seen[0] if self.seen else None)

    def _wrap(self, module: Any) -> None:
        kind: Any = getattr(module, "DataLoader", None)
        if self._inner is not None or kind is None:
            return
        inner, seen = kind.__iter__, self.seen

        def __iter__(loader: Any) -> Iterator[Any]:
            if len(seen) < LOADERS and not any(one is loader for one in seen):
                seen.append(loader)
            found: Iterator[Any] = inner(loader)
            return found

        self._kind, self._inner = kind, inner
        kind.__iter__ = __iter__
