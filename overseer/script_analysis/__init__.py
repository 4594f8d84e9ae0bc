"""Static analysis of scripts: finds the training loop and writes a voirfile for it."""
