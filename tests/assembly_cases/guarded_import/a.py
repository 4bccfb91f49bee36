try:
    import no_such_package_here
    from no_such_package_here import kernel
except ImportError as error:
    no_such_package_here = None
    kernel = None

if no_such_package_here is None:
    MODE = "missing"
else:
    MODE = "there"


def custom_kernel(data):
    return MODE, kernel
