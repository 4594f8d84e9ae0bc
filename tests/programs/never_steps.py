"""A model that is made, shown to itself once, and saved."""

import pickle
import warnings

import torch
from truth import Truth

truth = Truth()
model = torch.nn.Linear(4, 1)
torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.zeros(2, 4))
pickle.loads(pickle.dumps(model))
assert not model._forward_hooks
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It is deprecated, and still used.
    torch.jit.script(model)
truth.tell()
