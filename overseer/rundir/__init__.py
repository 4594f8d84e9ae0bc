"""The run directory: writes the files of a run, and reads them back."""
