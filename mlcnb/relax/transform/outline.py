"""Outline: some bindings as a function of what they need from outside.

lv = R.matmul(x, w)                 def outlined(x, w):
gv = R.nn.relu(lv)           ->         with R.dataflow():
                                            lv = R.matmul(x, w)
                                            gv = R.nn.relu(lv)
                                        return gv

Symbolic sizes that no argument's shape defines come as one shape, the last parameter; inside, all
symbolic sizes are new. `ordered` puts bindings in an order in which each comes after what it uses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.structural import structural_equal
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import definable_vars, substitute, symbolic_vars
from mlcnb.relax.analysis.variables import leaves, value_uses
from mlcnb.relax.emitter import Names
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.struct_info import ShapeStructInfo, TupleStructInfo


class Outline:
    """A function of bindings.

    Args:
        bindings: in order.
        outputs: those of their variables that the function returns; of several a tuple.
        bind_constants: constants stand in the function; else they are arguments.
        attrs: of the function.

    Attributes:
        func: the function.
        args: what it is to be called with.
    """

    def __init__(
        self,
        bindings: Sequence[rx.Binding],
        outputs: Sequence[rx.Var],
        bind_constants: bool,
        attrs: Mapping[str, Any],
    ) -> None:
        self.bind_constants = bind_constants
        self.outputs = outputs
        self.values: dict[Any, Any] = {}
        self.params: list[rx.Var] = []
        self.args: list[Any] = []
        self.names = Names()
        self.symbols = {v: type(v)(v.name, v.dtype) for v in _symbols(bindings)}
        copies = tuple(map(self.copied, bindings))
        self.shape_parameter()
        results = tuple(self.values[v] for v in outputs)
        body = results[0] if len(results) == 1 else rx.Tuple(results)
        whole = rx.SeqExpr((rx.DataflowBlock(copies),), body)
        made = FrozenDict(attrs)
        self.func = rx.Function(tuple(self.params), whole, body.struct_info, True, made)

    def copied(self, binding: rx.Binding) -> rx.Binding:
        """A binding over local variables."""
        return self.bound(binding, self.local(binding.value), binding.var.name_hint)

    def bound(self, binding: rx.Binding, value: Any, name: str) -> rx.Binding:
        """A local value, bound to what stands for a binding's variable."""
        info = substitute(binding.var.struct_info, self.symbols)
        kind = rx.Var if binding.var in self.outputs else rx.DataflowVar
        self.values[binding.var] = kind(self.fresh(name), info, binding.var.span)
        return rx.VarBinding(self.values[binding.var], value)

    def local(self, expr: Any) -> Any:
        """An expression over local variables and sizes."""
        if isinstance(expr, rx.Call):
            args = tuple(map(self.local, expr.args))
            infos = tuple(substitute(i, self.symbols) for i in expr.sinfo_args)
            info = substitute(expr.struct_info, self.symbols)
            op = self.local(expr.op) if isinstance(expr.op, rx.Var) else expr.op
            return rx.Call(op, args, expr.attrs, infos, info, expr.span)
        if isinstance(expr, rx.Tuple):
            return rx.Tuple(tuple(map(self.local, expr.fields)))
        if isinstance(expr, rx.TupleGetItem):
            return replace(expr, tuple_value=self.local(expr.tuple_value))
        if isinstance(expr, rx.Var) or (isinstance(expr, rx.Constant) and not self.bind_constants):
            return self.argument(expr)
        return substitute(expr, self.symbols) if isinstance(expr, rx.ShapeExpr) else expr

    def argument(self, leaf: Any, name: str = "") -> rx.Var:
        """The local variable that stands for a leaf; a new parameter if there is none.

        name: of the parameter; that of the leaf where it is left out.
        """
        if leaf not in self.values:
            info = substitute(leaf.struct_info, self.symbols)
            name = name or getattr(leaf, "name_hint", "const")
            self.values[leaf] = rx.Var(self.fresh(name), info)
            self.params.append(self.values[leaf])
            self.args.append(leaf)
        return self.values[leaf]

    def fresh(self, name: str) -> str:
        """`name`, or the first of name1, name2 … that is free."""
        return self.names.fresh(name)

    def shape_parameter(self) -> None:
        """The shape of all symbolic sizes that the parameters do not define."""
        known = {v for p in self.params for v in definable_vars(p.struct_info)}
        missing = {old: new for old, new in self.symbols.items() if new not in known}
        if missing:
            info = ShapeStructInfo(tuple(missing.values()), len(missing))
            self.params.append(rx.Var(self.fresh("s"), info))
            self.args.append(rx.ShapeExpr(tuple(missing)))


