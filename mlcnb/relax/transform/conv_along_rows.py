"""ConvAlongRows: windows over one dimension are windows of a 2-D convolution that lie in its rows.

y = R.nn.conv1d(x, w)               x1 = R.expand_dims(x, axis=2)         x1: (1, 64, 1, 100)
z = R.add(y, bias)            ->    y1 = R.nn.conv2d(x1, w1)              w1: (64, 64, 1, 3)
z1 = R.nn.relu(z)                   z2 = R.nn.relu(R.add(y1, bias1))
                                    z1 = R.squeeze(z2, axis=2)

Layouts, algorithms and schedules of 2-D convolutions then serve the others. So is a conv2d whose
images are one column wide: what lies in memory is the same with the column as a row, and kernels
take their tiles along rows. Elementwise operators that follow stay between the convolutions.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.op.nn.conv import Conv1d, Conv2d
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import of_one_shape
from mlcnb.relax.expr import BindingBlock, Call, Constant, Var
from mlcnb.relax.operator import attrs_of, called, make_call
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.written_out import (
    CallPass,
    Reader,
)


class ConvAlongRows(CallPass, says="convolutions along rows", says_one="convolution along rows"):
    """Turn 1-D convolutions, and 2-D ones of images one column wide, into 2-D ones of one row.

    Of layouts NCW and OIW, or NCHW and OIHW with images and kernels of width 1 and no padding
    beside them; any dtype, any sizes of known rank. Others stay, none is refused.
    """


class _Rewriter(Reader, of=ConvAlongRows):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        #: tensors (N, C, L) or (N, C, L, 1) -> the same as (N, C, 1, L)
        self.rows: dict[Var, Var] = {}

    @ConvAlongRows.rewrites(Conv1d)
    def conv1d(self, call: Any, conv: Any) -> Any:
        """A 1-D convolution is a 2-D one with images of one row."""
        if not conv.is_plain:
            return None
        before, after = conv.padding
        return self.along(call, (1, *conv.strides), (0, before, 0, after), (1, *conv.dilation))

    @ConvAlongRows.rewrites(Conv2d)
    def column(self, call: Any, conv: Any) -> Any:
        """Images of one column are images of one row."""
        top, left, bottom, right = conv.padding
        if not conv.is_plain or left or right:
            return None
        data, weight = ([as_int(d) for d in arg.struct_info.dims or ()] for arg in call.args)
        if data[3:] != [1] or weight[3:] != [1] or data[2] == 1:
            return None
        return self.along(call, conv.strides[::-1], (0, top, 0, bottom), conv.dilation[::-1])

    def along(self, call: Call, strides: Any, padding: Any, dilation: Any) -> Any:
        """The convolution of rows, and its result as it was wanted."""
        data, weight = call.args
        if not all(_has_dims(x) for x in call.args):
            return None
        conv: Any = attrs_of(call)
        made = make_call(
            Conv2d,
            self.row_of(data),
            self.row_of(weight),
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=conv.groups,
            out_dtype=conv.out_dtype,
        )
        return self.known(replace(made, span=call.span), len(data.struct_info.dims))

    def visit_block(self, block: BindingBlock) -> BindingBlock:
        """What a block made is not looked for in another, which may not see it."""
        around, self.rows = self.rows, {}
        made = super().visit_block(block)
        self.rows = around
        return made

    def visit_call(self, call: Call, var: Var) -> Any:
        """A convolution, or an elementwise operator on what one of them made."""
        known = any(a in self.rows for a in call.args if isinstance(a, Var))
        if known and called(call).elementwise:
            return self.elementwise(call, var)
        return super().visit_call(call, var)

    @rule("ConvAlongRows", "elementwise")
    def elementwise(self, call: Call, var: Var) -> Any:
        """What is done to each element is done to the rows."""
        info: Any = var.struct_info
        rank = len(info.dims or ())
        args = [self.operand(a, rank, var) for a in call.args]
        if any(a is None for a in args):
            return None
        return self.known(replace(call, args=tuple(args), struct_info=None), rank)

    def known(self, made: Any, rank: int) -> Any:
        """A tensor of rows, remembered; in the shape that was wanted."""
        row = self.emit(made)
        if rank == 3:
            back = self.emit(op.squeeze(row, axis=[2]))
        else:
            info: Any = row.struct_info
            n, c, _, length = info.dims
            back = self.emit(op.reshape(row, [n, c, length, 1]))
        self.rows[back] = row
        return back

    def operand(self, x: Any, rank: int, out: Var) -> Any:
        """An operand beside rows: rows itself, or the same for each of them; else None."""
        if not isinstance(x.struct_info, TensorStructInfo):
            return x
        if isinstance(x, Var) and x in self.rows:
            return self.rows[x] if of_one_shape(x, out) else None
        dims = x.struct_info.dims
        if dims is None:
            return None
        if of_one_shape(x, out):
            return self.row_of(x)
        if all(as_int(d) == 1 for d in dims):
            return x if len(dims) <= rank else None
        ones = rank - 2
        if len(dims) <= ones or any(as_int(d) != 1 for d in dims[-ones:]):
            return None
        if rank == 4:
            return x
        is_constant = isinstance(x, Constant)
        return Constant(x.data[..., None]) if is_constant else self.emit(op.expand_dims(x, [-1]))

    def row_of(self, x: Any) -> Any:
        """A tensor (…, L) or (…, L, 1) as (…, 1, L)."""
        if isinstance(x, Var) and x in self.rows:
            return self.rows[x]
        dims = x.struct_info.dims
        if len(dims) == 3:
            return self.emit(op.expand_dims(x, axis=[2]))
        return self.emit(op.reshape(x, [dims[0], dims[1], 1, dims[2]]))


def _has_dims(x: Any) -> bool:
    return isinstance(x.struct_info, TensorStructInfo) and x.struct_info.dims is not None
