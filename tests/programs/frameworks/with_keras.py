"""Keras on torch: ``fit`` with a validation after each epoch, and ``evaluate`` at the end."""

import json
import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(50, 4)).astype("float32"), rng.normal(size=(50, 1)).astype("float32")
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
seen = {"steps": 0, "passes": 0}


class Count(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen["steps"] += 1

    def on_test_batch_end(self, batch, logs=None):
        seen["passes"] += 1


model.fit(x, y, batch_size=8, epochs=2, validation_data=(x[:20], y[:20]), verbose=0,
          callbacks=[Count()])  # fmt: skip
# The call on the first batch by which Keras builds the model is no inference.
evaluations = {"eval": [seen["passes"], 40]}
print(json.dumps({"steps": seen["steps"], "items": 100, "evaluations": evaluations}))
