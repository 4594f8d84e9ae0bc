"""The verdict on a change: it is accepted if it is an improvement and does the same work."""

from __future__ import annotations

from typing import NamedTuple

from . import judging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from .judging import Verdict
    from .same_work import OtherWork

ACCEPT, REJECT = "accept", "reject"
#: Exit status of each verdict.
TRIAL_STATUS: Final = {
    ACCEPT: 0, REJECT: 1,
    **{each: judging.STATUS[each] for each in (judging.INCONCLUSIVE, judging.UNMEASURED)},
}  # fmt: skip
_OF = {
    judging.REGRESSION: REJECT, judging.EQUIVALENT: REJECT, judging.IMPROVEMENT: ACCEPT,
    judging.UNMEASURED: judging.UNMEASURED,
}  # fmt: skip


class Trial(NamedTuple):
    """What is said of a change.

    Attributes:
        verdict: ``accept``, ``reject``, ``inconclusive`` or ``nothing measured``.
        why: Sentences for people, the deciding one first.
    """

    verdict: str
    why: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status."""
        return TRIAL_STATUS[self.verdict]


def judged_trial(verdict: Verdict, differences: Sequence[OtherWork], spread: bool) -> Trial:
    """The verdict on a change.

    Other work is rejected, whatever its speed. So is what is no improvement. An improvement is not
    accepted while it is open whether the work is the same.

    Args:
        verdict: That of the bench on the change.
        differences: How its work differs.
        spread: Whether processes of the reference tell the noise of the metric; false for a loss
            that is the same in all of them, as they have one seed.
    """
    said = "" if verdict.verdict in TRIAL_STATUS else f"{verdict.verdict}: "
    said += verdict.why
    sure = [each.why for each in differences if each.sure]
    if sure:
        return Trial(REJECT, ("the work is not the same", *sure))
    found = _OF.get(verdict.verdict, judging.INCONCLUSIVE)
    if found != ACCEPT:
        return Trial(found, (said,))
    doubts = [each.why for each in differences]
    if not spread:
        doubts.append("all processes of A have the same value: their seed is fixed, so nothing "
            "tells what another seed does")  # fmt: skip
    return Trial(judging.INCONCLUSIVE if doubts else ACCEPT, (*doubts, said))
