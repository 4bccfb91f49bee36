"""Every measurement that was made here, kept in one SQLite file beside the problem."""
