"""R: the words of graph programs, for use as `from mlcnb.script import relax as R`.

    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
        with R.dataflow():
            lv = R.nn.relu(x)
            gv = R.add(lv, R.const(1.0, "float32"))
            R.output(gv)
        return gv

Operators, types and constants work outside of a program too.
"""

from __future__ import annotations

import sys
from typing import Any as _Value

from mlcnb.ir.module import IRModule
from mlcnb.script.frames import DataflowHead, FuncAttr
from mlcnb.script.parser.decorators import function, module_in
from mlcnb.script.parser.macro import macro
from mlcnb.script.relax.calls import CALLS, operators
from mlcnb.script.relax.convert import const
from mlcnb.script.relax.struct_infos import TYPES

__all__ = ["const", "dataflow", "emit", "func_attr", "function", "macro", "rewriter"]


def dataflow() -> DataflowHead:
    """Bindings that are pure and have no control flow: `with R.dataflow():`"""
    return DataflowHead()


def func_attr(attrs: dict[str, _Value]) -> FuncAttr:
    """Attributes of the function."""
    return FuncAttr(attrs)


def emit(value: _Value) -> _Value:
    """`value`: in a program every assignment binds, this word is for reading only."""
    return value


def rewriter(given: _Value) -> _Value:
    """A class with the functions `pattern` and `replacement` becomes a rewrite rule, a pass."""
    from mlcnb.relax.dpl.rewriter import PatternMatchingRewriter

    mod = given if isinstance(given, IRModule) else module_in(given, sys._getframe(1), True)
    return PatternMatchingRewriter.from_module(mod)


def __getattr__(name: str) -> _Value:
    if name.startswith("__"):
        raise AttributeError(name)
    found = TYPES.get(name) or CALLS.get(name) or operators().get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *TYPES, *CALLS, *operators()})
