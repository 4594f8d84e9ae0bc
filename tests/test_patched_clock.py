"""A script may put another clock in the place of python's: voir neither asks it nor fails by it."""

from __future__ import annotations

import pytest

from .running import Place

#: Long enough for voir's own threads to have had several turns.
LOOP = """
    import time
    from unittest import mock
    from voir import give, iterate

    now = time.perf_counter

    def train(answers):
        for turn in iterate("train", range(8), report_batch=True):
            asked = time.perf_counter() if answers else 0
            end = now() + 0.1
            while now() < end:
                pass
            give(step=turn, batch_size=4, took=time.perf_counter() - asked if answers else 0)
            print("turn", turn, asked)
    """
PATCHED = {
    "whose answers are all the script's": """
        from train import mock, train
        with mock.patch("time.perf_counter", side_effect=[float(n) for n in range(16)]):
            train(answers=True)
        """,
    "that fails": """
        from train import time, train
        for name in dir(time):
            if callable(getattr(time, name)) and name != "struct_time":
                setattr(time, name, lambda *arguments: 1 / 0)
        train(answers=False)
        """,
}


@pytest.mark.parametrize("script", PATCHED.values(), ids=PATCHED)
def test_a_clock(tmp_path, script):
    place = Place(tmp_path)
    place.write("train.py", LOOP)
    place.write("patched.py", script)
    plain, watched = place.python("patched.py"), place.voir("patched.py")
    assert (plain.status, watched.seen) == (0, plain.seen)
    assert "8 steps" in watched.stderr
    for words in ("Traceback", "switched off"):
        assert words not in watched.stderr
