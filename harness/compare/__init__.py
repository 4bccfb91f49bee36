"""Sound A/B of two submissions, whatever the measurement is made of: plan, run, statistics, verdict."""
