"""The commands: each parses its options, calls one room, prints, and returns a code."""
