"""What the machine, the script's processes and GPUs do: one file a kind; see :mod:`..sampling`."""
