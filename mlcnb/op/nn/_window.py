"""Windows that slide: what convolution and pooling share.

    output = floor((input + padding - (kernel - 1) * dilation - 1) / stride) + 1

padding is in TVM's and ONNX's order: all beginnings, then all ends: (top, left, bottom, right).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from mlcnb.ir.prim_ops import as_expr, as_int, ceildiv, maximum
from mlcnb.op._dims import ints, tell_dims, tidy
from mlcnb.op.onnx import OnnxNode
from mlcnb.relax.operator import OpDecl, declared_fields, operator

Family = TypeVar("Family", bound=OpDecl)
#: an attribute: an int, or a tuple with one for each spatial dimension (padding: or one a side)
PerDimension: TypeAlias = Any


def of_each_rank(name: str, family: type[Family]) -> list[type[Family]]:
    """The operators of a family over 1, 2 and 3 spatial dimensions; in `name`, {} is the number.

    The family declares arguments and attributes as over W. Over H, W and over D, H, W a default
    that is a tuple is as much longer, and a layout has the letters. In its text {rank} is the
    number, {letters} the letters and {over} "along W" or "over H, W".
    """
    return [_over("DHW"[-rank:], name.format(rank), family) for rank in (1, 2, 3)]


def _over(spatial: str, name: str, family: type[Family]) -> type[Family]:
    rank, letters = len(spatial), ", ".join(spatial)
    declared = declared_fields(family)
    defaults = {n: getattr(family, n) for n in declared if hasattr(family, n)}
    for n, default in defaults.items():
        if isinstance(default, tuple):
            defaults[n] = default * rank
        elif isinstance(default, str):
            defaults[n] = default.replace("W", spatial)
    over = f"along {letters}" if rank == 1 else f"over {letters}"
    text = (family.__doc__ or "").format(rank=rank, letters=letters, over=over)
    words = name.rpartition(".")[2].split("_")
    title = "".join(word[0].upper() + word[1:] for word in words)
    body = {"__annotations__": declared, "__doc__": text, "__module__": family.__module__}
    return operator(name)(type(title, (family,), {**body, **defaults}))


def settle(op: OpDecl, **values: Any) -> None:
    """Give attributes their canonical form; for `__post_init__` only."""
    for name, value in values.items():
        object.__setattr__(op, name, value)


def each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for each spatial dimension."""
    found = (value,) if isinstance(value, int) else tuple(value)
    return found * rank if len(found) == 1 else found


def sides(padding: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Beginnings and ends, from one number, one a dimension, or both."""
    found = each(padding, rank)
    return found * 2 if len(found) == rank and rank > 0 else found


def no_void(kind: str | None) -> str | None:
    """A dtype, or None for TVM's "void" and ""."""
    return None if kind in ("void", "", None) else str(kind)


def extent(size: Any, pad: int, kernel: Any, stride: int, dilation: int, ceil: bool = False) -> Any:
    """How many places a window has along one dimension of `size` elements with `pad` around."""
    span = tidy(size + pad - (kernel - 1) * dilation - 1)
    return tidy((span + (stride - 1 if ceil else 0)) // stride + 1)


class Seen(NamedTuple):
    """What windows see of one dimension: the places `taps` of the kernel, and how they slide:
    `before` and `after` elements of padding (cut off where negative), stride, dilation.
    """

    taps: range
    before: int
    after: int
    stride: int
    dilation: int


def seen(given: Seen, size: Any) -> Seen:
    """The same windows over `size` elements without the places that only ever see padding.

    So a dilation of 2**40 that leaves the middle of a kernel needs no memory of that size. As given
    where every place sees something, or the size is not known.
    """
    count, (before, after, stride, dilation) = len(given.taps), given[1:]
    known = as_int(size)
    if known is None or before < 0 or after < 0:
        return given
    places = as_int(extent(known, before + after, count, stride, dilation)) or 0
    if places < 1:
        return given
    last = (places - 1) * stride
    low = max(0, -((last - before) // dilation))
    high = min(count - 1, (before + known - 1) // dilation)
    step = stride if places > 1 else 1
    if low > high:  # nothing but padding
        return Seen(range(1), last + 1, -known, step, 1)
    if (low, high) == (0, count - 1) and places > 1:
        return given
    reach = last + (high - low) * dilation + 1
    before -= low * dilation
    apart = dilation if high > low else 1
    return Seen(range(low, high + 1), before, reach - known - before, step, apart)


def taps(
    x: np.ndarray,
    kernel: Sequence[int],
    out: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    first: int = 2,
) -> Any:
    """For each place in the kernel: (place, what all windows see there)."""
    for tap in np.ndindex(*kernel):
        cuts = [
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, dilation, out, strides, strict=True)
        ]
        yield tap, x[(*(slice(None),) * first, *cuts)]


def onnx_pads(
    n: OnnxNode,
    spatial: Sequence[Any],
    kernel: Sequence[int | None],
    strides: Sequence[int],
    dilation: Sequence[int],
    is_padded: bool = False,
) -> tuple[int, ...]:
    """`pads`, or what `auto_pad` makes of them; a size of the kernel that is open is None.

    is_padded: where these are open, the image has been through `same_padded`.
    """
    mode, rank = n.attr("auto_pad", "NOTSET"), len(kernel)
    if not len(spatial) == rank == len(strides) == len(dilation):
        n.refuse(
            f"kernel {tuple(kernel)}, strides {tuple(strides)} and dilations {tuple(dilation)} "
            f"are not one number for each spatial dimension of {tell_dims(spatial)}"
        )
    if mode in ("NOTSET", ""):
        pads = tuple(n.attr("pads") or (0,) * (2 * rank))
        if any(width < 0 for width in pads):
            n.refuse(f"negative pads {pads}", hint="ONNX has 0 or more; a Pad node may cut")
        return pads
    if mode == "VALID":
        return (0,) * (2 * rank)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        n.refuse(f"auto_pad {mode!r} is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    if is_padded and is_open_same(n, spatial, strides):
        return (0,) * (2 * rank)
    pairs = same_pads(n, spatial, kernel, strides, dilation)
    if ints([width for pair in pairs for width in pair]) is None:
        n.refuse(f"auto_pad with strides needs known sizes, but the input is {tell_dims(spatial)}")
    return (*(before for before, _ in pairs), *(after for _, after in pairs))


def is_open_same(n: OnnxNode, spatial: Sequence[Any], strides: Sequence[int]) -> bool:
    """Whether `auto_pad` makes pads that only a run knows."""
    opened = any(as_int(d) is None and s != 1 for d, s in zip(spatial, strides, strict=True))
    return opened and str(n.attr("auto_pad", "NOTSET")).startswith("SAME")


def same_pads(
    n: OnnxNode,
    spatial: Sequence[Any],
    kernel: Sequence[int | None],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> list[tuple[Any, Any]]:
    """(before, after) of each dimension, of `auto_pad`: the result has ceil(size / stride)."""
    found = []
    for size, k, stride, step in zip(spatial, kernel, strides, dilation, strict=True):
        if k is None:
            n.refuse("auto_pad needs a known kernel_shape, but sizes of the weight are open")
        reach = (k - 1) * step + 1
        total: Any = reach - 1
        if stride != 1:
            total = tidy(maximum((ceildiv(as_expr(size), stride) - 1) * stride + reach - size, 0))
        less = tidy(total // 2)
        more = tidy(total - less)
        upper = n.attr("auto_pad", "NOTSET") == "SAME_UPPER"
        found.append((less, more) if upper else (more, less))
    return found
