"""Runs as a script too."""

VARIANT = {"shapes": ["1"], "targets": ["portable"], "kv": "fp8"}
__all__ = ["custom_kernel"]


def custom_kernel(data):
    return VARIANT["kv"]


if __name__ == "__main__":
    print(custom_kernel(None))
