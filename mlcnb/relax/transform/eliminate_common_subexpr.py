"""EliminateCommonSubexpr: what is computed twice is computed once.

lv = R.exp(x)                         lv = R.exp(x)
lv1 = R.exp(x)              ->        lv1 = lv
gv = R.add(lv, lv1)                   gv = R.add(lv, lv)

The name of what was computed again stays bound: CanonicalizeBindings takes it away.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.expr import GlobalVar, IntImm
from mlcnb.ir.rules import rule
from mlcnb.ir.structural import structural_digest, structural_equal
from mlcnb.relax import expr as rx
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.infer import Functions, is_pure_call
from mlcnb.relax.transform.written_out import CallPass, Reader


class EliminateCommonSubexpr(
    CallPass, says="values were computed before", says_one="value was computed before", quiet=True
):
    """Compute what is computed several times once; calls with effects stay.

    Equal are calls of one operator with equal attributes on the same variables, and constants of
    one dtype, shape and content. Nothing is refused.
    """

    #: leave tuples and their fields as they are
    call_only: bool = False


def eliminate_common_subexpr(
    func: rx.Function, functions: Functions | None = None, call_only: bool = False
) -> rx.Function:
    """`func` where equal pure calls (and tuples, and fields) share one variable.

    Shapes and dtypes stay, nothing is refused; `call_only` leaves tuples and fields alone.
    """
    return _Sharing(functions, EliminateCommonSubexpr(call_only)).rewrite(func)


class _Sharing(Reader, of=EliminateCommonSubexpr):
    def __init__(self, functions: Functions | None, options: Any) -> None:
        super().__init__(functions, options)
        #: values by operator and arguments, with the variable that each is bound to
        self.seen: dict[Any, list[tuple[Any, rx.Var]]] = {}

    def visit_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """After a dataflow block its local variables are not seen any more."""
        made = super().visit_block(block)
        if block_is_dataflow(block):
            for key, found in self.seen.items():
                self.seen[key] = [f for f in found if not isinstance(f[1], rx.DataflowVar)]
            local = [v for v, new in self.remap.items() if isinstance(new, rx.DataflowVar)]
            for var in local:
                del self.remap[var]
        return made

    def _replaces(self, var: rx.Var, result: Any) -> bool:
        """No name goes: it is bound to the one that holds its value."""
        return False

    def _sequence(self, seq: Any) -> rx.SeqExpr:
        """What a branch computes is not seen outside of it."""
        outer = {key: list(found) for key, found in self.seen.items()}
        made = super()._sequence(seq)
        self.seen = outer
        return made

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The variable of an equal call before, if there is one."""
        return self.share(call, var) if is_pure_call(call, self.functions) else None

    def visit_tuple(self, value: Any, var: rx.Var) -> Any:
        """The same for tuples, and for fields of tuples."""
        return None if self.options.call_only else self.share(value, var)

    visit_item = visit_tuple

    @rule("EliminateCommonSubexpr", "equal")
    def share(self, value: Any, var: rx.Var) -> Any:
        """The variable that holds an equal value already; else keep this one for later."""
        same_parts = self.seen.setdefault(_parts(value), [])
        for known, holder in same_parts:
            if _same_attributes(known, value):
                self.found += 1
                if isinstance(holder, rx.DataflowVar) and not isinstance(var, rx.DataflowVar):
                    same_parts.append((value, var))  # the one that is seen after the block
                self._give_place(var, self.remap.get(holder, holder))
                return self.remap[var]
        same_parts.append((value, var))
        return None


def _parts(value: Any) -> Any:
    """Equal for values that have the same operator and arguments; variables count by identity."""
    kind = type(value)
    if kind is rx.Var or kind is rx.DataflowVar:
        return id(value)
    if kind is rx.Call:
        return ("call", _parts(value.op), tuple(map(_parts, value.args)))
    if kind is rx.Tuple:
        return ("tuple", tuple(map(_parts, value.fields)))
    if kind is rx.TupleGetItem:
        return ("item", _parts(value.tuple_value), value.index)
    if kind is rx.Op:
        return value.name
    if kind is rx.Constant:
        return _constant_parts(value)
    if kind is rx.ShapeExpr:
        return ("shape", tuple(d.value if type(d) is IntImm else id(d) for d in value.values))
    return value if kind is GlobalVar else (kind, structural_digest(value))


def _constant_parts(value: rx.Constant) -> Any:
    """Small constants by what they hold, large ones by identity."""
    data = value.data
    if data.size <= 64:
        return ("constant", data.dtype.str, data.shape, data.tobytes())
    return ("array", id(data))


def _same_attributes(a: Any, b: Any) -> bool:
    if not isinstance(a, rx.Call):
        return True
    return structural_equal(a.attrs, b.attrs) and structural_equal(a.sinfo_args, b.sinfo_args)
