"""IntegerOps: operators between dequantize and quantize work on the integers.

lv = R.dequantize(x, 0.1, 3)
lv1 = R.dequantize(w, …)                    lv = R.qnn.conv2d(x, w, 3)
lv2 = R.nn.conv2d(lv, lv1)           ->     lv1 = R.add(lv, bias)
lv3 = R.add(lv2, R.dequantize(b, …))        lv2 = R.qnn.requantize(lv1, scale, 5)
lv4 = R.quantize(lv3, 0.2, 5)

Convolutions, products, sums and means that stand so become integer operators, with the zero points
in the bias (`mlcnb.op.qnn`); what moves values without changing them moves bytes; relu and clip
become bounds of bytes. Results are those of ONNX Runtime, which does the same; they may differ by
one step from those of the floats, which are rounded before they are quantised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.op.binary import Add
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.nn.conv import Conv2d
from mlcnb.op.qnn import _build as build
from mlcnb.op.quantize import Dequantize, Quantize
from mlcnb.op.reduction import Mean
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Constant, Function, Tuple, Var, const
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.transform.written_out import CallPass, Reader


class IntegerOps(
    CallPass,
    says="operators work on integers",
    says_one="operator works on integers",
    quiet=True,
    prunes=True,
):
    """Turn operators on dequantized tensors, whose results are quantized, into integer ones.

    Results have dtype int8 or uint8, sums int32; scales and zero points have to be constants,
    weights quantized by channel or as a whole. What is not of that form keeps its floats, nothing
    is refused. After ONNX Runtime's QDQ rules.
    """

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Function:
        """The function with integer operators; itself where nothing is quantized."""
        has_some = any(called(b.value) is Quantize for b in func.body.bindings)
        return super().transform_function(func, mod, ctx) if has_some else func


class Table(NamedTuple):
    """A quantised constant: values, scales and zero points along `axis` (None: one for all)."""

    values: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int | None

    def weight(self, outer: int) -> build.Weight | None:
        """As weights whose dimension `outer` is the result's channel."""
        if self.axis not in (None, outer):
            return None
        return build.Weight.of(np.moveaxis(self.values, outer, 0), self.scale, self.zero)

    def is_in_steps_of(self, unit: np.ndarray) -> bool:
        """True for int32 numbers that count `unit`, but for the rounding of a scale."""
        whole = self.values.dtype == np.int32 and not self.zero.any()
        return whole and np.allclose(self.scale, unit, rtol=1e-6, atol=0)

    def floats(self) -> np.ndarray:
        """What it stands for, in float64."""
        line = [-1 if i == self.axis else 1 for i in range(self.values.ndim)]
        scale, zero = (
            v.astype(np.float64).reshape(line if v.size > 1 else ())
            for v in (self.scale, self.zero)
        )
        return (self.values.astype(np.float64) - zero) * scale


