"""The calls whose effect the merge knows: those that only compute a value, and those that make a fresh object."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Calls that give a value that nobody can change afterwards.
CONSTANT_CALLS = _words(
    """
    abs bool bytes complex divmod float format frozenset getattr hasattr hash int isinstance issubclass len max min
    ord chr pow range repr round slice str sum tuple any all next type object property staticmethod classmethod super
    TypeError ValueError RuntimeError
    triton.cdiv triton.next_power_of_2 triton.Config triton.autotune triton.heuristics triton.jit
    torch.device torch.finfo torch.iinfo torch.Size torch.cuda.is_available torch.torch_version.TorchVersion
    torch.no_grad torch.inference_mode
    re.compile functools.lru_cache functools.cache functools.wraps collections.namedtuple enum.auto
    importlib.util.find_spec importlib.metadata.version inspect.signature os.environ.get os.getenv textwrap.dedent
    operator.itemgetter operator.attrgetter pathlib.Path fractions.Fraction struct.calcsize
    """
)
_CONSTANT_MODULES = (
    "math.", "typing.", "dataclasses.", "torch.library.", "triton.language.", "triton.experimental.gluon.language.",
)  # fmt: skip
# Calls that give a fresh object that can change, iterators among them.
FRESH_CALLS = _words(
    """
    dict list set bytearray sorted enumerate filter iter map reversed zip itertools.chain itertools.count
    itertools.product functools.partial torch.compile threading.Lock threading.RLock threading.local
    collections.OrderedDict collections.defaultdict collections.deque collections.Counter weakref.WeakKeyDictionary
    weakref.WeakValueDictionary weakref.ref types.SimpleNamespace copy.copy copy.deepcopy
    """
)
TEXT_METHODS = _words(
    """
    capitalize decode encode endswith find format index isdigit join ljust lower lstrip partition removeprefix
    removesuffix replace rjust rpartition rsplit rstrip split splitlines startswith strip upper zfill
    """
)
TEXT_METHODS_GIVING_LISTS = _words("partition rpartition rsplit split splitlines")
CONTAINER_METHODS = _words("append add copy count extend get insert items keys setdefault update values")
# Methods of a `torch.library.Library`.
LIBRARY_METHODS = _words("define impl fallback")
READING_CALLS = _words("len tuple sorted max min sum any all enumerate zip frozenset isinstance")
READING_METHODS = _words("get keys values items index count")


def is_constant_call(name: str | None) -> bool:
    """Whether a call of this full name only computes a value."""
    return name is not None and (name in CONSTANT_CALLS or name.startswith(_CONSTANT_MODULES))
