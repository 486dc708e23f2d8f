"""Mutator: goes through a graph function binding by binding and rebuilds only what changes.

    class Undouble(Mutator):                          lv = R.multiply(x, 2)
        def visit_call(self, call, var):              lv1 = R.nn.relu(lv)
            if call.op.name == "relax.multiply":  ->  lv1 = R.nn.relu(x)
                return call.args[0]

A hook returns the new value (nested calls allowed), or None to keep the value as it is. A variable,
constant or other leaf that a hook returns takes the variable's place in all later uses. Struct
infos are inferred again only where arguments changed theirs; calls that a hook makes get the span
of the value they replace, unless they have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core.node import identical, replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.rules import visiting
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import return_info, same_info
from mlcnb.relax.analysis.variables import bound_vars, leaves, use_counts, with_nested
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.infer import Functions, infer, is_leaf


class Mutator:
    """Base of rewriters; a subclass overrides some of the `visit_…` hooks.

    Args:
        functions: what GlobalVars name, for inference.
    """

    def __init__(self, functions: Functions | None = None) -> None:
        self.functions: Functions = {} if functions is None else functions
        self.remap: dict[rx.Var, Any] = {}
        self.values: dict[rx.Var, Any] = {}
        self.emitter = Emitter(self.functions, Names())
        self.func: Any = None
        self._uses: dict[rx.Var, int] | None = None

    # hooks ---------------------------------------------------------------------------------------

    def visit_call(self, call: rx.Call, var: rx.Var, /) -> Any:
        """New value for a call bound to `var`, or None."""
        return None

    def visit_tuple(self, value: rx.Tuple, var: rx.Var, /) -> Any:
        """New value for a tuple bound to `var`, or None."""
        return None

    def visit_item(self, item: rx.TupleGetItem, var: rx.Var, /) -> Any:
        """New value for a field of a tuple bound to `var`, or None."""
        return None

    def visit_if(self, choice: rx.If, var: rx.Var, /) -> Any:
        """New value for an If (its branches are rewritten already), or None."""
        return None

    def visit_leaf(self, leaf: Any, var: rx.Var, /) -> Any:
        """New value for a leaf bound to `var` (`y = x`), or None."""
        return None

    def visit_match_cast(self, binding: rx.MatchCast) -> Any:
        """What takes the place of a match_cast's variable, or None to keep the binding."""
        return None

    # what hooks use ------------------------------------------------------------------------------

    def emit(self, expr: Any, name_hint: str = "") -> rx.Var:
        """Bind an expression before the binding that is being visited."""
        start = len(self.emitter.bindings)
        var = self.emitter.emit(expr, name_hint)
        self._record(start)
        return var

    def value_of(self, expr: Any) -> Any:
        """What a variable is bound to in the program as rewritten so far; else `expr` itself."""
        return self.values.get(expr, expr) if isinstance(expr, rx.Var) else expr

    def made_field(self, item: rx.TupleGetItem, var: rx.Var) -> Any:
        """A hook `visit_item`: the field of a tuple that was made; None for that of another."""
        value = self.value_of(item.tuple_value)
        return value.fields[item.index] if isinstance(value, rx.Tuple) else None

    def use_count(self, var: Any) -> int:
        """How often a variable is used in the program as it was before; a new one takes over the
        uses of what it replaces.
        """
        if self._uses is None:
            self._uses = use_counts(self.func)
        return self._uses.get(var, 0)

    # the walk ------------------------------------------------------------------------------------

    def rewrite(self, func: rx.Function) -> rx.Function:
        """The function rewritten; itself where nothing changed."""
        self.func, self._uses = func, None
        self.emitter.names = Names(lambda: {v.name_hint for v in bound_vars(func)})
        return self._function(func)

    def _function(self, func: rx.Function) -> rx.Function:
        body = self._sequence(func.body)
        if body is func.body:
            return func
        old, new = func.ret_struct_info, body.struct_info
        if new is None or (old is not None and same_info(new, func.body.struct_info)):
            return replace(func, body=body)
        return replace(func, body=body, ret_struct_info=return_info(func.params, new))

    def _sequence(self, seq: Any) -> rx.SeqExpr:
        if not isinstance(seq, rx.SeqExpr):
            seq = rx.SeqExpr((), seq)
        blocks = [self.visit_block(block) for block in seq.blocks]
        return self.emitter.ended(seq, blocks, lambda: self.substitute(seq.body))

    def visit_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """All bindings of a block, rewritten."""
        dataflow = block_is_dataflow(block)
        with self.emitter.scope(dataflow) as bindings:
            for binding in block.bindings:
                self._binding(binding)
        if dataflow:
            self._close(bindings)
        return with_bindings(block, tuple(bindings))

    def _close(self, bindings: list[rx.Binding]) -> None:
        """What is made of variables of a dataflow block is not looked into after it."""
        for binding in bindings:
            if any(isinstance(part, rx.DataflowVar) for part in leaves(binding.value)):
                self.values.pop(binding.var, None)

    def _binding(self, binding: rx.Binding) -> None:
        visiting(binding.var)
        if isinstance(binding, rx.MatchCast):
            self._match_cast(binding)
            return
        old = binding.value
        value = self._inner(old)
        hook = _HOOKS.get(type(value), Mutator._on_leaf)
        self.emitter.origin = getattr(old, "span", None)
        new = hook(self, value, binding.var)
        if new is None and value is old and binding.var.struct_info is not None:
            self._append(binding)
            return
        start = len(self.emitter.bindings)
        whole = value if new is None else new
        is_visited = whole is value and isinstance(value, rx.If)
        result = self.emitter.choice(value) if is_visited else self.emitter.value(whole)
        self._record(start)
        if new is not None and self._replaces(binding.var, result):
            self._give_place(binding.var, result)
            return
        var = self._variable(binding.var, result)
        same = var is binding.var and result is old
        self._append(binding if same else rx.VarBinding(var, result))

    def _inner(self, value: Any) -> Any:
        """The value with substituted variables; branches and local functions rewritten."""
        if isinstance(value, rx.If):
            branches = (self._sequence(value.true_branch), self._sequence(value.false_branch))
            cond = self.substitute(value.cond)
            before = (value.cond, value.true_branch, value.false_branch)
            return value if identical((cond, *branches), before) else rx.If(cond, *branches)
        if isinstance(value, rx.Function):
            return self._function(value)
        return self.substitute(value)

    def _match_cast(self, binding: rx.MatchCast) -> None:
        kept = replace(binding, value=self.substitute(binding.value))
        new = self.visit_match_cast(kept)
        if new is None:
            self._append(kept)
        elif self._replaces(binding.var, new):
            self._give_place(binding.var, new)
        else:
            result = self.emitter.value(new)
            self._append(rx.VarBinding(self._variable(binding.var, result), result))

    def _replaces(self, var: rx.Var, result: Any) -> bool:
        """Whether later uses of `var` may name `result` directly, so that `var` goes."""
        if isinstance(result, rx.Tuple) or not is_leaf(result):
            return False
        escapes = self.emitter.dataflow and not isinstance(var, rx.DataflowVar)
        return not (escapes and isinstance(result, rx.DataflowVar))

    def _give_place(self, var: rx.Var, result: Any) -> None:
        """Later uses of `var` name `result`, which is used more often by as much."""
        self.remap[var] = result
        if isinstance(result, rx.Var):
            uses = self.use_count(var)
            self._uses[result] = self.use_count(result) + uses  # type: ignore[index]

    def _variable(self, var: rx.Var, value: Any) -> rx.Var:
        """`var` itself where `value` has its struct info, else one with the new struct info."""
        info = infer(value, self.functions)
        if info is None or (var.struct_info is not None and same_info(info, var.struct_info)):
            return var
        new = type(var)(var.name_hint, info, var.span)
        self._give_place(var, new)
        return new

    def _append(self, binding: rx.Binding) -> None:
        self.emitter.bindings.append(binding)
        self.values[binding.var] = binding.value

    def _record(self, start: int) -> None:
        for binding in self.emitter.bindings[start:]:
            self.values[binding.var] = binding.value

    def _on_leaf(self, leaf: Any, var: rx.Var) -> Any:
        return None if isinstance(leaf, rx.Function) else self.visit_leaf(leaf, var)

    # substitution --------------------------------------------------------------------------------

    def substitute(self, value: Any) -> Any:
        """`value` with the variables replaced that earlier bindings gave up."""
        if not self.remap:
            return value
        kind = type(value)
        if kind is rx.Var or kind is rx.DataflowVar:
            return self.remap.get(value, value)
        if kind is rx.Call:
            return self._substitute_call(value)
        if kind is rx.Tuple:
            return replace(value, fields=tuple(map(self.substitute, value.fields)))
        if kind is rx.TupleGetItem:
            return replace(value, tuple_value=self.substitute(value.tuple_value))
        return value

    def _substitute_call(self, call: rx.Call) -> rx.Call:
        args = tuple(map(self.substitute, call.args))
        op = self.substitute(call.op) if isinstance(call.op, rx.Var) else call.op
        if op is call.op and identical(args, call.args):
            return call
        keep = op is call.op and all(map(_same_known, args, call.args))
        info = call.struct_info if keep else None
        return rx.Call(op, args, call.attrs, call.sinfo_args, info, call.span)


