"""What calls do with the tensors they get, as far as the data-flow rules need it."""

from __future__ import annotations

# Methods whose result is the tensor itself, a view of it or a plain copy, and reads of containers.
SAME_METHODS = frozenset({
    "view", "reshape", "contiguous", "clone", "detach", "squeeze", "unsqueeze", "transpose", "permute", "narrow",
    "expand", "expand_as", "flatten", "unflatten", "to", "float", "half", "bfloat16", "double", "type", "type_as",
    "t", "swapaxes", "swapdims", "movedim", "view_as", "select", "unfold", "cuda", "cpu", "chunk", "split",
    "tensor_split", "unbind", "split_with_sizes", "as_strided", "requires_grad_", "copy", "values", "items",
    "__getitem__", "pop", "popleft", "popitem", "get", "setdefault",
})  # fmt: skip
# Methods that put something into a container.
STORING_METHODS = frozenset({
    "append", "appendleft", "insert", "add", "update", "extend", "setdefault", "__setitem__", "put",
})  # fmt: skip
# Methods that only look.
READING_METHODS = frozenset({
    "size", "stride", "numel", "dim", "item", "tolist", "element_size", "storage_offset",
    "is_contiguous", "nelement", "sum", "max", "min", "amax", "amin", "any", "all", "abs", "mean", "norm", "equal",
    "eq", "ne", "keys", "__len__", "__contains__", "count", "index", "tobytes", "__eq__", "new_empty",
    "new_zeros", "new_full", "new_tensor", "clear", "move_to_end", "ndimension", "get_device",
})  # fmt: skip
# Methods that give the memory itself away: whoever gets it may write into the tensor.
POINTER_METHODS = frozenset({"data_ptr", "untyped_storage", "storage", "numpy", "__dlpack__"})
# Attributes that describe a tensor rather than hold data.
DESCRIBING_ATTRIBUTES = frozenset({
    "shape", "dtype", "device", "ndim", "layout", "is_cuda", "itemsize", "nbytes", "names", "requires_grad",
    "_version",
})  # fmt: skip
SAME_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data"})
# Functions that give back their first argument, a view or a copy of it.
SAME_FUNCTIONS = frozenset({
    "tuple", "list", "dict", "iter", "next", "reversed", "enumerate", "sorted", "zip", "copy.copy", "copy.deepcopy",
    "torch.clone", "torch.reshape", "torch.transpose", "torch.permute", "torch.squeeze", "torch.unsqueeze",
    "torch.as_tensor", "torch.detach", "torch.narrow", "torch.flatten", "torch.as_strided", "torch.split",
    "torch.chunk", "torch.unbind", "torch.select", "torch.swapaxes", "torch.movedim", "typing.cast",
})  # fmt: skip
# Functions of these modules write only into `out=`; a trailing underscore marks those that write in place.
_PURE_MODULES = frozenset({
    "torch", "math", "functools", "operator", "itertools", "numpy", "time", "os", "sys", "warnings", "logging",
    "hashlib", "struct", "inspect", "json", "re", "collections", "dataclasses", "typing",
})  # fmt: skip
_WRITING_PREFIXES = ("torch.ops.", "torch.library.", "torch.utils.", "torch.compile", "torch._C.", "torch.distributed.")
PURE_BUILTINS = frozenset({
    "len", "int", "float", "bool", "isinstance", "issubclass", "type", "hash", "id", "print", "str", "repr", "min",
    "max", "sum", "any", "all", "range", "hasattr", "abs", "divmod", "round", "callable", "set", "frozenset", "slice",
    "bytes", "format", "ord", "chr", "pow", "super", "map", "filter",
})  # fmt: skip


def only_reads(called: str) -> bool:
    """Whether a library function leaves its arguments as they are (but for `out=`)."""
    if called in PURE_BUILTINS:
        return True
    if called.startswith(_WRITING_PREFIXES) or (called.endswith("_") and not called.endswith("__")):
        return False
    return called.partition(".")[0] in _PURE_MODULES and "." in called
