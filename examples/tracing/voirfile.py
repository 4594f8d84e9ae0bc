"""The timeline of main.py, which knows nothing of it."""


def instrument_timeline(ov):
    yield ov.phases.load_script

    # A span for each turn of the loop over `epoch`, and for what happens in it.
    ov.span("//main > #loop_epoch", "Epoch:{epoch}", channel="Digits application")
    ov.span("//train", "training", channel="Digits application")
    ov.span("//validate", "validation", channel="Digits application")

    # Two lines in one graph, and a graph by itself. The load of the processors is there anyway.
    ov.probe("//train > loss")["loss"].counter("Training loss", channel="Loss")
    ov.probe("//validate > val_loss")["val_loss"].counter("Validation loss", channel="Loss")
    ov.probe("//main > accuracy").counter("Accuracy")

    # A flag at the beginning of each epoch.
    ov.probe("//main > epoch").instant("Epoch {epoch} begin", channel="Instant events")


def instrument_steps(ov):
    yield ov.phases.load_script

    # Steps and their rate; each lies on a row of its own.
    ov.probe("//train(batch_size, !#loop_start as step, !!#endloop_start)").give()
