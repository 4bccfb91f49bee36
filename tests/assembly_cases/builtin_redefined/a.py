def sum(values):
    return "mine"


def custom_kernel(data):
    return sum([1, 2])
