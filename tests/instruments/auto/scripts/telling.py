"""What a script knows itself of its steps, to be held against what was seen from outside."""

import json


class Truth:
    """Counts steps, items and losses in the script's own words."""

    def __init__(self):
        self.steps, self.items, self.losses = 0, 0, []
        self.others = {}
        self.units = "items"

    def step(self, items, loss):
        """A step of ``items`` has ended; ``loss`` is a tensor."""
        self.steps += 1
        self.items = None if items is None else self.items + items
        self.losses.append(loss.detach().clone())

    def other(self, task, items):
        """A forward pass of ``items`` that nothing is learned from."""
        steps, total = self.others.get(task, (0, 0))
        self.others[task] = [steps + 1, total + items]

    def tell(self):
        """Print it, as the script's output."""
        losses = [float(loss) for loss in self.losses]
        known = {"steps": self.steps, "items": self.items, "units": self.units}
        print(json.dumps({**known, "losses": losses, "others": self.others}))
