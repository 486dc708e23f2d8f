"""ToMixedPrecision: products in half precision, and what follows them as far as it can.

y = R.nn.conv2d(x, w)          lv = R.astype(x, dtype="float16")      lv1 = R.astype(w, "float16")
z = R.nn.relu(y)          ->   lv2 = R.nn.conv2d(lv, lv1, out_dtype="float32")
s = R.nn.softmax(z)            y = R.astype(lv2, dtype="float16")
                               z = R.nn.relu(y)
                               s = R.nn.softmax(R.astype(z, dtype="float32"))

Products take float16 always; operators that `follows` marks take it where all they read is of
float16, or a constant that fits; all others get what they had. A value that only products read is
stored in float16. Only dataflow blocks are rewritten. The decisions are those of TVM's pass
(relax.transform.ToMixedPrecision); what `get_pipeline("default", precision=…)` does is
`RoundProducts`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.transform import FunctionPass
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_info
from mlcnb.relax.analysis.variables import uses
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import attrs_of, called
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.relax.transform.round_products import narrowed

HALF, FULL = "float16", "float32"
#: the largest number of float16
LARGEST = 65504


class ToMixedPrecision(FunctionPass):
    """Products of float32 in float16, and operators after them, by TVM's decisions.

    out_dtype: what products sum in and give: "float32", or "float16".
    fp16_input_names: parameters that are handed over in float16.

    Raises:
        PassError: an `out_dtype` that is neither, or a parameter by name that is not float32.
    """

    out_dtype: str = FULL
    fp16_input_names: tuple[str, ...] | None = None

    def transform_function(self, func: rx.Function, mod: Any, ctx: Any) -> rx.Function:
        """The function in mixed precision."""
        if self.out_dtype not in (HALF, FULL):
            raise PassError(
                f"ToMixedPrecision: no out_dtype {self.out_dtype!r}", hint=f"{FULL} or {HALF}"
            )
        mine = {p.name_hint for p in func.params}.intersection(self.fp16_input_names or ())
        new = narrowed(func, tuple(mine), HALF, self.name)
        mixer = _Mixer(mod.functions)
        mixer.out, mixer.params = self.out_dtype, func.params
        mixer.only_half = read_by_products(func)
        mixer.remap.update(new)
        made = mixer.rewrite(func)
        return replace(made, params=tuple(new.get(p, p) for p in func.params)) if new else made


def read_by_products(func: rx.Function) -> set[rx.Var]:
    """Tensors of which every reader is a product, in a dataflow block."""
    products: set[rx.Var] = set()
    others = set(uses(func.body.body))
    for block in func.body.blocks:
        for binding in block.bindings:
            value: Any = binding.value
            is_product = block_is_dataflow(block) and _is_product(value)
            (products if is_product else others).update(uses(value))
    return products - others


class _Mixer(Mutator):
    out = FULL
    params: tuple[rx.Var, ...] = ()
    only_half: set[rx.Var]
    #: the value that is being visited, as it was
    old: Any = None

    def visit_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """A dataflow block; what only products read is stored in float16 as soon as it is there."""
        if not block_is_dataflow(block):
            return super().visit_block(block)
        before = {p: self.remap[p] for p in self.params if p in self.remap}
        with self.emitter.scope(True) as bindings:
            for param in self.params:
                self.store(param)
            for binding in block.bindings:
                self._binding(binding)
                self.store(binding.var)
        for param in self.params:
            self.remap.pop(param, None)
        self.remap.update(before)
        changed = len(bindings) != len(block.bindings) or any(
            a is not b for a, b in zip(bindings, block.bindings, strict=True)
        )
        return replace(block, bindings=tuple(bindings)) if changed else block

    def _binding(self, binding: Any) -> None:
        self.old = binding.value
        super()._binding(binding)

    def store(self, var: rx.Var) -> None:
        """A variable that only products read, in float16 from here on."""
        now = self.remap.get(var, var)
        is_local = isinstance(var, rx.DataflowVar) or var in self.params
        if is_local and var in self.only_half and _is_tensor(now.struct_info, FULL):
            self.remap[var] = self.emit(op.astype(now, HALF))

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        is_product = _is_product(call)
        if not self.emitter.dataflow or not (is_product or called(call).follows):
            return self.restored(call)
        if is_product:
            made = _summed_in(_with_args(call, HALF), self.out)
        else:
            made = _with_args(call, HALF if all(map(_fits, call.args)) else FULL)
        known = made is call and call.struct_info is not None
        value = call if known else self.emitter.value(made)
        if not isinstance(var, rx.DataflowVar):
            kind = getattr(var.struct_info, "dtype", None)
            return _cast(value, str(kind)) if kind is not None else _as_was(value, var)
        if is_product:
            value = _cast(value, HALF)
        return None if value is call else value

    def restored(self, call: rx.Call) -> Any:
        """The call of arguments in the dtypes that they had."""
        args = tuple(map(_as_was, call.args, self.old.args))
        return None if args == call.args else replace(call, args=args, struct_info=None)

    def visit_leaf(self, leaf: Any, var: rx.Var) -> Any:
        """A value that leaves the block has the dtypes that it had."""
        made = leaf if isinstance(var, rx.DataflowVar) else _as_was(leaf, var)
        return None if made is leaf else made

    visit_tuple = visit_item = visit_leaf

    def visit_match_cast(self, binding: Any) -> Any:
        value = _as_was(binding.value, self.old)
        if value is binding.value:
            return None
        return self.emitter.match_cast(value, binding.struct_info, binding.var.name_hint)


def _is_product(value: Any) -> bool:
    """True for a product of floats."""
    if not called(value).product:
        return False
    return any(_is_tensor(value.args[0].struct_info, kind) for kind in (HALF, FULL))


def _is_tensor(info: Any, kind: str) -> bool:
    return isinstance(info, TensorStructInfo) and info.dtype == kind


def _cast(x: Any, kind: str) -> Any:
    """A tensor of float16 or float32, or all such in a tuple, in the given one of these dtypes."""
    if isinstance(x, rx.Tuple):
        return replace(x, fields=tuple(_cast(f, kind) for f in x.fields))
    info = x.struct_info
    if isinstance(info, TupleStructInfo):
        made = tuple(_cast(rx.TupleGetItem(x, i), kind) for i in range(len(info.fields)))
        return rx.Tuple(made) if any(isinstance(m, rx.Call) for m in made) else x
    if info is None or not any(_is_tensor(info, k) for k in (HALF, FULL) if k != kind):
        return x
    return op.astype(x, kind)


def _as_was(x: Any, old: rx.Expr) -> Any:
    """`x` in the dtypes of `old`, in whose place it stands."""
    if isinstance(x, rx.Tuple) and isinstance(old, rx.Tuple):
        return replace(x, fields=tuple(map(_as_was, x.fields, old.fields)))
    if x is old or old.struct_info is None or same_info(x.struct_info, old.struct_info):
        return x
    return _cast(x, FULL)


def _with_args(call: rx.Call, kind: str) -> rx.Call:
    args = tuple(_cast(a, kind) for a in call.args)
    return call if args == call.args else rx.Call(call.op, args, call.attrs, span=call.span)


def _summed_in(call: rx.Call, kind: str) -> rx.Call:
    """A product with that dtype of its result, where it can be said."""
    attrs: Any = attrs_of(call)
    if not hasattr(attrs, "out_dtype") or attrs.out_dtype == kind:
        return call
    return rx.Call(call.op, call.args, dataclasses.replace(attrs, out_dtype=kind), span=call.span)


def _fits(x: Any) -> bool:
    """True for what is of float16, for constants that fit into it, for tuples of such."""
    if isinstance(x, rx.Tuple):
        return all(map(_fits, x.fields))
    if isinstance(x, rx.Constant):
        return bool(np.all(np.abs(x.data.astype(np.float64)) <= LARGEST))
    info = getattr(x, "struct_info", None)
    if isinstance(info, TupleStructInfo):
        return False
    return not isinstance(info, TensorStructInfo) or _is_tensor(info, HALF)
