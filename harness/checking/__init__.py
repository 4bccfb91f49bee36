"""The two verdicts on an output: the platform's own rule, and the error against a float64 truth."""
