"""Layouts that a user asks for, as permutations that flow through a graph; for ConvertLayout.

ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})

y = R.nn.conv2d(x, w)                 x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
z = R.nn.relu(y)                      w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
                               ->     y1 = R.nn.conv2d(x1, w1, data_layout="NHWC", …)
                                      z1 = R.nn.relu(y1)
                                      z = R.permute_dims(z1, axes=[0, 3, 1, 2])

A variable's layout is the order in which its dimensions lie: `(0, 2, 3, 1)` of NCHW is NHWC. An
operator follows the layout of its operands where its declaration says how: element by element, by
an axis, by axes, or by the name of a layout. Any other is given the plain order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import map_children, replace, rewrite
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import all_vars
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.operator import OpDecl, attrs_of, call_arguments, called, declaration
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.relax.traits import Order

#: operator name -> layout of the data, of the weight, and maybe of the result
Layouts = Mapping[str, Sequence[str]]
LayoutCallback = Callable[[rx.Call], Layouts]


def convert_to(
    func: rx.Function, functions: Any, desired: Layouts, ask: LayoutCallback | None
) -> Any:
    """The function with its dataflow blocks in the desired layouts, and how many calls have one."""
    converter = _Converter(func, functions, desired, ask)
    return converter.function(), converter.found


class _Converter:
    """One function on its way: which variables lie in another order, and which in their own."""

    def __init__(
        self, func: rx.Function, functions: Any, desired: Layouts, ask: LayoutCallback | None
    ) -> None:
        self.func, self.desired, self.ask = func, desired, ask
        self.emitter = Emitter(functions, Names(v.name_hint for v in all_vars(func)))
        #: old variable -> its new one in another order, and that order (a list of them: a tuple's)
        self.moved: dict[Any, tuple[Any, Any]] = {}
        #: old variable -> what stands for it in its own order
        self.plain: dict[Any, Any] = {}
        self.found = 0

    def function(self) -> rx.Function:
        """The function rebuilt, block of bindings by block; itself where nothing is desired."""
        blocks = []
        for block in self.func.body.blocks:
            if not block_is_dataflow(block):
                blocks.append(rewrite(block, self._substitute))
                continue
            with self.emitter.scope(True) as bindings:
                for binding in block.bindings:
                    self._binding(binding)
            blocks.append(with_bindings(block, tuple(bindings)))
        if not self.found:
            return self.func
        body = rx.SeqExpr(tuple(blocks), rewrite(self.func.body.body, self._substitute))
        return replace(self.func, body=body)

    def _substitute(self, n: Any) -> Any:
        return self.plain.get(n) if isinstance(n, rx.Var) else None

    def _binding(self, binding: rx.Binding) -> None:
        value = binding.value
        made = self._moved_value(binding) if isinstance(binding, rx.VarBinding) else None
        if made is None:
            is_name = isinstance(value, rx.Var)  # of what may lie in another order
            new = self.in_own_order(value) if is_name else map_children(value, self.in_own_order)
            self._bind(binding, new)
            return
        call, order = made
        span = getattr(value, "span", None)
        var = self.emitter.emit(replace(call, span=span) if span is not None else call)
        self.moved[binding.var] = (var, order)
        if not isinstance(binding.var, rx.DataflowVar):
            back = self._back(binding.var)
            self._bind(binding, back)

    def _bind(self, binding: rx.Binding, value: Any) -> None:
        """Bind a value to the variable itself, so that plain parts stay as they are."""
        if isinstance(binding, rx.VarBinding):
            self.emitter.bindings.append(rx.VarBinding(binding.var, self.emitter.value(value)))
        else:
            self.emitter.bindings.append(replace(binding, value=value))
        self.plain[binding.var] = binding.var

    def _moved_value(self, binding: rx.VarBinding) -> tuple[Any, Any] | None:
        """The value in another order, and that order; None where it stays in its own."""
        value = binding.value
        if isinstance(value, rx.TupleGetItem):
            whole = self.moved.get(value.tuple_value)
            order = None if whole is None else whole[1][value.index]
            return (
                None
                if whole is None or not order
                else (rx.TupleGetItem(whole[0], value.index), order)
            )
        if not isinstance(value, rx.Call) or not isinstance(value.op, rx.Op):
            return None
        wanted = self._wanted(value)
        if wanted is not None:
            return self._desired(value, wanted)
        if called(value) is OpDecl:  # a way of calling, such as call_tir
            return None
        attrs = attrs_of(value)
        if attrs.is_elementwise(*(a.struct_info for a in value.args)):
            return self._elementwise(value, binding.var)
        return self._in_order(value, attrs, binding.var)

    def _in_order(self, call: rx.Call, attrs: OpDecl, var: rx.Var) -> tuple[Any, Any] | None:
        """The first operand as it lies, where the declaration says how; the rest in their own."""
        first, *rest = call.args or (None,)
        parts = first.fields if isinstance(first, rx.Tuple) else (first,)
        order = next((o for x in parts if (o := self.order_of(x))), None)
        found = attrs.in_order(order) if order and not isinstance(order, list) else None
        if found is None:
            return None
        given = [self.lying(x, order) for x in parts]  # type: ignore[arg-type]
        made, after = found
        if isinstance(var.struct_info, TupleStructInfo) and not isinstance(after, list):
            after = [after] * len(var.struct_info.fields)
        moved = rx.Tuple(tuple(given)) if isinstance(first, rx.Tuple) else given[0]
        return rx.Call(call.op, (moved, *map(self.in_own_order, rest)), made), after

    def _elementwise(self, call: rx.Call, var: rx.Var) -> tuple[Any, Any] | None:
        """Operands of full rank lie in one order, that of the first that is moved."""
        rank = rank_of(var)
        orders = [self.order_of(a) for a in call.args if rank_of(a) == rank]
        order = next((o for o in orders if o), None)
        if order is None or rank < 0:
            return None
        return rx.Call(call.op, tuple(self._spread(a, order) for a in call.args), call.attrs), order

    def _spread(self, x: Any, order: Order) -> rx.Expr:
        """An operand that broadcasts, in an order: dimensions that it lacks are put in front."""
        rank = rank_of(x)
        if rank <= 0:
            return self.in_own_order(x)
        if rank == len(order):
            return self.lying(x, order)
        front = tuple(range(len(order) - rank))
        wide = op.expand_dims(self.in_own_order(x), axis=front)
        return self._permuted(self.emitter.emit(wide), order)

    def _wanted(self, call: rx.Call) -> Sequence[str] | None:
        name = call.op.name  # type: ignore[union-attr]
        given = None if self.ask is None else self.ask(call)
        found = (given or {}).get(name) or self.desired.get(name)
        if not found or not all(map(_is_known, call.args)):
            return None
        attrs: Any = attrs_of(call)
        have = [attrs.data_layout, attrs.kernel_layout, attrs.out_layout]
        return None if list(found) == have[: len(found)] else found

    def _desired(self, call: rx.Call, wanted: Sequence[str]) -> tuple[Any, Any]:
        """A convolution in the layouts that are asked for."""
        attrs: Any = attrs_of(call)
        layouts = (attrs.data_layout, attrs.kernel_layout)
        result = attrs.out_layout or attrs.data_layout
        out = wanted[2] if len(wanted) > 2 else wanted[0]
        name = declaration(call.op).sugar
        data, weight, after = (
            _order_between(name, old, new)
            for old, new in zip((*layouts, result), (*wanted[:2], out), strict=True)
        )
        first, second, *rest = call_arguments(call)
        given = (self.lying(first, data), self.lying(second, weight), *map(self.in_own_order, rest))
        made = dataclasses.replace(
            attrs, data_layout=wanted[0], kernel_layout=wanted[1], out_layout=out
        )
        self.found += 1
        return rx.Call(call.op, given, made), after

    # operands in an order ------------------------------------------------------------------------

    def order_of(self, x: Any) -> Order | None:
        """The order that a variable lies in, where it is not its own."""
        return self.moved[x][1] if x in self.moved and isinstance(x, rx.Var) else None

    def lying(self, x: Any, order: Order) -> Any:
        """An operand with its dimensions in an order."""
        have = self.order_of(x)
        if have == order:
            return self.moved[x][0]
        own = self.in_own_order(x)
        return own if order == tuple(range(len(order))) else self._permuted(own, order)

    def _permuted(self, x: Any, order: Order) -> Any:
        return self.emitter.emit(op.permute_dims(x, axes=order))

    def in_own_order(self, n: Any) -> Any:
        """An expression of the old function as it was."""
        if isinstance(n, rx.Var):
            if n not in self.plain and n in self.moved:
                self.plain[n] = self.emitter.emit(self._back(n), n.name_hint)
            return self.plain.get(n, n)
        return map_children(n, self.in_own_order) if isinstance(n, rx.Tuple) else n

    def _back(self, var: rx.Var) -> Any:
        """What makes the variable's own order of what lies in another one."""
        new, order = self.moved[var]
        if isinstance(order, list):
            items = [rx.TupleGetItem(new, i) for i in range(len(order))]
            fields = [
                self._returned(self.emitter.emit(i), o) if o else i
                for i, o in zip(items, order, strict=True)
            ]
            return rx.Tuple(tuple(self.emitter.emit(f) for f in fields))
        return self._returned(new, order)

    @staticmethod
    def _returned(x: Any, order: Order) -> rx.Call:
        axes = tuple(order.index(i) for i in range(len(order)))
        return op.permute_dims(x, axes=axes)


def _is_known(x: Any) -> bool:
    info = getattr(x, "struct_info", None)
    return not isinstance(info, TensorStructInfo) or info.ndim >= 0


def _order_between(name: str, old: str, new: str) -> Order:
    """Where each letter of the new layout lies in the old one."""
    if sorted(old) != sorted(new) or len(set(new)) != len(new):
        raise PassError(
            f"ConvertLayout: {name} lies in {old}, and {new} is no order of its dimensions",
            hint="the same letters in another order; ConvertLayout(block=…) makes blocks",
        )
    return tuple(old.index(letter) for letter in new)


def rank_of(x: Any) -> int:
    """How many dimensions a tensor has; -1 where that is not known, or it is none."""
    info = getattr(x, "struct_info", None)
    return info.ndim if isinstance(info, TensorStructInfo) else -1
