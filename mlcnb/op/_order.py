"""What declarations say of tensors that lie in another order, for `OpDecl.in_order`.

class Softmax(…):    in_order = along_axis        R.nn.softmax(x, axis=1) of x in the order
                                                  (0, 2, 3, 1): axis=3, and the same order
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.relax.traits import Order


def along_axis(self: Any, order: Order) -> tuple[Any, Any] | None:
    """`axis` is where its dimension lies now; without an axis all elements count in their order."""
    if self.axis is None:
        return None
    return replace(self, axis=order.index(self.axis % len(order))), order


def along_axes(self: Any, order: Order) -> tuple[Any, Any]:
    """`axes`, and `channel_axis` where there is one, are where their dimensions lie now."""
    places: dict[str, Any] = {"axes": tuple(order.index(a % len(order)) for a in self.axes)}
    if hasattr(self, "channel_axis"):
        places["channel_axis"] = order.index(self.channel_axis % len(order))
    return replace(self, **places), order


def by_layout(self: Any, order: Order) -> tuple[Any, Any] | None:
    """`layout`, and `out_layout` where there is one, name the order; they are letters then."""
    names = {n: getattr(self, n, None) for n in ("layout", "out_layout")}
    if any(name and len(name) != len(order) for name in names.values()):
        return None
    found = {n: "".join(name[i] for i in order) for n, name in names.items() if name}
    return replace(self, **found), order


def blocks_of_images(self: Any, layout: str) -> Any:
    """`layout` and `out_layout` of what sees rows and columns of images (N, C, H, W), but no
    channels.
    """
    plain = self.layout == self.out_layout == "NCHW"
    return replace(self, layout=layout, out_layout=layout) if plain else None
