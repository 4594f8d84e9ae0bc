"""A batch that no variable holds: what ``voir init`` writes shows the wait for it as loading."""

from __future__ import annotations

from pathlib import Path

from tests.running import Place

SCRIPT = """
    import time

    def data():
        while True:
            time.sleep(0.01)
            yield [0] * 8

    def update(params, batch):
        time.sleep(0.01)
        return params, 1.0

    def main():
        params, batches = 0, data()
        for epoch in range(2):
            for _ in range(15):
                params, loss = update(params, next(batches))

    main()
    """


def test_loading_is_the_wait_for_a_batch_that_no_variable_holds(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    assert place.voir("init", "main.py").status == 0
    assert place.voir("--train-rate", "main.py").status == 0
    train = place.record()["tasks"]["train"]
    assert train["steps"] == 30
    assert 0.3 < train["loading"]["share"] < 0.7
