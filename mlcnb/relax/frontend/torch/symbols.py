"""Symbolic sizes of PyTorch (SymPy) as expressions of ours.

    s77 : VR[1, 64]          SizeVar s77, with the range (1, 64)
    2*s77 + 1                s77 * 2 + 1
    (s77 - 1)//2             (s77 - 1) // 2

A parameter's size 2*s77, where s77 itself is no size of one, is a variable n: s77 is n // 2.

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
from mlcnb.relax.frontend.torch import numbers

#: a bound of PyTorch's that is larger than any size stands for none
MOST = 1 << 62


class Symbols:
    """Makes expressions; one variable for each symbol.

    Args:
        ranges: symbol -> ValueRanges, as `ExportedProgram.range_constraints`.
        measure: makes a size of a float64 expression that a run has to compute and to round by the
            function that is named.
    """

    def __init__(
        self, ranges: Mapping[Any, Any], measure: Callable[[str, PrimExpr], PrimExpr]
    ) -> None:
        self.measure = measure
        self.vars: dict[str, SizeVar] = {}
        #: sizes that are computed from data, by the symbols of PyTorch
        self.found: dict[str, Any] = {}
        #: symbols that follow from a parameter's size: factor * symbol + offset is the variable
        self.lines: dict[str, tuple[SizeVar, int, int]] = {}
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

    def number(self, value: Any) -> PrimExpr:
        """A SymFloat as an expression of float64."""
        return numbers.number(value.node.expr, self.expr)

    def truth(self, e: Any) -> PrimExpr:
        """A SymPy condition on sizes."""
        name = type(e).__name__
        if name in ("BooleanTrue", "BooleanFalse"):
            return p.const(name == "BooleanTrue", "bool")
        if name in _LOGIC:
            return _LOGIC[name](*map(self.truth, e.args))
        if name not in _COMPARED or not all(a.is_integer for a in e.args):
            raise UnsupportedError(f"{e} of sizes is not translated", hint="ask with other sizes")
        return _COMPARED[name](*map(self.expr, e.args))

    def dims(self, shape: Iterable[Any]) -> tuple[Any, ...]:
        """Sizes of a shape."""
        return tuple(map(self.dim, shape))

    def parameter_dims(self, shape: Iterable[Any]) -> tuple[Any, ...]:
        """Sizes of a parameter, from which symbols follow."""
        return tuple(map(self.parameter_dim, shape))

    def parameter_dim(self, size: Any) -> Any:
        """A size of a parameter: where it is the first to say what a symbol is, a variable."""
        line = None if isinstance(size, int) else _line(size.node.expr)
        if line is None or line[0] in self.vars or line[0] in self.found:
            return self.dim(size)
        name, factor, offset = line
        var = SizeVar(self.names.fresh(f"{name}_size"), dtype("int64"))
        self.lines[name] = var, factor, offset
        self.found[name] = p.floordiv(p.subtract(var, p.const(offset, "int64")), factor)
        return var

    def expr(self, e: Any) -> Any:
        """A SymPy expression of integers."""
        if e.is_Integer:
            return p.const(int(e), "int64")
        if e.is_Symbol:
            return self.variable(str(e))
        name = type(e).__name__
        if name in _ROUNDED:
            return self.rounded(_ROUNDED[name], numbers.number(e.args[0], self.expr))
        build = _BUILD.get(name)
        if build is None:
            raise UnsupportedError(
                f"a size {e} is computed with {name}", hint="export with fixed sizes"
            )
        return build([self.expr(a) for a in e.args])

    def rounded(self, kind: str, x: PrimExpr) -> PrimExpr:
        """The whole number that a function makes of a float64 expression."""
        known = numbers.rounded(kind, x)
        return self.measure(kind, x) if known is None else known

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
        """For each variable that has to fit: what it has to be equal to, and that in words."""
        found = []
        for name, var in self.vars.items():
            inside = self.inside(name, var)
            if inside is not var:
                found.append((var, inside, self.told(name)))
        for name, (var, factor, offset) in self.lines.items():
            inside = p.multiply(self.inside(name, self.found[name]), p.const(factor, "int64"))
            told = f"{f'{factor} * ' if factor > 1 else ''}n{f' + {offset}' if offset else ''}"
            told += f", n {self.told(name)}"
            found.append((var, p.add(inside, p.const(offset, "int64")), told))
        return found

    def inside(self, name: str, value: PrimExpr) -> PrimExpr:
        """A symbol's value, moved into its range."""
        low, high = self.limits.get(name, (None, None))
        if high is not None:
            value = p.minimum(value, p.const(high, "int64"))
        if low is not None and low > 2:
            value = p.maximum(value, p.const(low, "int64"))
        return value

    def told(self, name: str) -> str:
        """A symbol's range in words."""
        low, high = self.limits.get(name, (None, None))
        return f"{low or 0} to {'any' if high is None else high}"

    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """The range of each variable by its name."""
        found = {name: self.limits.get(name, (None, None)) for name in self.vars}
        for name, (var, factor, offset) in self.lines.items():
            ends = self.limits.get(name, (None, None))
            low, high = (None if end is None else factor * end + offset for end in ends)
            found[var.name] = low, high
        return found


def symbol_name(size: Any) -> str | None:
    """The symbol that a size is, if it is no more than that."""
    expr = None if isinstance(size, int) else size.node.expr
    return str(expr) if expr is not None and expr.is_Symbol else None


def _line(e: Any) -> tuple[str, int, int] | None:
    """(s, 2, 1) of the SymPy expression 2*s + 1 of one symbol that is not found from data."""
    if e.is_Symbol or len(e.free_symbols) != 1:
        return None
    (symbol,) = e.free_symbols
    factor = e.coeff(symbol)
    offset = e - factor * symbol
    if not (factor.is_Integer and offset.is_Integer and factor > 0) or is_from_data(str(symbol)):
        return None
    return str(symbol), int(factor), int(offset)


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
    "PythonMod": _pair(p.floormod), "CeilDiv": _pair(p.ceildiv), "Max": _folded(p.maximum),
    "Min": _folded(p.minimum), "Identity": lambda a: a[0],
}  # fmt: skip
#: and what makes whole numbers of others, by the function that does
_ROUNDED = {
    "TruncToInt": "trunc", "FloorToInt": "floor", "CeilToInt": "ceil", "RoundToInt": "round",
}  # fmt: skip
_COMPARED: dict[str, Callable[[Any, Any], PrimExpr]] = {
    "StrictLessThan": p.less, "LessThan": p.less_equal, "StrictGreaterThan": p.greater,
    "GreaterThan": p.greater_equal, "Equality": p.equal, "Unequality": p.not_equal,
}  # fmt: skip
_LOGIC: dict[str, Callable[..., PrimExpr]] = {
    "And": p.all_of, "Or": p.any_of, "Not": p.logical_not,
}  # fmt: skip
