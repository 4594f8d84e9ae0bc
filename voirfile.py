"""Instruments for examples/digits/main.py; ``voir --dash examples/digits/main.py`` loads this."""

# Gives the script's own parsed options as `options`.
from voir.instruments import instrument_argparse, log


def instrument_probes(ov):
    yield ov.phases.load_script

    # Each loss that train_epoch computes.
    ov.probe("//train_epoch > loss").give()

    # A step at the end of each iteration over `inp`, and its batch.
    ov.probe("//train_epoch(inp as batch) > #endloop_inp as step").give()

    # The start and the end of the work on each batch; the time between pairs is loading.
    ov.probe(
        "//train_epoch(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
    ).give()

    # The model and its loader.
    ov.probe("//main > model").give()
    ov.probe("//main > train_loader as loader").give()


def instrument_progress(ov):
    yield ov.phases.load_script

    # Progress: completed epochs, of all epochs.
    def progress(event):
        ov.give(task="train", progress=(event["epoch"] + 1, event["args"].epochs), units="epochs")

    ov.probe("//main(args, epoch) > #endloop_epoch").subscribe(progress)


def instrument_accuracy(ov):
    yield ov.phases.load_script
    ov.probe("//main > accuracy").give()

    # Record the accuracy of every epoch in metrics.jsonl.
    ov.require(log("accuracy"))
