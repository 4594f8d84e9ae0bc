"""Programs that no hook sees: they count for themselves, and voirfiles tell their steps."""
