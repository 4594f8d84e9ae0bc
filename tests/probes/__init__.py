"""Probes: from a selector to events, and nothing else."""
