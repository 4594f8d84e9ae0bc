"""Gradients by hand, functions only, no torch; 12 batches of 8."""

import random


def loss_and_gradients(params, xs, ys):
    errors = [params["w"] * x + params["b"] - y for x, y in zip(xs, ys, strict=True)]
    n = len(xs)
    gradients = {
        "w": 2 * sum(e * x for e, x in zip(errors, xs, strict=True)) / n,
        "b": 2 * sum(errors) / n,
    }
    return sum(e * e for e in errors) / n, gradients


def update(params, gradients, rate):
    return {key: value - rate * gradients[key] for key, value in params.items()}


def batches(xs, ys, size):
    for i in range(0, len(xs), size):
        yield xs[i : i + size], ys[i : i + size]


def main():
    random.seed(0)
    xs = [random.uniform(-1, 1) for _ in range(96)]
    ys = [3 * x + 1 for x in xs]
    params = {"w": 0.0, "b": 0.0}
    for xb, yb in batches(xs, ys, 8):
        loss, gradients = loss_and_gradients(params, xb, yb)
        params = update(params, gradients, 0.1)
    print(loss)


main()
