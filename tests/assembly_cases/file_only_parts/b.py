VARIANT = {"shapes": "any", "targets": ["portable"], "kv": {"keys": "fp8", "values": "bf16"}}


def entry_for(data):
    return data["x"]


def _a(data):
    return entry_for(data)


def custom_kernel(data):
    return _a(data)
