from shared import pure, scaled as work

SCALE = 3.0


def custom_kernel(data):
    return work(data["x"]), pure(SCALE)
