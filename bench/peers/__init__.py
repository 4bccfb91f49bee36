"""Public MLA decode kernels, each behind a submission file, timed and judged by the harness like any other."""
