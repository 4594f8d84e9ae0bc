"""Views: a run's figures in, text out. None computes a figure, so no two contradict each other."""
