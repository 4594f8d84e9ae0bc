"""The very line to write in a voirfile, from what the script's own text says."""

from __future__ import annotations

GENERIC = {
    "loss": 'ov.probe("//train > loss").give()',
    "step": 'ov.probe("//train(x as batch) > #endloop_x as step").give()',
    "pair": 'ov.probe("//train(x as batch, !#loop_x as compute_start, '
    '!!#endloop_x as compute_end)").give()',
    "loader": 'ov.probe("//main > train_loader as loader").give()',
    "model": 'ov.probe("//main > model").give()',
    "pause": 'ov.probe("//evaluate(!#enter as pause, !!#exit as resumed)").give()',
}


class Proposals:
    """What a voirfile for a script would say; the script is read when first asked.

    Args:
        script: Its file.
    """

    def __init__(self, script: str | None) -> None:
        self._script = script

    def line(self, role: str) -> str | None:
        """The line that shows ``role``, if the script's text tells."""
        return None

    def instead_of(self, selector: str) -> str | None:
        """The line in place of ``selector``, which came to nothing."""
        return None
