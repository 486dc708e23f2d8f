"""CheckSizes: what operators take for granted of open dimensions is asked before they run.

    def main(x: R.Tensor((m, k)), y: R.Tensor((j, n))):
        gv = R.matmul(x, y)
->
        y_dim0 = R.match_cast(R.shape([j]), R.Shape([k]))
        gv = R.matmul(x, y)

An operator refuses dimensions that differ in every run, and lets pass what only a run can tell:
that `j` is `k`, that of `m` and `n` one is 1 or both are equal. Such a pair is noted by the
declaration's own inference (`mlcnb.op._dims.noting`). The cast of a shape to a shape is checked
once for each set of sizes, before any kernel runs, and costs no kernel anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_expr, as_int, const, equal, logical_or, select
from mlcnb.ir.structural import structural_text
from mlcnb.ir.transform import PassContext
from mlcnb.op._dims import Agreement, noting, same, tidy
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import symbolic_vars
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.emitter import size_check
from mlcnb.relax.operand_infos import operand_infos
from mlcnb.relax.operator import attrs_of, declaration
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo
from mlcnb.relax.transform.written_out import CallPass, Reader


class CheckSizes(CallPass, says="pairs of open dimensions are compared when it runs", quiet=True):
    """Check, for each set of sizes, what operators take for granted of open dimensions.

    The run then raises ExecutionError before any kernel, where the shapes of its tensors are none
    that the operators take. Fixed shapes cost nothing: they were checked when the graph was made.
    """

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """Checks before the calls that need them; functions without open dimensions stay."""
        infos = [v.struct_info for v in (*func.params, *(b.var for b in bindings_of(func)))]
        is_open = any(symbolic_vars(i) for i in infos)
        return super().transform_function(func, mod, ctx) if is_open else func


class _Checker(Reader, of=CheckSizes):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        self.asked: set[Any] = set()

    def _sequence(self, seq: Any) -> rx.SeqExpr:
        outer = self.asked  # what a branch asks, nobody has asked after it
        self.asked = set(outer)
        made = super()._sequence(seq)
        self.asked = outer
        return made

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The call as it is, after a cast for each pair that nobody compared before."""
        if isinstance(call.op, rx.Op) and declaration(call.op, missing_ok=True) is not None:
            with noting() as found:
                attrs_of(call).infer(*operand_infos(call))
            for pair in found:
                self.ask(pair, call, var)

    def visit_match_cast(self, binding: rx.MatchCast) -> None:
        """A cast of one size to another asks for them, whoever wrote it."""
        match binding:
            case rx.MatchCast(value=rx.ShapeExpr((given,)), struct_info=ShapeStructInfo((wanted,))):
                self.asked.add(_key(given, wanted))

    def ask(self, pair: Agreement, call: rx.Call, var: rx.Var) -> None:
        """Bind a cast that stops the program where the two dimensions do not agree."""
        if same(pair.a, pair.b):
            return
        first = pair.repeats == "a" or as_int(pair.b) is not None
        given, wanted = map(_size, (pair.a, pair.b) if first else (pair.b, pair.a))
        if pair.repeats != "none":
            both = pair.repeats == "either"
            free = logical_or(equal(given, 1), equal(wanted, 1)) if both else equal(given, 1)
            wanted = _size(tidy(select(free, given, wanted)))
        key = _key(given, wanted)
        if key in self.asked:
            return
        self.asked.add(key)
        self.found += 1
        kind = rx.DataflowVar if self.emitter.dataflow else rx.Var
        name = self.emitter.names.fresh(_name(call, given) or "size")
        self.emitter.bindings.append(size_check(given, wanted, name, call.span, kind))


def _size(dim: Any) -> PrimExpr:
    """A dimension as sizes are counted: numbers are of int64."""
    number = as_int(dim)
    return as_expr(dim) if number is None else const(number, "int64")


def _key(*exprs: PrimExpr) -> tuple[Any, ...]:
    names = tuple(id(v) for e in exprs for v in walk(e) if isinstance(v, PrimVar))
    return structural_text(exprs)[0], names


def _name(call: rx.Call, dim: Any) -> str | None:
    """`y_dim0`: where a dimension stands among the arguments of a call."""
    for arg, info in _tensors(call.args):
        for axis, size in enumerate(info.dims or ()):
            if same(size, dim):
                return f"{getattr(arg, 'name_hint', 'constant')}_dim{axis}"
    return None


def _tensors(args: Any) -> Iterator[tuple[Any, TensorStructInfo]]:
    for arg in args:
        if isinstance(arg, rx.Tuple):
            yield from _tensors(arg.fields)
        elif isinstance(getattr(arg, "struct_info", None), TensorStructInfo):
            yield arg, arg.struct_info
