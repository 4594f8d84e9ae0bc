"""Measures a run: drains the recorder's ring, folds events into steps, passes these to readers."""
