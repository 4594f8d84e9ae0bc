"""Views: turn a run's figures into text. Views compute no figures, so they cannot disagree."""
