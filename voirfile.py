"""Instruments for examples/digits/main.py; ``voir --dash examples/digits/main.py`` loads this."""

# What the script's own command line said, as `options`.
from voir.instruments import instrument_argparse, log


def instrument_probes(ov):
    yield ov.phases.load_script

    # The loss, whenever train_epoch computes one.
    ov.probe("//train_epoch > loss").give()

    # At the end of each iteration over `inp`: a step, and the batch it worked on.
    ov.probe("//train_epoch(inp as batch) > #endloop_inp as step").give()

    # The start and the end of the work on each batch; what lies between two is loading.
    ov.probe(
        "//train_epoch(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
    ).give()

    # What is trained, and what it is fed with.
    ov.probe("//main > model").give()
    ov.probe("//main > train_loader as loader").give()


def instrument_progress(ov):
    yield ov.phases.load_script

    # How far the run is: epochs done, of the epochs asked for.
    def progress(event):
        ov.give(task="train", progress=(event["epoch"] + 1, event["args"].epochs), units="epochs")

    ov.probe("//main(args, epoch) > #endloop_epoch").subscribe(progress)


def instrument_accuracy(ov):
    yield ov.phases.load_script
    ov.probe("//main > accuracy").give()

    # Accuracy comes once an epoch: send every one of them to metrics.jsonl.
    ov.require(log("accuracy"))
