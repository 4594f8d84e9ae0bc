"""What a program knows itself of its training, to be held against what was seen from outside."""

import json

import torch


class Truth:
    """Counts steps, items, losses and evaluations in the program's own words.

    Args:
        seed: Of torch's random numbers.
        unknown: Figures, with spaces between, that are not told: by the rules they are unknown.
    """

    def __init__(self, seed=0, unknown=""):
        torch.manual_seed(seed)
        self.unknown = unknown.split()
        self.steps, self.items, self.losses = 0, 0, []
        self.evaluations = {}

    def step(self, items, loss=None):
        """A step of ``items`` has ended; ``loss`` is a tensor."""
        self.steps += 1
        self.items = None if items is None else self.items + items
        if loss is not None:
            self.losses.append(loss.detach().clone())

    def other(self, task, items):
        """A forward pass of ``items`` that nothing is learned from."""
        steps, total = self.evaluations.get(task, (0, 0))
        self.evaluations[task] = [steps + 1, total + items]

    def evaluated(self, items):
        """A pass of an evaluation."""
        self.other("eval", items)

    def tell(self):
        """Print it, as the program's last line."""
        losses = [float(loss) for loss in self.losses]
        known = {
            "steps": self.steps,
            "items": self.items,
            "losses": losses and [losses[0], losses[-1]],
            "evaluations": self.evaluations,
            "unknown": self.unknown,
        }
        print(json.dumps(known))
