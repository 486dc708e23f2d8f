"""ArgInfo: what a parameter of a function is.

TensorInfo("float32", (64, 64))     ["TENSOR", "float32", [64, 64]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import ModelError
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.database import Workload
from mlcnb.meta_schedule.database.record import arguments
from mlcnb.tir.function import PrimFunc


class ArgInfo:
    """What a parameter is; those of a function by `from_prim_func`."""

    @staticmethod
    def from_json(json_obj: Any) -> ArgInfo:
        """The one that `as_json` wrote.

        Raises:
            ModelError: it is something else.
        """
        match json_obj:
            case ["TENSOR", str(dtype), [*shape]]:
                return TensorInfo(dtype, tuple(shape))
            case ["SCALAR", str(dtype)]:
                return ScalarInfo(dtype)
        raise ModelError(f"no argument: {json_obj!r}", hint='["TENSOR", dtype, shape]')

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[ArgInfo]:
        """Of each parameter of a function, in order."""
        return [ArgInfo.from_json(x) for x in arguments(func)]

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[ArgInfo]:
        """Of each parameter of a module's only loop function.

        Raises:
            MLCError: it has another number of them.
        """
        return ArgInfo.from_prim_func(Workload.of(mod).func)


@dataclass(frozen=True)
class TensorInfo(ArgInfo):
    """An array."""

    dtype: str
    shape: Sequence[int]

    def as_json(self) -> list[Any]:
        """["TENSOR", dtype, shape]."""
        return ["TENSOR", self.dtype, list(self.shape)]


@dataclass(frozen=True)
class ScalarInfo(ArgInfo):
    """A number."""

    dtype: str

    def as_json(self) -> list[Any]:
        """["SCALAR", dtype]."""
        return ["SCALAR", self.dtype]
