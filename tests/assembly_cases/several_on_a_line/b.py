two = "é"; one = two; three = [one, two][0]
second = 3
third = fourth = first = -1; rest = first
rest -= 1


def custom_kernel(data): return [one, two, three, first, second, third, fourth, rest]
