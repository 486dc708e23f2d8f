"""RoundProducts: products of half precision in a float32 program, their sums in float32.

y = R.nn.relu(x)                           y = R.astype(R.nn.relu(x), dtype="bfloat16")
z = R.matmul(y, w)                    ->   z = R.matmul(y, w1, out_dtype="float32")    w1: bfloat16
s = R.add(z, y)                            s = R.add(z, R.astype(y, dtype="float32"))

What is rounded is what a product reads, once: a value that others read too is stored in half
precision, and they read that. Everything between stays in float32, in registers where it is fused:
a bias, an activation, a normalisation, a softmax see no rounding. Roundings move up over reshapes,
permutations and pooling by maxima, which they do not change, to where the value is made. Weights
that are constant are rounded now.

    mod = relax.get_pipeline("default", precision="bfloat16")(mod)

`ToMixedPrecision`, TVM's pass, rounds after each operator that can do with half precision; what
follows here computes such operators in float32 either way.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.core.text import plural
from mlcnb.ir.dtype import dtype as make_dtype
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass
from mlcnb.op._convert import convert
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import attrs_of, call_arguments, called
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings

HALVES = ("float16", "bfloat16")


class RoundProducts(FunctionPass):
    """Round what products read to half precision; sum in float32.

    Of products of float32, those with one matrix or kernel on the right; products of batches on
    both sides (the scores of an attention) only if `batched`. Run it when batch normalisations
    are folded and attentions are found, as `get_pipeline("default", precision=…)` does: those
    passes look for float32.

    out_dtype: the dtype of a product's result: "float32", or `dtype` to round it once more.
    fp16_input_names: parameters that are handed over in half precision.
    dtype: "float16" (TVM's), or "bfloat16".
    batched: also products of batches.

    Raises:
        PassError: other dtypes than these, or a parameter by name that is not of float32.
    """

    out_dtype: str = "float32"
    fp16_input_names: tuple[str, ...] = ()
    dtype: str = "float16"
    batched: bool = False

    def transform_function(self, func: rx.Function, mod: Any, ctx: Any) -> rx.Function:
        """The function in mixed precision; itself where it has no product of float32."""
        if self.dtype not in HALVES or self.out_dtype not in (self.dtype, "float32"):
            raise PassError(
                f"RoundProducts: no dtype {self.dtype!r} with out_dtype {self.out_dtype!r}",
                hint="dtype: float16 or bfloat16; out_dtype: float32, or the same",
            )
        mixer = _Mixer(mod.functions, self, wanted_in_half(func, self.batched))
        made = mixer.rewrite(narrow_parameters(func, self.fp16_input_names, self.dtype))
        ctx.note(f"{plural(mixer.products, 'product')} in {self.dtype}")
        return func if made is func else remove_unused_bindings(made, mod.functions)


def wanted_in_half(func: rx.Function, batched: bool) -> set[rx.Var]:
    """Variables that a product reads, at once or through moves."""
    found: set[rx.Var] = set()
    for binding in reversed(list(bindings_of(func))):
        value: Any = binding.value
        if is_product(value, batched):
            found.update(a for a in value.args if isinstance(a, rx.Var))
        elif binding.var in found and _is_move(value):
            found.update(a for a in value.args[:1] if isinstance(a, rx.Var))
    return found


def is_product(value: Any, batched: bool) -> bool:
    """True for a product of float32 whose operands are to be rounded."""
    if not called(value).rounds:
        return False
    infos: list[Any] = [a.struct_info for a in call_arguments(value) if a is not None]
    if any(info.dtype != "float32" for info in infos):
        return False
    attrs = attrs_of(value)
    if getattr(attrs, "out_dtype", None) not in (None, "float32"):
        return False
    return batched or not attrs.is_batched(*infos)


def _is_move(value: Any) -> bool:
    """True where a tensor of float32 gives the same values rounded before and after."""
    return called(value).moves and _kind(value.args[0]) == "float32"


def _kind(x: Any) -> Any:
    return getattr(x.struct_info, "dtype", None)


class _Mixer(Mutator):
    products = 0

    def __init__(self, functions: Any, options: RoundProducts, wanted: set[rx.Var]) -> None:
        super().__init__(functions)
        self.options, self.kind, self.wanted = options, options.dtype, wanted
        #: variable -> the one that holds its values rounded
        self.low: dict[rx.Var, Any] = {}

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        if is_product(call, self.options.batched):
            self.products += 1
            return self.rounded_once(var, self.product(call))
        if var in self.wanted and _is_move(call):
            return self.moved(call, var)
        is_tensor = _kind(call) == "float32"
        return self.rounded_once(var, call) if var in self.wanted and is_tensor else None

    @rule("RoundProducts")
    def product(self, call: rx.Call) -> rx.Call:
        """Operands rounded, sums in float32."""
        args = tuple(a if a is None else self.half(a) for a in call.args)
        attrs: Any = attrs_of(call)
        if hasattr(attrs, "out_dtype"):
            return rx.Call(
                call.op, args, dataclasses.replace(attrs, out_dtype=self.options.out_dtype)
            )
        return rx.Call(call.op, args, attrs)

    @rule("RoundProducts")
    def moved(self, call: rx.Call, var: rx.Var) -> Any:
        """A move of values that are rounded already."""
        low = self.emit(rx.Call(call.op, (self.half(call.args[0]), *call.args[1:]), call.attrs))
        return self.kept(var, low)

    def rounded_once(self, var: rx.Var, call: rx.Call) -> Any:
        """The call's value for all readers: rounded, where a product is among them."""
        value: Any = self.emit(call)
        if value.struct_info.dtype == self.kind:
            return self.kept(var, value)
        if var not in self.wanted:
            return value if isinstance(var, rx.DataflowVar) else call
        return self.kept(var, self.emit(op.astype(value, self.kind)))

    def kept(self, var: rx.Var, low: Any) -> rx.Call:
        """float32 for readers of `var`; a product that reads it takes `low`."""
        if isinstance(var, rx.DataflowVar):
            self.low[var] = low
        return op.astype(low, "float32")

    def half(self, x: Any) -> Any:
        """An operand in half precision."""
        if isinstance(x, rx.Constant):
            return rx.Constant(convert(x.data, self.kind), x.span)
        return self.low.get(x) or self.emit(op.astype(x, self.kind))


def narrow_parameters(func: rx.Function, names: tuple[str, ...], kind: str) -> rx.Function:
    """The function with those parameters in another dtype, converted to float32 first of all."""
    new = narrowed(func, names, kind, "RoundProducts")
    if not new:
        return func
    wide = {p: replace(op.astype(q, "float32"), struct_info=p.struct_info) for p, q in new.items()}
    first = rx.BindingBlock(tuple(rx.VarBinding(p, value) for p, value in wide.items()))
    body = rx.SeqExpr((first, *func.body.blocks), func.body.body)
    return replace(func, params=tuple(new.get(p, p) for p in func.params), body=body)


def narrowed(
    func: rx.Function, names: tuple[str, ...], kind: str, what: str
) -> dict[rx.Var, rx.Var]:
    """Parameter -> the one of its name in another dtype, for parameters of these names.

    Raises:
        PassError: in the name of the pass `what`: there is none, or it is not of float32.
    """
    chosen = [p for p in func.params if p.name_hint in names]
    missing = set(names) - {p.name_hint for p in chosen}
    infos: list[Any] = [p.struct_info for p in chosen]
    if missing or any(info.dtype != "float32" for info in infos):
        wrong = ", ".join(sorted(missing or {p.name_hint for p in chosen}))
        raise PassError(
            f"{what}: no float32 parameters {wrong}",
            hint=f"there are {', '.join(p.name_hint for p in func.params)}",
        )
    narrow = [replace(info, dtype=make_dtype(kind)) for info in infos]
    return {p: rx.Var(p.name_hint, info, p.span) for p, info in zip(chosen, narrow, strict=True)}
