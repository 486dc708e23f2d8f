"""FoldConstant: what is known before the program runs is computed now.

lv = R.permute_dims(metadata["relax.expr.Constant"][0], axes=[1, 0])
lv1 = R.matmul(x, lv)                        ->       lv1 = R.matmul(x, metadata[…][0])

lv = R.shape_of(x)     # x: (n, 4)           ->       R.shape([n, 4]) in its place

Operators are evaluated by what their declarations say in NumPy; a call_tir of constants by the
interpreter, where it is small. What would grow far beyond its operands (`R.zeros((4096, 4096))`)
stays a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core import options
from mlcnb.core.errors import MLCError
from mlcnb.core.node import rewrite
from mlcnb.core.text import plural
from mlcnb.ir.expr import IntImm
from mlcnb.ir.expr import Var as SizeVar
from mlcnb.ir.memory import aligned
from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.span import Span
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.shape import ShapeOf
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import nbytes, static_shape
from mlcnb.relax.analysis.variables import leaves
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.numpy_call import call_numpy, value_of
from mlcnb.relax.operator import called, declaration
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo, parts_of
from mlcnb.tir.analysis.structure import work
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore

#: results up to this many bytes are folded whatever their operands are
SMALL = 1 << 16
#: results may be this many times larger than their operands together
GROWTH = 8
#: a call_tir is interpreted up to this many operations
INTERPRETED = 50_000


def fold_constant(
    func: rx.Function, functions: Functions | None = None, max_tensor_bytes: int | None = None
) -> rx.Function:
    """`func` with calls of constants evaluated.

    Shapes have to be numbers; what cannot be evaluated stays a call, nothing is refused.

    Args:
        func: the function.
        functions: what GlobalVars name: the PrimFuncs of call_tir.
        max_tensor_bytes: no larger tensor is made (the option of that name if None).
    """
    return _Folder(functions, max_tensor_bytes).rewrite(func)


class _Folder(Mutator):
    def __init__(self, functions: Functions | None, max_tensor_bytes: int | None) -> None:
        super().__init__(functions)
        limit = options.get("max_tensor_bytes") if max_tensor_bytes is None else max_tensor_bytes
        self.limit: int = limit
        self.folded = 0
        self.refused: list[str] = []

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The value of a call whose operands are all known."""
        if not isinstance(call.op, rx.Op):
            return None
        if called(call) is ShapeOf:
            return self.known_shape(call)
        if not all(self.is_known(leaf) for arg in call.args for leaf in leaves(arg)):
            return None
        if call.op.name == "relax.call_tir":
            return self.fold(call, self.run_prim_func)
        decl = declaration(call.op, missing_ok=True)
        if decl is None or not decl.pure or not self.is_modest(call):
            return None
        return self.fold(call, self.run_numpy)

    @rule("FoldConstant", "branch")
    def visit_if(self, choice: rx.If, var: rx.Var) -> Any:
        """The branch that is taken, where the condition is known."""
        if not isinstance(choice.cond, rx.Constant):
            return None
        return self.count(choice.true_branch if choice.cond.data.all() else choice.false_branch)

    def visit_leaf(self, leaf: Any, var: rx.Var) -> Any:
        """A constant or a shape takes the place of its name."""
        return leaf if isinstance(leaf, rx.Constant | rx.ShapeExpr) else None

    def visit_item(self, item: rx.TupleGetItem, var: rx.Var) -> Any:
        """A field that is a constant."""
        value = self.value_of(item.tuple_value)
        field = value.fields[item.index] if isinstance(value, rx.Tuple) else None
        return field if isinstance(field, rx.Constant) else None

    @rule("FoldConstant")
    def known_shape(self, call: rx.Call) -> Any:
        """`shape_of` of a tensor whose dimensions are known."""
        info = call.args[0].struct_info
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        return None if dims is None else self.count(rx.ShapeExpr(dims))

    def is_known(self, leaf: Any) -> bool:
        """True for constants, and for shapes and scalars without symbolic variables."""
        if isinstance(leaf, rx.ShapeExpr):
            return all(isinstance(d, IntImm) for d in leaf.values)
        if isinstance(leaf, rx.PrimValue):
            return isinstance(getattr(leaf.value, "value", None), int | float)
        if isinstance(leaf, rx.Var):
            return isinstance(self.value_of(leaf), rx.Tuple) and all(
                self.is_known(f) for f in self.value_of(leaf).fields
            )
        return True

    def is_modest(self, call: rx.Call) -> bool:
        """The result is small, not much larger than the operands, or prepared for what reads it."""
        given = sum(leaf.data.nbytes for leaf in _constants(call))
        made = _bytes_of(call.struct_info)
        if made is None:
            return given <= SMALL
        fits = made <= max(SMALL, GROWTH * given) or called(call).prepares
        return made <= self.limit and fits

    @rule("FoldConstant", "call")
    def fold(self, call: rx.Call, run: Any) -> Any:
        """The result as a constant; None where the evaluation is refused."""
        try:
            result = run(call)
        except (MLCError, ArithmeticError, LookupError, ValueError, NotImplementedError) as error:
            name = getattr(call.op, "name", "call").removeprefix("relax.")
            self.refused.append(f"{name}: {error}".splitlines()[0])
            return None
        return None if result is None else self.count(_as_expr(result, call))

    def count(self, expr: Any) -> Any:
        """One more was folded."""
        self.folded += 1
        return expr

    def run_numpy(self, call: rx.Call) -> Any:
        """By the operator's meaning."""
        return call_numpy(call, self.look_up)

    def look_up(self, leaf: Any) -> Any:
        """The value of a variable that is bound to a tuple of constants."""
        return value_of(self.value_of(leaf), self.look_up, {})

    def run_prim_func(self, call: rx.Call) -> Any:
        """By the interpreter, where it is small; None where it is not."""
        func: Any = self.functions.get(call.args[0])  # type: ignore[call-overload]
        infos = parts_of(call.sinfo_args[0])
        if not isinstance(func, PrimFunc) or any(static_shape(i) is None for i in infos):
            return None
        outputs = [np.empty(static_shape(i) or (), i.dtype.numpy) for i in infos]
        inputs = value_of(call.args[1], self.look_up, {})
        body = _of_sizes(func, [*inputs, *outputs])
        if work(body, INTERPRETED, lambda n: isinstance(n, BufferStore)) > INTERPRETED:
            return None
        from mlcnb.codegen.interp import run_prim_func

        scalars = value_of(call.args[2], self.look_up, {}) if len(call.args) > 2 else ()
        run_prim_func(func, [*inputs, *outputs, *scalars])
        several = isinstance(call.sinfo_args[0], TupleStructInfo)
        return tuple(outputs) if several else outputs[0]


