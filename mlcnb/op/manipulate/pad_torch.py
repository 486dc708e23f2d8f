"""PyTorch spellings of padding: by numbers `nn.pad`, by open widths parts that lie beside x.

F.pad(x, (0, -n % 8))               concat(x, zeros(-n % 8))
F.pad(x, (m - n, 0))                max(m - n, 0) zeros before x, then max(n - m, 0) are cut off
F.pad(x, (n // 2, 0), "reflect")    take(x, places), of places that fold back
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.op._dims import ints, tidy
from mlcnb.op._spell import call
from mlcnb.op._torch import cut
from mlcnb.op.manipulate.pad import Widths, filled_around, folded_around
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@torch_spelling("aten.pad", "aten.constant_pad_nd", "aten.reflection_pad1d")
@torch_spelling("aten.reflection_pad2d", "aten.reflection_pad3d", "aten.replication_pad1d")
@torch_spelling("aten.replication_pad2d", "aten.replication_pad3d")
def torch_pad(
    n: TorchNode, x: Expr, pad: Sequence[Any], mode: Any = "constant", value: Any = 0
) -> Expr:
    """Widths from the last dimension on: (left, right, top, bottom); negative ones cut."""
    kind = n.target.split(".")[1]
    if kind == "constant_pad_nd":
        mode, value = "constant", mode if isinstance(mode, int | float) else 0
    elif kind != "pad":
        mode = "reflect" if kind.startswith("reflection") else "replicate"
    rank, number = len(n.dims(x)), value if value is not None else 0
    widths: list[tuple[Any, Any]] = [(0, 0)] * rank
    for i in range(len(pad) // 2):
        widths[rank - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    if ints([w for pair in widths for w in pair]) is None:
        if mode == "constant":
            return filled_around(n, x, widths, number)
        return folded_around(n, x, widths, MODES[mode])
    x = _trimmed(n, x, widths)
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "circular":
        return _wrapped(n, x, widths)
    flat = tuple(w for pair in widths for w in pair)
    if n.dtype(x) == "bool":
        grown = call("relax.nn.pad", n.tensor(x, "int8"), flat, MODES[mode], float(bool(number)))
        return n.tensor(n.emit(grown), "bool")
    return call("relax.nn.pad", x, flat, MODES[mode], float(number))


def _trimmed(n: TorchNode, x: Expr, widths: Widths) -> Expr:
    for axis, (a, b) in enumerate(widths):
        if a < 0 or b < 0:
            end = tidy(n.dims(x)[axis] + min(b, 0))
            x = n.emit(cut(x, axis, -min(a, 0), end))
    return x


def _wrapped(n: TorchNode, x: Expr, widths: Widths) -> Expr:
    for axis, (a, b) in enumerate(widths):
        extent = n.dims(x)[axis]
        parts = [n.emit(cut(x, axis, tidy(extent - a), extent))] if a else []
        parts += [x]
        parts += [n.emit(cut(x, axis, 0, b))] if b else []
        x = n.emit(call("relax.concat", parts, axis=axis)) if len(parts) > 1 else x
    return x