class _Integers(Reader, of=IntegerOps):
    def visit_call(self, call: Call, var: Var) -> Any:
        """A quantize, with what stands before it."""
        if called(call) is not Quantize:
            return None
        x, scale, zero = call.args
        result = _scale_of(scale, zero)
        if result is None:
            return None
        source, low, high = self.unclamped(x)
        made = self.integers(source, result)
        if made is None:
            return None
        self.found += 1
        return self.clamped(made, call, low, high)

    def integers(self, x: Any, result: build.Scale) -> Any:
        """The integer operator in place of the one that x is bound to."""
        value = self.value_of(x)
        operator = called(value)
        if operator is Dequantize:
            return value.args[0] if _scale_of(*value.args[1:]) == result else None
        if self.use_count(x) > 1:
            return None
        if operator.moves and not operator.fills:
            return self.move(value, result)
        found = _RULES.get(operator)
        return None if found is None else found(self, value, result)

    # bounds --------------------------------------------------------------------------------------

    def unclamped(self, x: Any) -> tuple[Any, float, float]:
        """What x is before relu and clip, and its bounds: the inner ones, clamped by the outer."""
        low, high = -np.inf, np.inf
        while self.use_count(x) == 1 and (ends := _ends_of(self.value_of(x))):
            low, high = (min(max(end, low), high) for end in (min(ends), ends[1]))
            x = self.value_of(x).args[0]
        return x, low, high

    def clamped(self, made: Any, call: Call, low: float, high: float) -> Any:
        """A result within the bytes that the bounds are quantized to."""
        attrs: Any = attrs_of(call)
        kind = np.iinfo(attrs.out_dtype)
        for clamp, bound, beyond in ((op.maximum, low, kind.min), (op.minimum, high, kind.max)):
            if not np.isfinite(bound):
                continue
            scale, zero = (a.data for a in call.args[1:])  # type: ignore[attr-defined]
            end = attrs.numpy(np.float32(bound), scale, zero)
            if int(end) != beyond:
                made = clamp(self.named(made), const(end))
        return made

    def named(self, value: Any) -> Any:
        return self.emit(value) if isinstance(value, Call) else value

    # constants -----------------------------------------------------------------------------------

    def table_of(self, x: Any) -> Table | None:
        """The quantised constant that x is, perhaps transposed or reshaped."""
        value = self.value_of(x)
        operator = called(value)
        if operator is Dequantize and all(isinstance(a, Constant) for a in value.args):
            values, scale, zero = (a.data for a in value.args)
            attrs: Any = attrs_of(value)
            axis = attrs.axis % max(values.ndim, 1) if scale.size > 1 else None
            return Table(values, scale.reshape(-1), zero.reshape(-1), axis)
        if operator is PermuteDims:
            return self.transposed(value)
        if operator is Reshape:
            return self.reshaped(value)
        return None

    def transposed(self, value: Any) -> Table | None:
        found = self.table_of(value.args[0])
        if found is None:
            return None
        order = attrs_of(value).order(found.values.ndim)  # type: ignore[attr-defined]
        axis = None if found.axis is None else order.index(found.axis)
        return found._replace(values=found.values.transpose(order), axis=axis)

    def reshaped(self, value: Any) -> Table | None:
        """Of a line, such as a bias."""
        found = self.table_of(value.args[0])
        shape = [as_int(d) for d in value.struct_info.dims or ()]
        if found is None or None in shape or found.values.ndim != 1:
            return None
        axis = None if found.axis is None else next(i for i, d in enumerate(shape) if d != 1)
        return found._replace(values=found.values.reshape(shape), axis=axis)  # type: ignore[arg-type]

    def tensor(self, x: Any) -> tuple[Any, build.Scale] | None:
        """The bytes that x is dequantized from, with their scale."""
        value = self.value_of(x)
        if called(value) is not Dequantize:
            return None
        scale = _scale_of(*value.args[1:])
        return None if scale is None else (value.args[0], scale)

    def bias(self, x: Any, unit: np.ndarray) -> np.ndarray | None:
        """A constant line of channels in steps of `unit`, int32; None where it is none."""
        value = self.value_of(x)
        found = self.table_of(x)
        if found is None and not isinstance(value, Constant):
            return None
        if found is not None and found.is_in_steps_of(unit):
            return found.values.reshape(-1)
        floats = value.data.astype(np.float64) if found is None else found.floats()
        channels = max(unit.size, floats.size)
        steps = np.rint(np.broadcast_to(floats.reshape(-1), channels) / unit.astype(np.float64))
        return steps.astype(np.int32) if np.abs(steps).max(initial=0) < 2**31 else None

    # operators -----------------------------------------------------------------------------------

    @rule("IntegerOps")
    def move(self, value: Call, result: build.Scale) -> Any:
        """The same move of bytes that all have the result's scale."""
        given = self.value_of(value.args[0])
        parts = given.fields if isinstance(given, Tuple) else (value.args[0],)
        found = [self.tensor(x) for x in parts]
        if any(f is None or f[1] != result for f in found):
            return None
        fields = tuple(f[0] for f in found if f is not None)
        first = Tuple(fields) if isinstance(given, Tuple) else fields[0]
        return Call(value.op, (first, *value.args[1:]), value.attrs)


Rule = Callable[[_Integers, Any, build.Scale], Any]