def _symbols(bindings: Sequence[rx.Binding]) -> list[PrimVar]:
    """The symbolic sizes that bindings mention."""
    found: dict[PrimVar, None] = {}
    for binding in bindings:
        used = list(leaves(binding.value))
        told = (binding.var.struct_info, *getattr(binding.value, "sinfo_args", ()))
        shapes = [n for n in used if isinstance(n, rx.ShapeExpr)]
        for mentioned in (*told, *shapes, *(getattr(n, "struct_info", None) for n in used)):
            found.update(dict.fromkeys(symbolic_vars(mentioned)))
    return list(found)


def ordered(bindings: Sequence[rx.Binding]) -> tuple[rx.Binding, ...]:
    """The bindings, each after those that it uses, otherwise in the order that they have.

    Raises:
        PassError: some need each other in a circle.
    """
    binding_of = {b.var: b for b in bindings}
    done: dict[rx.Var, None] = {}
    begun: set[rx.Var] = set()
    for binding in bindings:
        stack = [binding.var]
        while stack:
            var = stack[-1]
            needed = [v for v in value_uses(binding_of[var].value) if v in binding_of]
            waiting = [v for v in needed if v not in done]
            if var not in done and waiting:
                begun.add(var)
                circle = [v.name_hint for v in waiting if v in begun]
                if circle:
                    raise PassError(f"{var.name_hint} and {circle[0]} need each other")
                stack.extend(reversed(waiting))
                continue
            done.setdefault(var)
            stack.pop()
    return tuple(binding_of[v] for v in done)


def goes_in_a_circle(bindings: Sequence[rx.Binding], group: Collection[rx.Var]) -> bool:
    """Whether something outside of a group needs it and is needed by it."""
    reached: set[Any] = set()
    for binding in bindings:
        used = set(value_uses(binding.value))
        if binding.var in group:
            if used & reached:
                return True
        elif used & reached or used & set(group):
            reached.add(binding.var)
    return False


def outputs_of(
    bindings: Sequence[rx.Binding], group: Collection[rx.Var], root: rx.Var, kept: Collection[Any]
) -> list[rx.Var]:
    """The variables of a group that something outside of it uses, `root` first.

    kept: what is used outside of the bindings.
    """
    outside: set[Any] = set(kept)
    for binding in bindings:
        if binding.var not in group:
            outside.update(value_uses(binding.value))
    others = [b.var for b in bindings if b.var in group and b.var is not root]
    return [root, *(v for v in others if v in outside or not isinstance(v, rx.DataflowVar))]


def group_calls(
    key: GlobalVar, outline: Outline, outputs: Sequence[rx.Var], span: Any, names: Names
) -> list[rx.Binding]:
    """The call of an outlined function, and the fields of its result where that is a tuple."""
    args = tuple(outline.args)
    if len(outputs) == 1:
        info = outputs[0].struct_info
        return [rx.VarBinding(outputs[0], rx.Call(key, args, None, (), info, span))]
    whole_info = TupleStructInfo(tuple(v.struct_info for v in outputs))  # type: ignore[misc]
    whole = rx.DataflowVar(names.fresh("lv"), whole_info)
    fields = [rx.VarBinding(v, rx.TupleGetItem(whole, i)) for i, v in enumerate(outputs)]
    return [rx.VarBinding(whole, rx.Call(key, args, None, (), whole_info, span)), *fields]


def add_shared(table: FunctionTable, func: rx.Function, name: str) -> GlobalVar:
    """The name of a function that is seen outside by it; equal ones have one name."""
    for key, known in table.functions.items():
        symbol = known.attrs.get("global_symbol")
        if symbol == key.name_hint and symbol.startswith(name) and isinstance(known, rx.Function):
            if structural_equal(known, func.with_attr("global_symbol", symbol)):
                return key
    key = table.add(func, name)
    table.functions[key] = func.with_attr("global_symbol", key.name_hint)
    return key
