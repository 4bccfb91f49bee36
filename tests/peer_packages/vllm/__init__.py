"""Stands in for vLLM."""