def _of_sizes(func: PrimFunc, arrays: list[Any]) -> Any:
    """The body, with the symbolic sizes that the shapes of its buffers tell."""
    sizes: dict[Any, IntImm] = {}
    for param, array in zip(func.params, arrays, strict=False):
        buffer = func.buffer_map.get(param)
        for dim, count in zip(() if buffer is None else buffer.shape, array.shape, strict=False):
            if isinstance(dim, SizeVar):
                sizes[dim] = IntImm(dim.dtype, count)
    if not sizes:
        return func.body
    return rewrite(func.body, lambda n: sizes.get(n) if isinstance(n, SizeVar) else None)


def _constants(call: rx.Call) -> list[rx.Constant]:
    return [n for arg in call.args for n in leaves(arg) if isinstance(n, rx.Constant)]


def _bytes_of(info: Any) -> int | None:
    """Bytes of a result; shapes count as nothing."""
    if isinstance(info, ShapeStructInfo):
        return 0
    return nbytes(info) if isinstance(info, TensorStructInfo | TupleStructInfo) else None


def _as_expr(result: Any, call: rx.Call) -> Any:
    """An evaluated result as an expression."""
    if isinstance(call.struct_info, ShapeStructInfo):
        return rx.shape_expr(result)
    if isinstance(result, tuple):
        return rx.Tuple(tuple(_adopted(r, None) for r in result))
    return _adopted(result, call.span)


def _adopted(result: Any, span: Span | None) -> rx.Constant:
    """A constant that takes over a result, or a view of another constant, without a copy."""
    array = aligned(np.asarray(result)).view()
    array.flags.writeable = False
    return rx.Constant(array, span)


class FoldConstant(FunctionPass):
    """Compute what only depends on constants.

    Shapes have to be numbers (what shape_of gives may be symbolic). What is larger than
    `max_tensor_bytes`, grows to more than 8 times its operands and 64 KB (where that does not
    prepare it for what reads it), or is a call_tir of more than 50,000 operations, stays a call; an
    operator that refuses its arguments is left for the run to raise.
    """

    #: no larger tensor is made; None: the option `max_tensor_bytes`
    max_tensor_bytes: int | None = None

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """See `fold_constant`."""
        folder = _Folder(mod.functions, self.max_tensor_bytes)
        made = folder.rewrite(func)
        if folder.folded:
            ctx.note(f"folded {plural(folder.folded, 'call')}")
        for why in folder.refused:
            ctx.note(f"not folded: {why}")
        return made
