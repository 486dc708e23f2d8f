"""SimplifyOps: operators that do nothing, or undo each other, go.

lv = R.nn.dropout(x)[0]                          ->   x
lv = R.permute_dims(x, axes=[1, 0])
lv1 = R.permute_dims(lv, axes=[1, 0])            ->   x
lv = R.reshape(R.reshape(x, (6,)), (2, 3))       ->   R.reshape(x, (2, 3))
lv = R.multiply(x, R.const(1.0))                 ->   x

What one operator alone can say stands in its declaration (`simplified`), and what follows from a
trait (`view`, `neutral`, `idempotent`) here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.rules import rule
from mlcnb.ir.structural import structural_equal
from mlcnb.op import load_all
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call, Constant, Var
from mlcnb.relax.operator import OpDecl, attrs_of, called, with_operand
from mlcnb.relax.transform.written_out import CallPass, Reader


class SimplifyOps(
    CallPass,
    says="operators simplified",
    says_one="operator simplified",
    quiet=True,
    prunes=True,
):
    """Remove operators that do nothing, and pairs that undo each other.

    The result has the shape and dtype that were there: `x * 1` of another shape, or of an integer
    and a float, stays. Nothing is refused.
    """


load_all()  # the rules of declarations are known with those that stand here


class _Simplifier(Reader, of=SimplifyOps):
    def visit_call(self, call: Call, var: Var) -> Any:
        """By the operator's declaration, then by its traits; once, in the order of the bindings."""
        operator = called(call)
        if operator is OpDecl:
            return None
        new = attrs_of(call).simplified(call, self.value_of)
        if new is None and operator.view:
            new = _reshape(self, call)
        if new is None and operator.neutral is not None:
            new = _neutral(call, operator)
        if new is None and operator.idempotent:
            new = _idempotent(self, call)
        self.found += new is not None
        return new

    visit_item = Reader.made_field


@rule("SimplifyOps")
def _reshape(s: _Simplifier, call: Call) -> Any:
    """To the shape that is there; of a view: only the last shape counts."""
    x: Any = call.args[0]
    before = s.value_of(x)
    if same_known(x.struct_info, call.struct_info):
        return x
    if not called(before).view:
        return None
    if same_known(before.args[0].struct_info, call.struct_info):
        return before.args[0]
    return with_operand(call, before) if called(call).shape_argument else None


@rule("SimplifyOps")
def _neutral(call: Call, operator: type[OpDecl]) -> Any:
    """x + 0, x - 0, x * 1, x / 1 and x ** 1 are x."""
    a, b = call.args
    for x, other in ((a, b), (b, a))[: 1 + operator.commutative]:
        if _is_full_of(other, operator.neutral) and same_known(x.struct_info, call.struct_info):
            return x
    return None


def _is_full_of(x: Any, value: Any) -> bool:
    """True for a constant whose elements all are `value` (looked for in small ones only)."""
    return isinstance(x, Constant) and 0 < x.data.size <= 4096 and bool(np.all(x.data == value))


@rule("SimplifyOps")
def _idempotent(s: _Simplifier, call: Call) -> Any:
    """relu of a relu."""
    before = s.value_of(call.args[0])
    if called(before) is not called(call):
        return None
    same = before.attrs is call.attrs or structural_equal(before.attrs, call.attrs)
    return call.args[0] if same else None
