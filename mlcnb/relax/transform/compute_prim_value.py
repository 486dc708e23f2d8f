"""ComputePrimValue: scalars that are computed from sizes come from loop functions.

_ = R.assert_op(R.prim_value(n % 16 == 0))
->
scalar = cls.compute_symbolic_expr(R.prim_value(n))      def compute_symbolic_expr(n: T.int64):
_ = R.assert_op(scalar)                                      T.ret(n % 16 == 0)

A virtual machine that holds sizes as numbers, and computes nothing with them, can run what is left.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict, identical, replace, rewrite
from mlcnb.ir.expr import FloatImm, IntImm, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.relax.analysis.struct_info import symbolic_vars
from mlcnb.relax.expr import Call, If, PrimValue, Tuple, Var
from mlcnb.relax.transform.written_out import Reader, TablePass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.op import ret
from mlcnb.tir.stmt import Evaluate


class ComputePrimValue(TablePass, says="scalars are computed", quiet=True):
    """Compute scalar expressions by loop functions, in graph functions; dimensions stay.

    Scalars of any dtype; the sizes that they are made of are handed over one by one. Nothing is
    refused.
    """


class _Computer(Reader, of=ComputePrimValue):
    """Every scalar that is neither a number nor a size alone."""

    def visit_leaf(self, leaf: Any, var: Var) -> Any:
        """The call that computes a scalar that is bound."""
        return self.computed(leaf.value) if _is_computed(leaf) else None

    def visit_call(self, call: Call, var: Var) -> Any:
        """The call on scalars that are computed before it."""
        args = tuple(map(self.argument, call.args))
        if identical(args, call.args):
            return None
        return Call(call.op, args, call.attrs, call.sinfo_args, None, call.span)

    def visit_tuple(self, value: Tuple, var: Var) -> Any:
        """The tuple of scalars that are computed before it."""
        new = self.argument(value)
        return None if new is value else new

    def visit_if(self, choice: If, var: Var) -> Any:
        """The choice by a condition that is computed before it."""
        new = replace(choice, cond=self.argument(choice.cond))
        return None if new is choice else new

    def argument(self, x: Any) -> Any:
        """An argument; what is computed in it is bound to a variable."""
        if isinstance(x, Tuple):
            return replace(x, fields=tuple(map(self.argument, x.fields)))
        return self.emit(self.computed(x.value), "scalar") if _is_computed(x) else x

    def computed(self, value: PrimExpr) -> Call:
        """The call of a function that computes the expression from the sizes that it mentions."""
        self.found += 1
        sizes = symbolic_vars(value)
        own: dict[Any, Any] = {v: PrimVar(v.name, v.dtype) for v in sizes}
        body = Evaluate(ret(rewrite(value, lambda n: own.get(n))))
        attrs = FrozenDict({"tir.is_host_func": True})
        func = PrimFunc(tuple(own.values()), body, ret_type=str(value.dtype), attrs=attrs)
        key = self.table.add_shared(func, "compute_symbolic_expr")
        return Call(key, tuple(map(PrimValue, sizes)))


def _is_computed(x: Any) -> bool:
    return isinstance(x, PrimValue) and not isinstance(x.value, IntImm | FloatImm | PrimVar)
