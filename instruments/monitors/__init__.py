"""What the machine, the script's processes and GPUs do while the script runs, sampled on timers."""