def _scale_of(scale: Any, zero: Any) -> build.Scale | None:
    if not isinstance(scale, Constant) or not isinstance(zero, Constant):
        return None
    return build.Scale.of(scale.data, zero.data)


def _ends_of(value: Any) -> tuple[float, float] | None:
    """The bounds of a relu or a clip."""
    return attrs_of(value).clamps(*value.args) if called(value) is not OpDecl else None


@rule("IntegerOps")
def _convolution(m: _Integers, value: Any, result: build.Scale, bias: Any = None) -> Any:
    """A convolution of bytes with int32 sums, scaled to the result's bytes."""
    conv: Any = attrs_of(value)
    data, table = m.tensor(value.args[0]), m.table_of(value.args[1])
    weight = None if table is None else table.weight(0)
    if data is None or weight is None or not conv.is_plain:
        return None
    start = None if bias is None else m.bias(bias, data[1].scale * weight.scale)
    if bias is not None and (start is None or start.size != len(weight.values)):
        return None
    window = {k: getattr(conv, k) for k in ("strides", "padding", "dilation", "groups")}
    sums = build.convolution(m.emit, *data, weight, start, **window)
    return build.requantize(sums, build.scales_of(data[1], weight, result), result, 2)


@rule("IntegerOps")
def _product(m: _Integers, value: Any, result: build.Scale, bias: Any = None) -> Any:
    """A product of bytes with int32 sums, scaled to the result's bytes."""
    data, table = m.tensor(value.args[0]), m.table_of(value.args[1])
    if data is None or table is None or table.values.ndim != 2:
        return None
    weight = table.weight(1)
    if weight is None:
        return None
    start = None if bias is None else m.bias(bias, data[1].scale * weight.scale)
    if bias is not None and (start is None or start.size != len(weight.values)):
        return None
    sums = build.product(m.emit, *data, weight, start)
    return build.requantize(sums, build.scales_of(data[1], weight, result), result)


@rule("IntegerOps")
def _sum(m: _Integers, value: Any, result: build.Scale) -> Any:
    """A bias behind a convolution or a product; or two quantised tensors."""
    for one, other in (value.args, value.args[::-1]):
        inner = m.value_of(one)
        known = _WITH_BIAS.get(called(inner)) if m.use_count(one) == 1 else None
        if known is not None and _is_line(other, _CHANNEL[called(inner)], value):
            made = known(m, inner, result, other)
            if made is not None:
                return made
    a, b = (m.tensor(arg) for arg in value.args)
    kind = np.asarray(result.zero).dtype
    if a is None or b is None or any(np.asarray(x[1].zero).dtype != kind for x in (a, b)):
        return None
    return build.addition(a[0], b[0], a[1], b[1], result)


def _is_line(x: Any, axis: int, value: Any) -> bool:
    """True for a tensor that differs only along the channels, counted from the end."""
    dims, out = x.struct_info.dims, value.struct_info.dims
    if dims is None or out is None or len(dims) > len(out):
        return False
    return all(as_int(d) == 1 for i, d in enumerate(dims) if i - len(dims) != axis)


@rule("IntegerOps")
def _mean(m: _Integers, value: Any, result: build.Scale) -> Any:
    """A mean of bytes over known dimensions."""
    attrs: Any = attrs_of(value)
    data = m.tensor(value.args[0])
    dims = None if data is None else data[0].struct_info.dims
    axes = attrs.axis if isinstance(attrs.axis, tuple) else (attrs.axis,)
    if data is None or dims is None or None in axes or not attrs.keepdims:
        return None
    axes = tuple(a % len(dims) for a in axes)
    if any(as_int(dims[a]) is None for a in axes):
        return None
    known = [as_int(d) for d in dims]
    return build.average(m.emit, *data, result, known, axes)


_WITH_BIAS: dict[type[OpDecl], Any] = {Conv2d: _convolution, Matmul: _product}
#: where the channels are, counted from the end
_CHANNEL: dict[type[OpDecl], int] = {Conv2d: -3, Matmul: -1}
_RULES: dict[type[OpDecl], Rule] = {**_WITH_BIAS, Add: _sum, Mean: _mean}
