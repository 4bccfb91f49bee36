# Another comment.
def helper(
    value,
):
    """Other words."""
    return (2
            * value)


def custom_kernel(data):
    return helper(helper(data["x"]))
