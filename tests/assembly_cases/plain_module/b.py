from shared import pure, scaled


def work(value):
    return pure(scaled(value)[1])


def custom_kernel(data):
    return work(data["x"])
