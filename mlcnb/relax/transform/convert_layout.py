"""ConvertLayout: convolutions work on channels in blocks, and the blocks flow on.

x: (1, 64, 56, 56)                                x1 = R.layout_transform(x, "NCHW", "NCHW16c")
y = R.nn.conv2d(x, w)                      ->     y = R.nn.conv2d(x1, w1, data_layout="NCHW16c", …)
z = R.nn.relu(y)                                  z = R.nn.relu(y)
s = R.nn.softmax(z)                               z1 = R.layout_transform(z, "NCHW16c", "NCHW")
                                                  s = R.nn.softmax(z1)

A vector of 16 channels lies together, so the innermost loop of a convolution is one multiply-add of
whole vectors. Elementwise operators, pooling and concatenation take blocks as they come; an
operator that does not is given the plain layout. Conversions of constants are folded later. After
NeoCPU (Liu et al., USENIX ATC 2019).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mlcnb.core.node import map_children, replace
from mlcnb.core.text import plural
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass
from mlcnb.op.binary import Divide
from mlcnb.op.nn.conv import Conv2d
from mlcnb.op.qnn.conv import QuantizedConv2d
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import of_one_shape, same_dim
from mlcnb.relax.analysis.variables import all_vars, bindings_of, with_nested
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.operator import OpDecl, attrs_of, call_arguments, called
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform import layout_quantized
from mlcnb.relax.transform.desired_layout import LayoutCallback, Layouts, convert_to, rank_of
from mlcnb.relax.transform.narrow_products import takes_pairs
from mlcnb.target import Target


class ConvertLayout(FunctionPass):
    """Give 2-D convolutions channels in blocks of a vector's lanes, and let the blocks flow on.

    desired_layouts: layouts to take in place of blocks, as TVM's pass does: for each operator those
    of the data, of the weight, and maybe of the result: {"relax.nn.conv2d": ["NHWC", "OHWI"]}.
    layout_cb: asked with a call for such a mapping, before `desired_layouts`.
    block: channels in a block; 0 takes the lanes of the current target's float32 vectors.

    Raises:
        PassError: a desired layout is no order of the dimensions that the operator has.
    """

    desired_layouts: Layouts | None = None
    layout_cb: LayoutCallback | None = None
    block: int = 0

    def transform_function(self, func: rx.Function, mod: Any, ctx: Any) -> rx.Function:
        """The function with blocked layouts where they help; itself without 2-D convolutions."""
        if self.desired_layouts is not None or self.layout_cb is not None:
            desired = dict(self.desired_layouts or {})
            made, count = convert_to(func, mod.functions, desired, self.layout_cb)
            ctx.note(f"{count} operators in the desired layouts")
            return made
        if not any(called(b.value) in _CONVOLUTIONS for b in bindings_of(func)):
            ctx.note("no 2-D convolution")
            return func
        target = Target.current() or Target("llvm")
        block = self.block or target.lanes("float32")
        converter = _Converter(func, mod, block)
        converter.target = target
        result = converter.function()
        ctx.note(f"{plural(converter.blocked, 'convolution')} in blocks of {block} channels")
        return result


class _Converter:
    """One function on its way: which variables have a blocked form, and which a plain one."""

    target: Target

    def __init__(self, func: rx.Function, mod: Any, block: int) -> None:
        self.func = func
        self.block = block
        self.layout = f"NCHW{block}c"
        self.emitter = Emitter(mod.functions, Names(v.name_hint for v in all_vars(func)))
        #: old variable -> new variable in the plain layout
        self.plain: dict[rx.Var, Any] = {}
        #: old variable -> new variable in blocks
        self.blocks: dict[rx.Var, Any] = {}
        self.blocked = 0

    def function(self) -> rx.Function:
        """The function rebuilt, block of bindings by block."""
        return replace(self.func, body=self.sequence(self.func.body))

    def sequence(self, seq: rx.SeqExpr) -> rx.SeqExpr:
        """A sequence rebuilt, and those inside of its values."""
        return rx.SeqExpr(tuple(map(self.block_of_bindings, seq.blocks)), seq.body)

    def block_of_bindings(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """A dataflow block in blocked layouts: whatever leaves it is plain, and is itself."""
        if not block_is_dataflow(block):
            return with_bindings(block, tuple(map(self.outside, block.bindings)))
        self.plain, self.blocks = {}, {}
        with self.emitter.scope(True) as bindings:
            for binding in block.bindings:
                self.binding(binding)
            self.flush_outputs(block)
        return with_bindings(block, tuple(bindings))

    def outside(self, binding: Any) -> Any:
        """A binding that stands in no dataflow block: branches and local functions have some."""
        return replace(binding, value=with_nested(binding.value, self.sequence))

    def flush_outputs(self, block: Any) -> None:
        """Variables that leave the dataflow block exist in the plain layout, as themselves."""
        for binding in block.bindings:
            var = binding.var
            if isinstance(var, rx.DataflowVar) or self.plain.get(var) is var:
                continue
            if var in self.plain or var in self.blocks:
                self.bind(var, self.plain.get(var) or self.unblocked(var), self.plain)

    def binding(self, binding: Any) -> None:
        value = binding.value
        made = self.in_blocks(binding.var, value) if isinstance(binding, rx.VarBinding) else None
        if made is not None:
            made = replace(made, span=value.span)
            self.blocks[binding.var] = self.emitter.emit(made)
            return
        is_name = isinstance(value, rx.Var)  # of what may have blocks
        new = self.as_plain(value) if is_name else map_children(value, self.old_to_plain)
        if isinstance(binding, rx.VarBinding):
            self.bind(binding.var, new, self.plain)
        else:
            self.emitter.bindings.append(replace(binding, value=new))

    def in_blocks(self, var: rx.Var, value: Any) -> rx.Call | None:
        """The call that gives blocks, in place of one that does not; None where it cannot be."""
        operator = called(value)
        if operator in _CONVOLUTIONS:
            return _CONVOLUTIONS[operator](self, var, value)
        if self.stays_finite(var, value):
            return _elementwise(self, var, value)
        return None if operator is OpDecl else _declared(self, value)

    def bind(self, var: rx.Var, value: Any, table: dict[rx.Var, Any]) -> None:
        """Bind a value to the variable itself, so that plain parts of the function stay as they
        are.
        """
        normal = self.emitter.value(value)
        self.emitter.bindings.append(rx.VarBinding(var, normal))
        table[var] = var

    def old_to_plain(self, n: Any) -> Any:
        """An expression of the old function in plain layouts."""
        if isinstance(n, rx.Var):
            return self.as_plain(n)
        if isinstance(n, rx.Tuple):
            return map_children(n, self.old_to_plain)
        return n

    def as_plain(self, var: rx.Var) -> Any:
        """The new variable that holds `var` in its own layout."""
        if var in self.plain:
            return self.plain[var]
        if var in self.blocks:
            self.plain[var] = self.emitter.emit(self.unblocked(var))
            return self.plain[var]
        return var

    def unblocked(self, var: rx.Var) -> rx.Call:
        info: Any = var.struct_info
        return op.layout_transform(self.blocks[var], info.shape, src=self.layout, dst="NCHW")

    def as_blocks(self, x: Any) -> Any:
        """The blocked form of an expression of the old function."""
        if isinstance(x, rx.Constant):
            return self.emitter.emit(self.transform(x, "NCHW", self.layout))
        if x not in self.blocks:
            self.blocks[x] = self.emitter.emit(
                self.transform(self.as_plain(x), "NCHW", self.layout)
            )
        return self.blocks[x]

    @staticmethod
    def transform(x: Any, src: str, dst: str) -> rx.Call:
        return op.layout_transform(x, src=src, dst=dst)

    def is_blocked(self, x: Any) -> bool:
        return isinstance(x, rx.Var) and x in self.blocks

    def stays_finite(self, var: rx.Var, value: Any) -> bool:
        """True for what is done element by element and makes nothing infinite of what fills blocks
        up: a division only by numbers, or where nothing does.
        """
        operator = called(value)
        if not operator.finite and operator is not Divide:
            return False
        if operator is Divide and (rank_of(var) != 4 or self.has_filling(var)):
            by = value.args[1]
            if not isinstance(by, rx.Constant) or by.data.ndim or not by.data:
                return False
        return attrs_of(value).is_elementwise(*(a.struct_info for a in value.args))

    def has_filling(self, var: Any) -> bool:
        """True unless the channels are known to fill their blocks."""
        channels = as_int(var.struct_info.dims[1])
        return channels is None or channels % self.block != 0


@rule("ConvertLayout")
def _conv2d(c: _Converter, var: rx.Var, call: rx.Call) -> rx.Call | None:
    """Dense, or groups that fill their blocks: both channels in blocks; depthwise: one; few inputs:
    none.
    """
    conv: Any = attrs_of(call)
    data, weight = call_arguments(call)
    if not conv.is_plain:
        return None
    if data.struct_info.dtype == "bfloat16" and takes_pairs(call, c.target):
        return layout_quantized.pairs(c, call)
    if data.struct_info.dtype != "float32":
        return None
    shape = [as_int(d) for d in weight.struct_info.dims or ()]
    if None in shape or not shape:
        return None
    outer, inner = shape[0], shape[1]
    b = c.block
    assert outer is not None and inner is not None
    if conv.groups == 1 and (inner >= b or c.is_blocked(data)):
        kernel, source = f"OIHW{b}i{b}o" if _fills(inner, b) else f"OIHW{b}o", c.layout
    elif conv.groups == 1:
        kernel, source = f"OIHW{b}o", "NCHW"
    elif inner % b == 0 and (outer // conv.groups) % b == 0:
        kernel, source = f"OIHW{b}i{b}o", c.layout
    elif (inner == 1 and conv.groups == outer) or groups_lie_in(b, conv.groups, outer, inner):
        kernel, source = f"OIHW{b}o", c.layout
    else:
        return None
    x = c.as_blocks(data) if source == c.layout else c.old_to_plain(data)
    w = c.emitter.emit(c.transform(c.old_to_plain(weight), "OIHW", kernel))
    attrs = dataclasses.replace(conv, data_layout=source, kernel_layout=kernel, out_layout=c.layout)
    c.blocked += 1
    return rx.Call(call.op, (x, w), attrs)


def groups_lie_in(block: int, groups: int, outer: int, inner: int) -> bool:
    """True if all that a block of output channels reads lies in a block of input channels at each
    step: it is of one group, or of some whole ones whose input channels lie in one block.
    """
    each = outer // groups
    if outer % block or inner * groups % block:
        return False
    span = block // each * inner if each and block % each == 0 else 0
    return each % block == 0 or (span > 0 and block % span == 0)


def _fills(channels: int, block: int) -> bool:
    """True if little would be saved by reading the channels that are there, one by one."""
    return -(-channels // block) * block <= 1.1 * channels


@rule("ConvertLayout", "elementwise")
def _elementwise(c: _Converter, var: rx.Var, call: rx.Call) -> rx.Call | None:
    """Tensors of one shape in blocks; beside them a number for each channel, place, or for all."""
    if not any(c.is_blocked(a) for a in call.args) or rank_of(var) != 4:
        return None
    sides = [_side(c, arg, var) for arg in call.args]
    if any(s is None for s in sides):
        return None
    return rx.Call(call.op, tuple(s() for s in sides if s is not None), call.attrs)


@rule("ConvertLayout", "declared")
def _declared(c: _Converter, call: rx.Call) -> rx.Call | None:
    """What takes blocks as its declaration says; what would see what fills one up: full ones."""
    first, *rest = call.args or (None,)
    parts = first.fields if isinstance(first, rx.Tuple) else (first,)
    if not any(c.is_blocked(x) for x in parts):
        return None
    seen = called(call).sees_filling
    attrs = attrs_of(call).in_blocks(c.layout)
    if attrs is None or (seen and any(rank_of(x) != 4 or c.has_filling(x) for x in parts)):
        return None
    given = tuple(c.as_blocks(x) for x in parts)
    args = (
        rx.Tuple(given) if isinstance(first, rx.Tuple) else given[0],
        *map(c.old_to_plain, rest),
    )
    return rx.Call(call.op, args, attrs)


def _side(c: _Converter, arg: Any, out: rx.Var) -> Callable[[], Any] | None:
    """How to make one operand of a blocked elementwise operator, or None where it cannot be."""
    if not isinstance(arg.struct_info, TensorStructInfo):
        return lambda: arg
    if c.is_blocked(arg) and of_one_shape(arg, out):
        return lambda: c.as_blocks(arg)
    dims = arg.struct_info.dims
    if dims is None:
        return None
    if all(as_int(d) == 1 for d in dims) and len(dims) <= 1:
        return lambda: c.old_to_plain(arg)
    if c.is_blocked(arg) and _per_channel(dims, out):
        return lambda: c.as_blocks(arg)
    if isinstance(arg, rx.Constant) and _per_channel(dims, out):
        return lambda: c.as_blocks(_with_sample(arg))
    if len(dims) == 4 and of_one_shape(arg, out):
        return lambda: c.as_blocks(arg)
    if len(dims) == 4 and as_int(dims[1]) == 1:
        return lambda: c.emitter.emit(op.reshape(c.old_to_plain(arg), [*dims, 1]))
    return None


def _per_channel(dims: Any, out: Any) -> bool:
    """(1, C, 1, 1) or (C, 1, 1)"""
    channels = dims[-3] if len(dims) >= 3 else None
    ones = [d for i, d in enumerate(dims) if i != len(dims) - 3]
    fits = channels is not None and same_dim(channels, out.struct_info.dims[1])
    return fits and all(as_int(d) == 1 for d in ones)


def _with_sample(arg: rx.Constant) -> rx.Constant:
    return rx.Constant(arg.data.reshape((1, *arg.data.shape))) if arg.data.ndim == 3 else arg


#: what brings tensors into blocks
_CONVOLUTIONS: dict[type[OpDecl], Callable[[_Converter, rx.Var, rx.Call], rx.Call | None]] = {
    Conv2d: _conv2d,
    QuantizedConv2d: layout_quantized.qconv2d,
}