class CallsOf(Mutator):
    """Rewrites the calls of some functions of the module.

    Args:
        functions: what GlobalVars name.
        told: those functions, each with what `called` has to know of it.
    """

    def __init__(self, functions: Functions, told: Mapping[GlobalVar, Any]) -> None:
        super().__init__(functions)
        self.told = told

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """A call of one of the functions; all others stay."""
        if not isinstance(call.op, GlobalVar) or call.op not in self.told:
            return None
        return self.called(call, self.told[call.op], var)

    def called(self, call: rx.Call, told: Any, var: rx.Var) -> Any:
        """New value for a call bound to `var`, or None."""
        raise NotImplementedError


class Renamer(Mutator):
    """Gives variables the place of others, where they are bound and where they are used.

    Args:
        new: old variable -> new variable of the same struct info.
    """

    def __init__(self, new: Mapping[rx.Var, rx.Var]) -> None:
        super().__init__()
        self.new = new
        self.remap.update(new)

    def _binding(self, binding: rx.Binding) -> None:
        """What is bound keeps its struct info: nothing is inferred, nothing has a hook."""
        value = binding.value
        if type(value) is rx.Call and type(binding) is rx.VarBinding:
            var = self.new.get(binding.var, binding.var)
            made = self._substitute_call(value)
            same = var is binding.var and made is value
            self.emitter.bindings.append(binding if same else rx.VarBinding(var, made))
            return
        if isinstance(value, rx.If):
            value = with_nested(value, self._sequence)
            value = replace(value, cond=self.substitute(value.cond))
        elif type(value) is rx.Call:
            value = self.substitute(value)
        else:
            super()._binding(binding)
            return
        var = self.new.get(binding.var, binding.var)
        self.emitter.bindings.append(replace(binding, var=var, value=value))

    def _append(self, binding: rx.Binding) -> None:
        var = self.new.get(binding.var)
        super()._append(binding if var is None else replace(binding, var=var))


_HOOKS: dict[type, Callable[[Mutator, Any, rx.Var], Any]] = {
    rx.Call: lambda m, value, var: m.visit_call(value, var),
    rx.Tuple: lambda m, value, var: m.visit_tuple(value, var),
    rx.TupleGetItem: lambda m, value, var: m.visit_item(value, var),
    rx.If: lambda m, value, var: m.visit_if(value, var),
}


def _same_known(new: Any, old: Any) -> bool:
    told = (getattr(x, "struct_info", None) for x in (new, old))  # a GlobalVar has none
    return new is old or same_info(*told)
