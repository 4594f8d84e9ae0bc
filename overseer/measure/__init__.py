"""What a run's events mean: steps, rates, shares, pauses, steady state; pure, time injected."""
