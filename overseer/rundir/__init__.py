"""The run directory: what a run leaves behind, and reading it back."""
