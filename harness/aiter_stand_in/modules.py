"""The modules of aiter that the stand-in answers for; every other one, and every other name, is refused by name.

Names and places are those of aiter f3be04a12a: what its modules define, for the functions that MLA submissions call.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from harness.aiter_stand_in import api, dtypes, fp4_utils, mla, quant
from harness.aiter_stand_in.schedule import COMPUTE_UNITS


class StandInModule(ModuleType):
    """A module that holds some of the names of aiter's module and says so when asked for another."""

    def __init__(self, name: str, offered: Mapping[str, object]) -> None:
        super().__init__(name, f"What the stand-in offers of {name}, in plain torch; this is not aiter.")
        self.__harness_stand_in__ = True
        self.__all__ = sorted(offered)
        vars(self).update(offered)

    def __getattr__(self, name: str) -> object:
        offers = ", ".join(self.__all__) or "nothing by itself"
        raise AttributeError(f"the aiter stand-in has no '{name}' in {self.__name__} (it offers: {offers})")


def get_gfx() -> str:
    """The chip that the stand-in's schedules and kernels are for, whatever runs them."""
    return "gfx950"


def get_cu_num() -> int:
    """Compute units of an MI355X, whatever runs the stand-in."""
    return COMPUTE_UNITS


def _of(module: ModuleType, *names: str) -> dict[str, object]:
    return {name: getattr(module, name) for name in names}


_TRITON_QUANT = _of(quant, "dynamic_per_tensor_quant_fp8_i8", "static_per_tensor_quant_fp8_i8")

# Parents first. `aiter.dtypes` is an attribute only, as in aiter, whose module is aiter.utility.dtypes.
MODULES: dict[str, ModuleType] = {
    "aiter": api,
    "aiter.mla": mla,
    "aiter.jit": StandInModule("aiter.jit", {}),
    "aiter.jit.utils": StandInModule("aiter.jit.utils", {}),
    "aiter.jit.utils.chip_info": StandInModule(
        "aiter.jit.utils.chip_info", {"get_gfx": get_gfx, "get_cu_num": get_cu_num}
    ),
    "aiter.ops": StandInModule("aiter.ops", {}),
    "aiter.ops.attention": StandInModule(
        "aiter.ops.attention",
        _of(api, "get_mla_metadata_info_v1", "get_mla_metadata_v1", "mla_decode_stage1_asm_fwd", "mla_reduce_v1"),
    ),
    "aiter.ops.quant": StandInModule(
        "aiter.ops.quant",
        _of(
            quant,
            "dynamic_per_tensor_quant",
            "per_tensor_quant",
            "per_tensor_quant_hip",
            "per_tensor_quant_triton",
            "static_per_tensor_quant",
        ),
    ),
    "aiter.ops.triton": StandInModule("aiter.ops.triton", {}),
    "aiter.ops.triton.quant": StandInModule("aiter.ops.triton.quant", _TRITON_QUANT),
    "aiter.ops.triton.quant.quant": StandInModule("aiter.ops.triton.quant.quant", _TRITON_QUANT),
    "aiter.utility": StandInModule("aiter.utility", {}),
    "aiter.utility.dtypes": dtypes,
    "aiter.utility.fp4_utils": fp4_utils,
}


class RefuseOtherModules:
    """Answers an import of a module of aiter that is not in MODULES, once the stand-in is what aiter is."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for what is no module of aiter. Raises ModuleNotFoundError for one that the stand-in lacks."""
        if name.startswith("aiter.") and sys.modules.get("aiter") is api:
            raise ModuleNotFoundError(
                f"the aiter stand-in has no module {name} (it offers: {', '.join(MODULES)})", name=name
            )
        return None


def register() -> None:
    """Make the import system find MODULES, each as an attribute of its parent too."""
    for name, module in MODULES.items():
        parent, _, child = name.rpartition(".")
        if parent and child not in vars(MODULES[parent]):
            setattr(MODULES[parent], child, module)
        # What has a path may have submodules, so that the import system asks the finder for them.
        module.__path__ = []
        sys.modules[name] = module
    if not any(isinstance(finder, RefuseOtherModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, RefuseOtherModules())
