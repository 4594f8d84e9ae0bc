"""Records a timeline of the unedited main.py."""


def instrument_timeline(ov):
    yield ov.phases.load_script

    # A span for each iteration of the loop over `epoch`, and for its parts.
    ov.span("//main > #loop_epoch", "Epoch:{epoch}", channel="Digits application")
    ov.span("//train", "training", channel="Digits application")
    ov.span("//validate", "validation", channel="Digits application")

    # Two lines in one graph, and one more graph. The CPU load is recorded anyway.
    ov.probe("//train > loss")["loss"].counter("Training loss", channel="Loss")
    ov.probe("//validate > val_loss")["val_loss"].counter("Validation loss", channel="Loss")
    ov.probe("//main > accuracy").counter("Accuracy")

    # An instant at the start of each epoch.
    ov.probe("//main > epoch").instant("Epoch {epoch} begin", channel="Instant events")


def instrument_steps(ov):
    yield ov.phases.load_script

    # Steps and their rate, each on its own row.
    ov.probe("//train(batch_size, !#loop_start as step, !!#endloop_start)").give()
