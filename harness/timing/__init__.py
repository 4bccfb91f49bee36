"""Clocks and the statistics of their samples."""
