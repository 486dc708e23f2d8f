"""Kernels that the reference interpreter runs: target="interp", to be right, not fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.codegen.interp.program import run_prim_func
from mlcnb.codegen.kernel import Kernel, signature_of
from mlcnb.ir.expr import Var
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc


class InterpretedKernel(Kernel):
    """A PrimFunc run element by element, every access checked against its buffer."""

    def __init__(self, name: str, func: PrimFunc) -> None:
        self.name = name
        self.func = self.scheduled = func
        self.signature = signature_of(func, 0)

    def run(self, args: Sequence[Any], dims: Mapping[Var, int]) -> Any:
        """Run on arrays (written in place) and scalars; the sizes are read from the arrays."""
        return run_prim_func(self.func, list(args))


def build(
    funcs: Mapping[str, PrimFunc],
    _target: Target,
    schedule: Any = None,
    progress: Callable[[float], Any] | None = None,
    **_host: Any,
) -> dict[str, InterpretedKernel]:
    """Kernels of PrimFuncs, which run as they are written: nothing is scheduled."""
    return {name: InterpretedKernel(name, func) for name, func in funcs.items()}
