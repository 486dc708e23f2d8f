"""OptimizeLayoutTransform: a layout that is changed and changed back is not changed at all.

a = R.layout_transform(x, src="NCHW", dst="NCHW4c")
b = R.layout_transform(a, src="NCHW4c", dst="NCHW")        ->        gv = R.nn.relu(x)
gv = R.nn.relu(b)

Layouts may be letters or index maps (`index_map=`), as AlterOpImpl writes them.
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.ir.expr import Range
from mlcnb.ir.prim_ops import const
from mlcnb.op.manipulate.layout import LayoutTransform
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform.written_out import CallPass, Reader
from mlcnb.tir.index_map import IndexMap


class OptimizeLayoutTransform(CallPass, says="changes of layout undone", quiet=True, prunes=True):
    """Drop changes of layout that undo each other, and those to the layout that is there.

    Both tensors have the same known shape and dtype; two that pad stay. Nothing is refused.
    """


class _Layouts(Reader, of=OptimizeLayoutTransform):
    @OptimizeLayoutTransform.rewrites(LayoutTransform)
    def undone(self, call: Any, attrs: Any) -> Any:
        """What was there before, where shape and layout are the same again."""
        if attrs.index_map is not None:
            return self.mapped_back(call)
        source: Any = call.args[0]
        layout = attrs.src
        before = self.call_of(source, LayoutTransform)
        if attrs.dst != layout and before is not None:
            source, layout = before.args[0], attrs_of(before).src  # type: ignore[attr-defined]
        if layout != attrs.dst or not same_known(source.struct_info, call.struct_info):
            return None
        return source

    def mapped_back(self, call: Call) -> Any:
        """What was there before two changes by index maps of which the second undoes the first."""
        before = self.call_of(call.args[0], LayoutTransform)
        first: Any = None if before is None else attrs_of(before)
        source: Any = None if before is None else before.args[0]
        if first is None or first.index_map is None:
            return None
        if not same_known(source.struct_info, call.struct_info):
            return None
        second: Any = attrs_of(call)
        if not _undoes(first.index_map, second.index_map, source.struct_info.dims):
            return None
        self.found += 1
        return source


def _undoes(first: IndexMap, second: IndexMap, dims: Any) -> bool:
    """True if `second` after `first` leaves every index within `dims` where it is."""
    indices = first.initial_indices
    there = second.map_indices(first.final_indices)
    ranges = {v: Range(const(0, v.dtype), d) for v, d in zip(indices, dims, strict=True)}
    proof = Analyzer(ranges)
    return all(proof.can_prove_equal(a, b) for a, b in zip(there, indices, strict=True))
