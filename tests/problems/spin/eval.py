"""The evaluator of this problem is the harness itself."""
