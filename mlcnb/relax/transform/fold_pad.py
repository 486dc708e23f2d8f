"""FoldPad: zeros put around an image become the padding of the convolution that reads it.

x1 = R.nn.pad(x, (0, 0, 0, 0, 0, 1, 0, 1))      ->      y = R.nn.conv2d(x, w, padding=(0, 0, 1, 1))
y = R.nn.conv2d(x1, w)
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mlcnb.op.manipulate.pad import Pad
from mlcnb.op.nn.conv import Conv2d
from mlcnb.relax.expr import Call, Constant
from mlcnb.relax.operator import attrs_of, call_arguments, called
from mlcnb.relax.transform.written_out import CallPass, Reader


class FoldPad(
    CallPass, says="pads folded into convolutions", says_one="pad folded into convolutions"
):
    """Fold constant zero padding into the convolution that reads the padded tensor.

    Images of shape (N, C, H, W) in any dtype, zeros around H and W alone; other pads stay, none is
    refused.
    """


@FoldPad.rewrites(Conv2d)
def _padding(r: Reader, call: Any, conv: Any) -> Any:
    """Zeros around the image that a convolution reads become its padding; a pad that nothing reads
    any more is left for DeadCodeElimination.
    """
    source = r.value_of(call.args[0])
    around = _zeros_around(source)
    if conv.data_layout != "NCHW" or around is None:
        return None
    padding = tuple(a + b for a, b in zip(conv.padding, around, strict=True))
    attrs = dataclasses.replace(conv, padding=padding)
    return Call(call.op, (source.args[0], *call.args[1:]), attrs)


def _zeros_around(value: Any) -> tuple[int, int, int, int] | None:
    """(top, left, bottom, right) of a pad of an NCHW image with zeros; else None."""
    if called(value) is not Pad or value.args[0].struct_info.ndim != 4:
        return None
    pad: Any = attrs_of(value)
    arguments = call_arguments(value)
    if pad.pad_mode != "constant" or not _is_zero(pad, arguments):
        return None
    widths = tuple(int(w) for w in pad.pad_width)
    if len(widths) != 8 or any(widths[:4]) or min(widths) < 0:
        return None
    top, bottom, left, right = widths[4:]
    return top, left, bottom, right


def _is_zero(pad: Any, arguments: list[Any]) -> bool:
    """True if what is put around the image is zero, given as attribute or as a constant."""
    given = [a for a in arguments[1:] if a is not None]
    if given:
        return isinstance(given[0], Constant) and not given[0].data.any()
    return float(getattr(pad, "pad_value", 0)) == 0
