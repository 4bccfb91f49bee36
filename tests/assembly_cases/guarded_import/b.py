try:
    import math as no_such_package_here
    from math import sqrt as kernel
except ImportError as error:
    no_such_package_here = None
    kernel = None


def custom_kernel(data):
    return no_such_package_here.pi, kernel(data["x"])
