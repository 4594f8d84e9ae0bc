"""How much of what lies between a step's first forward and ``backward`` is the forward's."""

from __future__ import annotations

from collections.abc import Callable

#: What lies beside modules is the forward's where it takes at most this part of ``backward``.
PART = 0.5
#: Of what takes longer, so many nanoseconds are for each operation that was made there; where they
#: are more than a loss has, as much as so many times their ``backward``.
EACH, FEW, TIMES = 20_000, 8, 3
#: Forwards without gradients that may be a step's; of more, the rest is left out.
AHEAD = 1024


class Forward:
    """The way from a step's first forward, or its first after a ``backward``, to ``backward``.

    What modules take is the forward's. What lies beside them is, too, where it computes the loss,
    or a part of the model that is no module; but a script may do other things there: get its next
    batch, or act in an environment. How long ``backward`` takes then tells how much of it can be
    which, with how much of the graph was made beside modules.

    What modules take ahead of it, without gradients, is the forward's, too: a teacher's, or that of
    a frozen part. But it may be an evaluation's; so it waits until the script learns.

    Modules without parameters are mostly loss functions of a few operations, and not watched. Once
    more lies beside the others than such a one takes, it may be theirs, as that of a criterion that
    finds out what is to be compared with what: from then on they are.

    Args:
        nodes: How many operations with a gradient the calling thread has made; 0: not known.

    Attributes:
        ahead: When modules' forwards ahead of it began, and how long they took.
        cut: Some of what lay beside modules was left out: look at those without parameters, too.
    """

    __slots__ = (
        "_bare", "_beside", "_first", "_loading", "_made", "_module", "_nodes", "_open", "_own",
        "_within", "ahead", "cut",
    )  # fmt: skip

    def __init__(self, nodes: Callable[[], int]) -> None:
        self._nodes = nodes
        self._beside = self._first = self._loading = self._made = self._module = self._own = 0
        self._within = 0
        self._bare: tuple[int, int, int, int] | None = None
        self._open = self.cut = False
        self.ahead: list[tuple[int, int]] = []

    def module_begins(self) -> None:
        """A module's forward begins."""
        self._module = self._nodes()

    def begins(self, loading: int) -> None:
        """That was the first; until now ``loading`` had taken so long."""
        self._first, self._loading = self._module, loading
        self._within = self._own = 0
        self._open, self._bare = True, None

    def module_ends(self, took: int) -> None:
        """A module's forward has ended."""
        self._within += took
        self._own += self._nodes() - self._module

    def bare_begins(self, now: int) -> None:
        """A module without parameters begins, and none that does was at work."""
        self._bare = now, self._nodes(), self._within, self._own

    def bare_ends(self, now: int) -> None:
        """It has ended, and is the forward's if it made a part of the graph: a metric does not.

        What modules with parameters took within it is a part of what it took.
        """
        bare, self._bare = self._bare, None
        if bare is not None:
            begin, before, within, own = bare
            made = self._nodes() - before
            if made > 0:
                self._within, self._own = within + now - begin, own + made

    @property
    def bare_counts(self) -> bool:
        """Whether the next module without parameters lies on the way."""
        return self._open and self._bare is None

    def goes_ahead(self, begin: int, end: int) -> None:
        """A module's forward without gradients has ended, ahead of the first with them."""
        if len(self.ahead) < AHEAD:
            self.ahead.append((begin, end - begin))

    def waited(self, begin: int, first: bool) -> None:
        """The script has waited for a batch since ``begin``: what it did meanwhile is loading.

        What it did before the ``first`` of a step is of the one before, or of none: it is not known
        whether that was in a pause.
        """
        ahead = self.ahead
        if first:
            ahead.clear()
        while ahead and ahead[-1][0] >= begin:
            ahead.pop()

    def arrived(self, came: int, begin: int) -> int:
        """When the first forward since a batch ``came`` began; the last of them did ``begin``."""
        return next((began for began, _ in self.ahead if began >= came), begin)

    def learned(self) -> int:
        """The script learns; returns what was ahead, which belongs to its step."""
        took = sum(took for _, took in self.ahead)
        self.ahead.clear()
        return took

    def ends(self, took: int, loading: int) -> int:
        """``backward`` begins; returns what of it all modules took."""
        self._open, self._bare = False, None
        took -= loading - self._loading  # What was waited for is no forward's.
        within = max(0, min(self._within, took))
        self._beside, self._made = took - within, self._nodes() - self._first
        return within

    def beside(self, backward: int) -> int:
        """``backward`` has ended; returns what beside modules was the forward's, too."""
        beside, self._beside = self._beside, 0
        if beside <= PART * backward:
            return beside
        made = self._made
        others = made - self._own
        most = EACH * others
        if not made:
            most = TIMES * backward
        elif others > FEW:
            most = max(most, TIMES * backward * others // made)
        self.cut |= beside > most
        return min(beside, most)
