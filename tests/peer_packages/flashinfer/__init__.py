"""Stands in for flashinfer-python."""
