"""GroupConvToMatmul: a grouped convolution with 1 x 1 windows is a batched product of matrices.

y = R.nn.conv2d(x, w, groups=4)          ->     x1 = R.reshape(x, (1, 4, 34, 784))
x: (1, 136, 28, 28), w: (136, 34, 1, 1)         y1 = R.matmul(w1, x1)        w1: (4, 34, 34)
                                                y = R.reshape(y1, (1, 136, 28, 28))

So is one without groups, with no other window near it: what comes from no convolution and goes to
none lies in the plain layout, and would be brought to blocks of channels and back for it alone.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.nn.conv import Conv, Conv2d
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import bindings_of, value_uses
from mlcnb.relax.expr import Var
from mlcnb.relax.operator import attrs_of, called
from mlcnb.relax.transform.written_out import CallPass, Reader, is_plain_float32

#: places from which on a product of the plain layout is faster than one of blocks
PLACES = 64


class GroupConvToMatmul(CallPass, says="grouped convolutions became products"):
    """Turn 1 x 1 convolutions in groups (not depthwise ones), or away from others, into products.

    Of layout NCHW, stride 1, no padding, weights of shape (O, I, 1, 1) with I above 1, float32
    results; without groups of so many known places, all whose neighbours are such. Others stay,
    none is refused.
    """


class _Finder(Reader, of=GroupConvToMatmul):
    @cached_property
    def apart(self) -> set[Var]:
        """Results of convolutions that images connect with pointwise ones only."""
        above: dict[Var, Var] = {}

        def top(var: Var) -> Var:
            while (found := above.setdefault(var, var)) is not var:
                var = found
            return var

        calls = [(b.var, b.value) for b in bindings_of(self.func)]
        for var, value in calls:
            for x in (x for x in value_uses(value) if isinstance(x, Var)):
                if _is_image(x) and (_is_image(var) or not hasattr(var.struct_info, "dims")):
                    above[top(x)] = top(var)
        windows = [
            (top(var), var, value) for var, value in calls if issubclass(called(value), Conv)
        ]
        near = {each for each, _, value in windows if not _is_pointwise(value)}
        return {var for each, var, _ in windows if each not in near}

    @GroupConvToMatmul.rewrites(Conv2d)
    def pointwise(self, call: Any, conv: Any) -> Any:
        """A 1 x 1 convolution is a product, for each group."""
        x, weight = call.args
        if not _is_pointwise(call) or x.struct_info.dims is None:
            return None
        outer, inner = (as_int(d) for d in weight.struct_info.dims[:2])
        assert outer is not None and inner is not None
        n, _, h, w = x.struct_info.dims
        groups = [conv.groups] if conv.groups > 1 else []
        if not groups and not (is_plain_float32(conv, x) and self.pays(h * w)):
            return None
        flat = self.emit(op.reshape(x, [n, *groups, inner, h * w]))
        matrix = self.emit(op.reshape(weight, [*groups, outer // conv.groups, inner]))
        result = self.emit(op.matmul(matrix, flat))
        return op.reshape(result, [n, outer, h, w])

    def pays(self, places: Any) -> bool:
        """Whether the convolution that is bound is worth it, without groups."""
        return (as_int(places) or 0) >= PLACES and self.var in self.apart


def _is_image(x: Any) -> bool:
    return getattr(x.struct_info, "ndim", 0) == 4


def _is_pointwise(call: Any) -> bool:
    conv: Any = attrs_of(call)
    shape = [as_int(d) for d in call.args[1].struct_info.dims or ()]
    return (
        isinstance(conv, Conv2d)
        and conv.is_plain
        and None not in shape[:2]
        and len(shape) == 4
        and shape[1] not in (None, 1)
        and shape[2:] == [1, 1]
        and tuple(conv.strides) == (1, 1)
        and not any(conv.padding)
        and conv.out_dtype in (None, "float32")
    )
