"""NarrowProducts: products of half precision, by the instruction for them or in float32.

an instruction sums pairs of bfloat16       w1 = R.layout_transform(w, src="KN", dst="NK32n2k")
y = R.matmul(x, w)                    ->    y = R.nn.matmul_packed(x, w1, columns=1000)

otherwise                                   x1 = R.astype(x, dtype="float32")
y = R.matmul(x, w)                    ->    y1 = R.matmul(x1, w1)            w1: w in float32
                                            y = R.astype(y1, dtype="bfloat16")

Both mean the same: products and sums in float32, rounded once at the end. In float32 they get all
that products in float32 get (register tiles, Winograd's algorithm, packed weights), and what is
elementwise joins the conversions. A row times a matrix waits for memory: it is read in half
precision, and each element converted as it comes. A convolution that the instruction can do stays
as it is, and ConvertLayout packs it, unless Winograd's algorithm in float32 is predicted to be
faster still.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass
from mlcnb.machine.convolution import Convolution, choices
from mlcnb.op._convert import convert
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.nn.conv import Conv2d
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Constant, Function, Var
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import attrs_of, call_arguments, called
from mlcnb.target import Target

HALVES = ("float16", "bfloat16")
#: values whose products the instruction sums
PAIR = 2
#: fewer input channels than these (an image's) are faster in float32: measured, 2.2 to 4.5 ms
CHANNELS = 8
#: how much faster direct loops are in pairs than in float32: measured, 1.7 to 1.9
GAIN = 1.8


class NarrowProducts(FunctionPass):
    """Choose for each product of float16 or bfloat16 how it is computed on the current target.

    Products and sums are float32 and are rounded once, whichever way is chosen; products of other
    dtypes stay, none is refused.
    """

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Function:
        """The function without products of half precision that no instruction does."""
        chooser = _Chooser(mod.functions)
        chooser.target = Target.current() or Target("llvm")
        result = chooser.rewrite(func)
        if chooser.pairs or chooser.rows or chooser.widened:
            ctx.note(
                f"{chooser.pairs} products in pairs, {chooser.widened} in float32, "
                f"{chooser.rows} of a row"
            )
        return result


class _Chooser(Mutator):
    target: Target
    pairs = 0
    rows = 0
    widened = 0

    def visit_call(self, call: Call, var: Var) -> Any:
        """Packed in pairs, left to ConvertLayout, a row as it is, or in float32."""
        if not called(call).product or not all(
            _is_half(x) for x in call_arguments(call) if x is not None
        ):
            return None
        if takes_pairs(call, self.target):
            self.pairs += 1
            return self.packed(call) if called(call) is Matmul else None
        if is_row(call):
            self.rows += 1
            return self.blocks(call) if isinstance(call.args[1], Constant) else None
        self.widened += 1
        return self.wide(call)

    @rule("NarrowProducts", "pairs")
    def packed(self, call: Call) -> Call:
        """The matrix in blocks of columns, two rows together."""
        # a row alone is read with four vectors at once, several rows with two
        block = self.target.lanes("float32") * (4 if is_row(call) else 2)
        return self.laid_out(call, f"NK{block}n{PAIR}k")

    @rule("NarrowProducts", "row")
    def blocks(self, call: Call) -> Call:
        """The matrix in blocks of columns, in half precision."""
        return self.laid_out(call, f"NK{4 * self.target.lanes('float32')}n")

    def laid_out(self, call: Call, layout: str) -> Call:
        """The product with its matrix in that layout."""
        x, weight = call.args
        made = self.emit(op.layout_transform(weight, src="KN", dst=layout))
        attrs: Any = attrs_of(call)
        return op.nn.matmul_packed(
            x,
            made,
            columns=as_int(weight.struct_info.dims[1]),  # type: ignore[attr-defined]
            out_dtype=attrs.out_dtype,
        )

    @rule("NarrowProducts", "float32")
    def wide(self, call: Call) -> Call:
        """In float32, rounded at the end."""
        args = tuple(self.as_float32(a) if _is_half(a) else a for a in call.args)
        attrs: Any = attrs_of(call)
        if getattr(attrs, "out_dtype", None) in HALVES:
            attrs = dataclasses.replace(attrs, out_dtype=None)
        made = Call(call.op, args, attrs)
        kind = call.struct_info.dtype  # type: ignore[union-attr]
        if kind not in HALVES:
            return made
        return op.astype(self.emit(made), str(kind))

    def as_float32(self, x: Any) -> Any:
        """A constant is converted here and now."""
        if isinstance(x, Constant):
            return Constant(convert(x.data, "float32"), x.span)
        return self.emit(op.astype(x, "float32"))


def _is_half(x: Any) -> bool:
    return str(getattr(x.struct_info, "dtype", None)) in HALVES


def takes_pairs(call: Call, target: Target) -> bool:
    """True for a product that the target's instruction for pairs does, and does fastest."""
    x, weight, *_ = call_arguments(call)
    if not target.sums_pairs(str(x.struct_info.dtype)):
        return False
    if called(call) is Matmul:
        return _is_packable(call, x.struct_info, weight.struct_info)
    return called(call) is Conv2d and _is_dense(call) and not _has_faster(call, target)


def is_row(call: Call) -> bool:
    """True for a row times a matrix: as fast as memory brings the matrix in half precision."""
    if called(call) is not Matmul:
        return False
    x, weight = (a.struct_info for a in call_arguments(call))
    if x.dims is None or weight.dims is None or x.ndim < 2 or weight.ndim != 2:
        return False
    return all(as_int(d) == 1 for d in x.dims[:-1])


def _is_packable(call: Call, x: Any, weight: Any) -> bool:
    """Rows times one matrix of known size, of an even depth; a row only if the matrix can be
    packed now.
    """
    if x.dims is None or weight.dims is None or x.ndim < 2 or weight.ndim != 2:
        return False
    if is_row(call) and not isinstance(call.args[1], Constant):
        return False
    depth, columns = map(as_int, weight.dims)
    even = depth is not None and depth > 0 and depth % PAIR == 0 and bool(columns)
    kind = getattr(attrs_of(call), "out_dtype", None)
    return even and kind in (None, "float32", "bfloat16")


def _is_dense(call: Call) -> bool:
    """A plain convolution of constant weights, neither grouped nor dilated."""
    conv: Any = attrs_of(call)
    return (
        conv.is_plain
        and isinstance(call_arguments(call)[1], Constant)
        and conv.groups == 1
        and conv.dilation == (1, 1)
        and conv.out_dtype in (None, "float32", "bfloat16")
    )


def _has_faster(call: Call, target: Target) -> bool:
    """True where float32 is faster than pairs: for an image's channels, and where Winograd's
    algorithm is predicted to be.
    """
    conv: Any = attrs_of(call)
    dims = getattr(call.struct_info, "dims", None)
    sizes = [as_int(d) for d in dims or (None,)]
    outer, inner, *window = call_arguments(call)[1].data.shape
    if inner < CHANNELS:
        return True
    if None in sizes or conv.strides != (1, 1) or window[0] != window[1]:
        return False
    images, _, rows, columns = (s or 0 for s in sizes)
    made = choices(Convolution(images, inner, outer, (rows, columns), window[0]), target)
    (direct,) = (c for c in made if c.tile == 0)
    return made[0].tile > 0 and made[0].ms < direct.ms / GAIN
