"""Reads a problem folder in the platform's format, and the variant files beside it. Knows no one problem."""
