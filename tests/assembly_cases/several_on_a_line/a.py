one = 1; two = "é;ü"; three = (one,
    2)  # three
import math; root = math.sqrt(4)
first = second = 5
(third, fourth), *rest = (6, 7), 8, 9
first += 1


def custom_kernel(data): return [one, two, three, root, first, second, third, fourth, rest]
