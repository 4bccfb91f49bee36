"""The vendors' profilers: their command lines, their output read back, and one short table of it."""
