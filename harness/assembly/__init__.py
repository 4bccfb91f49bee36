"""Merges the winners of each shape into the one file that the platform takes."""
