"""Repeated runs of a script: sides, rounds of paired processes, their machine, and the verdict."""
