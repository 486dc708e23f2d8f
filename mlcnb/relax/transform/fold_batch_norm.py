"""FoldBatchNorm: what scales and shifts the channels of a convolution goes into its weights.

lv = R.nn.conv2d(x, W)                               lv = R.nn.conv2d(x, W * s)
lv1 = R.nn.batch_norm(lv, gamma, beta, m, v)   ->    gv = R.add(lv, b)
gv = lv1[0]                                          s = gamma / sqrt(v + epsilon); b = beta - m * s

The same for `multiply`, `divide`, `add` and `subtract` by one constant a channel. A batch_norm that
follows no convolution becomes `x * s + b`, and `(x * a + b) * c + d` one product and one sum, too.
Weights and statistics have to be constants (see BindParams); the new ones are computed in float64
and rounded once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlcnb.ir.memory import by_halves, mapped_empty
from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.span import Span, merge
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.binary import Add
from mlcnb.op.nn.batch_norm import BatchNorm
from mlcnb.op.nn.conv import Conv
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings


class _Affine(NamedTuple):
    """A convolution whose result has perhaps been shifted: where its channels are, its parts."""

    conv: rx.Call
    weight: np.ndarray
    bias: np.ndarray | None
    channel: int
    span: Span | None


class _Line(NamedTuple):
    """`data * scale + shift`, as so many operators compute it."""

    data: rx.Expr
    scale: np.ndarray
    shift: np.ndarray
    operators: int


def fold_batch_norm(func: rx.Function) -> rx.Function:
    """`func` with batch_norm and channelwise arithmetic folded into convolutions.

    Weights are constants of float dtype, factors have shape (C,) or one element; others stay,
    nothing is refused.
    """
    return _Folding().fold(func)


class _Folding(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self.into_conv = self.alone = self.lines = 0
        #: identity of a call -> the call, which keeps it, and its line
        self.known: dict[int, tuple[Any, _Line | None]] = {}

    def fold(self, func: rx.Function) -> rx.Function:
        """Rewrite, and drop what is not used any more."""
        made = self.rewrite(func)
        return func if made is func else remove_unused_bindings(made)

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """A batch_norm, or arithmetic with one constant a channel."""
        operator = called(call)
        if operator is BatchNorm:
            return self.batch_norm(call)
        return self.arithmetic(call, operator) if operator.line is not None else None

    visit_item = Mutator.made_field

    def batch_norm(self, call: rx.Call) -> Any:
        """scale and shift of constant statistics: into the convolution before, or as they are."""
        attrs: Any = attrs_of(call)
        info = call.args[0].struct_info
        if attrs.training or not isinstance(info, TensorStructInfo) or info.ndim < 1:
            return None
        arrays = [a.data.astype("float64") for a in call.args[1:] if isinstance(a, rx.Constant)]
        if len(arrays) != 4:
            return None
        gamma, beta, mean, var = arrays
        with np.errstate(all="ignore"):
            scale = (gamma if attrs.scale else 1.0) / np.sqrt(var + attrs.epsilon)
            shift = (beta if attrs.center else 0.0) - mean * scale
        result = self.scaled(call.args[0], scale, shift, attrs.axis % info.ndim, call.span)
        if result is None:
            result = self.scale_and_shift(call, scale, shift, attrs.axis % info.ndim)
        if result is None:
            return None
        return rx.Tuple((self.emit(result), call.args[3], call.args[4]))

    @rule("FoldBatchNorm")
    def scale_and_shift(self, call: rx.Call, scale: Any, shift: Any, axis: int) -> rx.Expr:
        """x * s + b: two operators that fuse with what stands around."""
        self.alone += 1
        data = call.args[0]
        shape = [-1 if i == axis else 1 for i in range(data.struct_info.ndim)]
        kind = data.struct_info.dtype.numpy
        s, b = (rx.Constant(v.reshape(shape).astype(kind), call.span) for v in (scale, shift))
        return op.add(op.multiply(data, s), b)

    def arithmetic(self, call: rx.Call, operator: type[OpDecl]) -> Any:
        """`conv * c`, `conv + b + c`, …: the constant goes into weights and bias."""
        data, constant = call.args
        if isinstance(data, rx.Constant) and operator.commutative:
            data, constant = constant, data
        affine = self.affine(data)
        if not isinstance(constant, rx.Constant):
            return None
        if affine is None:
            return self.joined(call)
        value = _per_channel(constant.data, affine, data.struct_info)
        if value is None:
            return None
        with np.errstate(all="ignore"):
            scale, shift = operator.line(value)  # type: ignore[misc]
        if affine.bias is None and shift.any():
            return None
        return self.scaled(data, scale, shift, affine.channel, call.span)

    @rule("FoldBatchNorm", "lines")
    def joined(self, call: rx.Call) -> rx.Expr | None:
        """`(x * a + b) * c + d` as one product and one sum; None where that is not fewer.

        It begins with a product: `(x + a) * b` is exact where x is about -a, and stays.
        """
        line = self.line(call)
        if line is None:
            return None
        kind = line.data.struct_info.dtype.numpy  # type: ignore[union-attr]
        scale, shift = (_rounded(v, kind) for v in (line.scale, line.shift))
        if scale is None or shift is None:
            return None
        product, sum_ = bool((scale != 1).any()), bool(shift.any())
        if not 0 < product + sum_ < line.operators:
            return None
        self.lines += 1
        made = op.multiply(line.data, rx.Constant(scale, call.span)) if product else line.data
        return op.add(made, rx.Constant(shift, call.span)) if sum_ else made

    def line(self, call: Any) -> _Line | None:
        """What arithmetic with constants computes of the first operand that is none; found once for
        each call, since those of a chain ask along all of it."""
        if id(call) not in self.known:
            self.known[id(call)] = (call, self.found_line(call))
        return self.known[id(call)][1]

    def found_line(self, call: Any) -> _Line | None:
        """The same, by its definition."""
        operator = called(call)
        if operator.line is None:
            return None
        data, constant = call.args
        if isinstance(data, rx.Constant) and operator.commutative:
            data, constant = constant, data
        same = isinstance(constant, rx.Constant) and same_known(data.struct_info, call.struct_info)
        if not same or constant.data.dtype.kind != "f":
            return None
        with np.errstate(all="ignore"):
            scale, shift = operator.line(constant.data.astype("float64"))
        before = self.only_used_here(data)
        inner = None if before is None else self.line(before)
        if inner is None:
            return None if shift.any() else _Line(data, scale, shift, 1)
        if np.broadcast(inner.scale, scale).size > max(inner.scale.size, scale.size):
            return None
        with np.errstate(all="ignore"):
            joined = inner.scale * scale, inner.shift * scale + shift
        if any(_rounded(v, constant.data.dtype) is None for v in joined):
            return None
        return _Line(inner.data, *joined, inner.operators + 1)

    @rule("FoldBatchNorm", "into_convolution")
    def scaled(
        self, data: Any, scale: np.ndarray, shift: np.ndarray, axis: int, span: Span | None
    ) -> rx.Expr | None:
        """`data * scale + shift` as a convolution and an add; None where data is no such thing."""
        affine = self.affine(data)
        if affine is None or affine.channel != axis or not np.isfinite(scale).all():
            return None
        self.into_conv += 1
        conv = affine.conv
        span = merge(affine.span, span)
        attrs: Any = attrs_of(conv)
        line = [-1 if c == "O" else 1 for c in attrs.kernel_layout]
        kind = affine.weight.dtype
        weight = mapped_empty(affine.weight.shape, kind)
        factors = np.broadcast_to(scale.reshape(line), weight.shape)

        def fill(rows: slice) -> None:
            given, factor = affine.weight[rows], factors[rows]
            np.multiply(given, factor, weight[rows], dtype="float64", casting="unsafe")

        by_halves(weight, fill)
        source = conv.args[1].span  # type: ignore[attr-defined]
        args = (conv.args[0], rx.Constant(weight, source))
        made = rx.Call(conv.op, args, conv.attrs, (), conv.struct_info, span)
        bias = shift if affine.bias is None else affine.bias.astype("float64") * scale + shift
        if affine.bias is None and not bias.any():
            return made
        info: Any = conv.struct_info
        shape = [-1 if i == axis else 1 for i in range(info.ndim)]
        added = rx.Constant(bias.reshape(shape).astype(info.dtype.numpy), span)
        add = op.add(self.emit(made), added)
        return rx.Call(add.op, add.args, add.attrs, (), None, span)

    def affine(self, data: Any) -> _Affine | None:
        """The convolution behind `data`, with a bias or without, if nothing else uses it."""
        call = self.only_used_here(data)
        if call is None:
            return None
        if called(call) is Add and isinstance(call.args[1], rx.Constant):
            conv = self.only_used_here(call.args[0])
            found = None if conv is None else _convolution(conv)
            if found is None:
                return None
            bias = _per_channel(call.args[1].data, found, call.struct_info)
            span = merge(found.span, call.span)
            return None if bias is None else found._replace(bias=bias, span=span)
        return _convolution(call)

    def only_used_here(self, data: Any) -> Any:
        """The operator call that `data` is bound to, where this is its only use."""
        call = self.value_of(data)
        if (
            not isinstance(call, rx.Call)
            or not isinstance(call.op, rx.Op)
            or self.use_count(data) > 1
        ):
            return None
        return call


def _convolution(call: rx.Call) -> _Affine | None:
    """A convolution of constant weights in a plain layout."""
    if not issubclass(called(call), Conv) or not isinstance(call.args[1], rx.Constant):
        return None
    attrs: Any = attrs_of(call)
    weight = call.args[1].data
    layouts = attrs.kernel_layout + attrs.out_layout
    if not (layouts.isalpha() and layouts.isupper()) or weight.dtype.kind != "f":
        return None
    if attrs.out_dtype not in (None, weight.dtype.name):
        return None
    return _Affine(call, weight, None, attrs.out_layout.index("C"), call.span)


def _per_channel(value: np.ndarray, affine: _Affine, info: Any) -> np.ndarray | None:
    """A constant that broadcasts along all but the channels, as one number for each of them."""
    count = affine.weight.shape[attrs_of(affine.conv).kernel_layout.index("O")]  # type: ignore[attr-defined]
    if value.ndim > info.ndim or value.size not in (1, count):
        return None
    shape = (1,) * (info.ndim - value.ndim) + value.shape
    if any(d != 1 for i, d in enumerate(shape) if i != affine.channel):
        return None
    return np.broadcast_to(value.reshape(-1).astype("float64"), (count,))


def _rounded(exact: np.ndarray, kind: np.dtype) -> np.ndarray | None:
    """Numbers in a dtype; None where it cannot hold them: what is too large or too small for it."""
    with np.errstate(all="ignore"):
        made = exact.astype(kind)
    return made if np.isfinite(made).all() and not ((made == 0) & (exact != 0)).any() else None


class FoldBatchNorm(FunctionPass):
    """Fold batch_norm, and scaling and shifting of channels, into the convolution before it.

    Weights of float dtype and constant; factors are constants of one element or one a channel, of
    shape (C,) or what broadcasts so. Of what follows no convolution, products and sums with
    constants become one of each. Others stay, nothing is refused.
    """

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """See `fold_batch_norm`."""
        folding = _Folding()
        made = folding.fold(func)
        if folding.into_conv:
            ctx.note(f"{folding.into_conv} folded into convolutions")
        if folding.alone:
            ctx.note(f"{folding.alone} batch_norms follow none: scale and shift")
        if folding.lines:
            ctx.note(f"{folding.lines} products and sums joined with those before")
        return made
