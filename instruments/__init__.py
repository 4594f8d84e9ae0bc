"""The stock instruments: one file each."""

#: The module of each, its name there, and whether it is at work without an option.
__instruments__ = (
    ("app", "instrument_app", False),
    ("auto", "instrument_auto", True),
    ("dash", "instrument_dash", False),
    ("log", "instrument_display", False),
    ("monitoring", "instrument_monitors", True),
    ("naming", "instrument_naming", False),
    ("observe", "instrument_observe", False),
    ("on_end", "instrument_on_end", False),
    ("out_of_memory", "instrument_out_of_memory", True),
    ("rate", "instrument_rates", True),
    ("early_stop", "instrument_stop", False),
    ("tensorboard", "instrument_tensorboard", False),
    ("trace", "instrument_trace", True),
    ("verify", "instrument_verify", False),
)
