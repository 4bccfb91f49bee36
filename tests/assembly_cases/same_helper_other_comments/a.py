def helper(value):
    """Doubles."""
    return 2 * value  # twice


def custom_kernel(data):
    return helper(data["x"])
