"""Symbolic sizes of PyTorch (SymPy) as expressions of ours.

    s77 : VR[1, 64]          SizeVar s77, with the range (1, 64)
    2*s77 + 1                s77 * 2 + 1
    (s77 - 1)//2             (s77 - 1) // 2

Ranges are what export proved with: sizes outside of them may take another path through the model,
so they are asked for when the program runs. Below 2 PyTorch itself does not ask: 0 and 1 are inside
where the lower end is 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from mlcnb.core.errors import UnsupportedError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, SizeVar
from mlcnb.relax.emitter import Names

#: a bound of PyTorch's that is larger than any size stands for none
MOST = 1 << 62


class Symbols:
    """Makes expressions; one variable for each symbol.

    Args:
        ranges: symbol -> ValueRanges, as `ExportedProgram.range_constraints`.
    """

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self.vars: dict[str, SizeVar] = {}
        #: sizes that are computed from data, by the symbols of PyTorch
        self.found: dict[str, Any] = {}
        self.names = Names()
        self.limits = {str(s): (_bound(r.lower), _bound(r.upper)) for s, r in ranges.items()}

    def dim(self, value: Any) -> Any:
        """A size (int or SymInt) as an int, or a PrimExpr where it is symbolic.

        Raises:
            UnsupportedError: it is computed from data, or in a way that is not translated.
        """
        if isinstance(value, int):
            return value
        made = self.expr(value.node.expr)
        known = p.as_int(made)
        return made if known is None else known

    def dims(self, shape: Iterable[Any]) -> tuple[Any, ...]:
        """Sizes of a shape."""
        return tuple(map(self.dim, shape))

    def expr(self, e: Any) -> Any:
        """A SymPy expression of integers."""
        if e.is_Integer:
            return p.const(int(e), "int64")
        if e.is_Symbol:
            return self.variable(str(e))
        build = _BUILD.get(type(e).__name__)
        if build is None:
            raise UnsupportedError(
                f"a size {e} is computed with {type(e).__name__}", hint="export with fixed sizes"
            )
        return build([self.expr(a) for a in e.args])

    def learn(self, size: Any, dim: Any) -> None:
        """A size that PyTorch leaves to the run is `dim`, unless another was met before."""
        name = symbol_name(size)
        if name is not None and is_from_data(name):
            self.found.setdefault(name, dim)

    def learned_dims(self, shape: Iterable[Any], have: Iterable[Any]) -> list[Any]:
        """`have`, with what is known of sizes that PyTorch leaves to the run in their place."""
        pairs = zip(shape, have, strict=True)
        return [self.found.get(symbol_name(size) or "", dim) for size, dim in pairs]

    def variable(self, name: str) -> Any:
        """The variable of a symbol, or what a run finds it to be.

        Raises:
            UnsupportedError: the symbol is known only when the model runs.
        """
        if name in self.found:
            return self.found[name]
        if is_from_data(name):
            raise UnsupportedError(
                f"the size {name} is computed from data",
                hint="sizes follow from the shapes of inputs",
            )
        if name not in self.vars:
            self.vars[name] = SizeVar(self.names.fresh(name), dtype("int64"))
        return self.vars[name]

    def checks(self) -> list[tuple[SizeVar, PrimExpr, str]]:
        """For each variable with a range: what it has to be equal to, and the range in words."""
        found = []
        for name, var in self.vars.items():
            low, high = self.limits.get(name, (None, None))
            inside: PrimExpr = var
            if high is not None:
                inside = p.minimum(inside, p.const(high, "int64"))
            if low is not None and low > 2:
                inside = p.maximum(inside, p.const(low, "int64"))
            if inside is not var:
                found.append((var, inside, f"{low or 0} to {'any' if high is None else high}"))
        return found


def symbol_name(size: Any) -> str | None:
    """The symbol that a size is, if it is no more than that."""
    expr = None if isinstance(size, int) else size.node.expr
    return str(expr) if expr is not None and expr.is_Symbol else None


def is_from_data(name: str) -> bool:
    """True for a symbol of a size that PyTorch cannot know before the model runs."""
    return name[0] in "uz" and name[1:].isdigit()


def _bound(value: Any) -> int | None:
    """An end of a range as an int; None for infinity."""
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return whole if abs(whole) < MOST else None


def _folded(fn: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda args: reduce(fn, args)


def _power(args: list[Any]) -> Any:
    base, exponent = args
    count = p.as_int(exponent)
    if count is None or not 0 < count < 8:
        raise UnsupportedError(
            "a size is raised to a power that is not small", hint="fix the sizes"
        )
    return reduce(p.multiply, [base] * count)


def _pair(fn: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda args: fn(args[0], args[1])


#: class of SymPy (or of torch.utils._sympy.functions) -> from its arguments
_BUILD: dict[str, Callable[[list[Any]], Any]] = {
    "Add": _folded(p.add), "Mul": _folded(p.multiply), "Pow": _power, "PowByNatural": _power,
    "FloorDiv": _pair(p.floordiv), "CleanDiv": _pair(p.floordiv), "Mod": _pair(p.floormod),
    "PythonMod": _pair(p.floormod), "CeilDiv": _pair(p.ceildiv), "CeilToInt": lambda a: a[0],
    "Max": _folded(p.maximum), "Min": _folded(p.minimum), "Identity": lambda a: a[0],
}  # fmt: skip
