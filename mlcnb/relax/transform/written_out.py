"""Reading what an exporter wrote out in small operators: `Reader` is a Mutator that sees formulas.

x * 0.5 * (1 + erf(x / 1.414))      reader.factors(…)  ->  (0.5, [x, add(erf(…), 1)])
add(c, mean(…))                     reader.with_scalar(…, Add)  ->  (mean(…), value of c)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.binary import Divide, Multiply, Power
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call, Constant, Function
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings


class Reader(Mutator):
    """Base of passes that put one operator where a formula stands. found: how many there were."""

    found = 0

    def named(self, func: Function, ctx: Any, what: str) -> Function:
        """The function with what is found named, and without what nothing uses then."""
        made = self.rewrite(func)
        ctx.note(f"{self.found} {what}")
        return func if made is func else remove_unused_bindings(made, self.functions)

    def call_of(self, x: Any, *operators: type[OpDecl]) -> Any:
        """The call that `x` is bound to, if it is of one of the operators; else None."""
        value = self.value_of(x)
        return value if called(value) in operators else None

    def with_scalar(self, x: Any, operator: type[OpDecl]) -> tuple[Any, float] | None:
        """(operand, number) where `x` is the operator on an operand and a constant number."""
        call = self.call_of(x, operator)
        if call is None:
            return None
        a, b = call.args
        if number(b) is not None and same_shape(a, x):
            return a, number(b)  # type: ignore[return-value]
        if operator.commutative and number(a) is not None and same_shape(b, x):
            return b, number(a)  # type: ignore[return-value]
        return None

    def factors(self, x: Any) -> tuple[float, list[Any]]:
        """A product as a number and the operands that are no products themselves."""
        call = self.call_of(x, Multiply, Power, Divide)
        found = (1.0, []) if call is None else self.factors_of(call)
        return found if found[1] else (1.0, [x])

    def factors_of(self, call: Call) -> tuple[float, list[Any]]:
        """The factors of a product, power or quotient; none where it is another one."""
        operator, (a, b) = called(call), call.args
        count = number(b)
        if operator is Power:
            return 1.0, [a] * int(count) if count in (2, 3) else []
        if operator is Divide:
            top, rest = self.factors(a) if count else (1.0, [])
            return (top / count, rest) if count else (1.0, [])
        parts = [(n, []) if (n := number(v)) is not None else self.factors(v) for v in (a, b)]
        return parts[0][0] * parts[1][0], [*parts[0][1], *parts[1][1]]


def number(x: Any) -> float | None:
    """The value of a constant of one element."""
    return float(x.data.item()) if isinstance(x, Constant) and x.data.size == 1 else None


def shape_of(x: Any) -> list[Any] | None:
    """The dimensions of a float32 tensor, numbers or expressions; None where they are not known."""
    info = getattr(x, "struct_info", None)
    dims = getattr(info, "dims", None)
    if dims is None or info.dtype != "float32":  # type: ignore[union-attr]
        return None
    return [d if (n := as_int(d)) is None else n for d in dims]


def dims_of(x: Any) -> list[int] | None:
    """The dimensions of a float32 tensor, all of them numbers; else None."""
    shape = shape_of(x)
    return shape if shape is not None and all(isinstance(d, int) for d in shape) else None


def same_shape(a: Any, b: Any) -> bool:
    """True if both are float32 of the same dimensions, as far as can be proved."""
    if shape_of(a) is None or shape_of(b) is None:
        return False
    return same_dims(a.struct_info.dims, b.struct_info.dims)


def order_of(call: Call) -> tuple[int, ...]:
    """The permutation of a permute_dims."""
    ndim = call.args[0].struct_info.ndim  # type: ignore[union-attr]
    return tuple(attrs_of(call).order(ndim))  # type: ignore[attr-defined]


def rewritten(func: Function, reader: Reader, ctx: Any, what: str) -> Function:
    """`func` as the reader makes it, without what nothing uses any more; tells the context.

    what: what it counts in `found`, such as "products in another order".
    """
    made = reader.rewrite(func)
    if reader.found:
        ctx.note(f"{reader.found} {what}")
    return func if made is func else remove_unused_bindings(made, reader.functions)
