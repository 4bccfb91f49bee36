SIZE = 3
OTHER = 20


class Holder:
    SIZE = 40
    total = OTHER

    def read(self, OTHER=OTHER):
        return self.SIZE + OTHER + SIZE


def parameter(SIZE):
    return SIZE * OTHER


def local():
    SIZE = 5
    return SIZE


def closure():
    SIZE = 6

    def inner():
        nonlocal SIZE
        SIZE += OTHER
        return SIZE

    return inner()


def called_by_keyword(data):
    return parameter(SIZE=data) + dict(SIZE=SIZE)["SIZE"] + Holder().SIZE


def in_strings():
    return f"{SIZE} {SIZE:>{OTHER}} SIZE {[SIZE for SIZE in (1, 2)]}" + "SIZE"


def comprehensions():
    return [SIZE for SIZE in range(SIZE)], {k: SIZE for k in range(SIZE)}, (lambda SIZE=SIZE: SIZE)(), (lambda: SIZE)()


def bindings(value):
    global SIZE
    with open("/dev/null") as OTHER:
        pass
    try:
        raise ValueError(value)
    except ValueError as OTHER:
        pass
    match value:
        case {"SIZE": found, **OTHER}:
            return found, OTHER
        case [OTHER, *_]:
            return OTHER
    return (OTHER := SIZE)


def custom_kernel(data):
    x = data["x"]
    results = [Holder().read(), parameter(x), local(), closure(), called_by_keyword(x), in_strings(), comprehensions()]
    return [*results, bindings({"SIZE": 1, "y": 2}), bindings([8, 9]), bindings(x)]
