"""Kernels that the reference interpreter runs: target="interp", to be right, not fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.codegen.llvm.emit.kernel import Signature, signature_of
from mlcnb.core import display
from mlcnb.tir.function import PrimFunc


class InterpretedKernel:
    """A PrimFunc run element by element, every access checked against its buffer."""

    def __init__(self, name: str, func: PrimFunc) -> None:
        self.name = name
        self.func = func

    @property
    def signature(self) -> Signature:
        """Its parameters."""
        return signature_of(self.func, 0)

    @property
    def scheduled(self) -> PrimFunc:
        """The PrimFunc itself: the interpreter runs loops as written."""
        return self.func

    def run(self, args: Sequence[Any], record: Any = None) -> Any:
        """Run on arrays (written in place) and scalars; `record` receives every access."""
        from mlcnb.codegen.interp import run_prim_func

        return run_prim_func(self.func, list(args), record=record)

    def __repr__(self) -> str:
        return display.text(self)
