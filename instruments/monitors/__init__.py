"""Monitors: machine, processes, GPUs; :mod:`..sampling` calls them."""
