"""AutoInline: what is cheap to compute again is computed where it is read.

B[i] = A[i] + 1          ->    C[i] = (A[i] + 1) * 2
C[i] = B[i] * 2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.node import walk
from mlcnb.dlight.looking import is_root, is_spatial, note, tree
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.schedule_rule.rule import ScheduleRule, tried
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import Block, BufferStore, IfThenElse


class AutoInline(ScheduleRule):
    """Spatial blocks go into their consumers (or their producer).

    Args:
        into_producer: where consumers do not take it, into the only producer.
        into_consumer: into the consumers.
        inline_const_tensor: also blocks that read nothing.
        disallow_if_then_else: not what chooses (padding), unless all blocks are spatial.
        require_injective: only where each element that is read is read for one result.
        require_ordered: only where results and reads run in the same order of axes.
        disallow_op: names of operators that are too dear to do again: "tir.exp".
    """

    kind = "auto-inline"
    into_producer: bool = False
    into_consumer: bool = True
    inline_const_tensor: bool = True
    disallow_if_then_else: bool = True
    require_injective: bool = True
    require_ordered: bool = True
    disallow_op: Sequence[str] | None = ("tir.exp",)

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule without the block, where it may go and should."""
        if is_root(sch, block) or not self._may_go(sch, block):
            return [sch]
        if self.into_consumer and sch.get_consumers(block):
            made = tried(sch, lambda s: s.compute_inline(block))
            if made is not None:
                return [made]
        producers = sch.get_producers(block)
        if self.into_producer and len(producers) == 1 and not _is_for_tensors(sch, producers[0]):
            return [tried(sch, lambda s: s.reverse_compute_inline(block)) or sch]
        return [sch]

    def _may_go(self, sch: Schedule, block: Any) -> bool:
        node: Block = sch.get(block)
        if len(node.writes) != 1 or not is_spatial(sch, block) or node.init is not None:
            return False
        if note(sch, block, "inline_rule") == "disable":
            return False
        if not node.reads and not self.inline_const_tensor:
            return False
        if all(_spatial(b) for b in tree(sch).blocks if b is not tree(sch).root):
            return True
        inside = [*walk(node.body)]
        if self.disallow_op and any(_op(n) in self.disallow_op for n in inside):
            return False
        if self.disallow_if_then_else and any(_chooses(n) for n in inside):
            return False
        return self._order_holds(node, inside)

    def _order_holds(self, node: Block, inside: Sequence[Any]) -> bool:
        """Whether what is read stands in the order (and number) of what is written."""
        stores = [n for n in inside if isinstance(n, BufferStore)]
        if len(stores) != 1:
            return False
        written = [x for x in stores[0].indices if isinstance(x, e.Var)]
        for load in (n for n in inside if isinstance(n, BufferLoad)):
            read = [n for x in load.indices for n in walk(x) if isinstance(n, e.Var)]
            if self.require_injective and len(set(read)) < len(read):
                return False
            places = [written.index(v) for v in read if v in written]
            if self.require_ordered and places != sorted(places):
                return False
        return True


def _spatial(block: Block) -> bool:
    return all(v.iter_type.value == "S" for v in block.iter_vars)


def _op(n: Any) -> str:
    """TVM's name of what is called: `tir.exp`."""
    if not isinstance(n, e.Call):
        return ""
    name = str(getattr(n.op, "name", n.op))
    return name if name.startswith("tir.") else f"tir.{name}"


def _chooses(n: Any) -> bool:
    return isinstance(n, IfThenElse | e.Select) or _op(n) == "tir.if_then_else"


def _is_for_tensors(sch: Schedule, block: Any) -> bool:
    return note(sch, block, "meta_schedule.auto_tensorize") is not None


class InlineConstantScalars(ScheduleRule):
    """A block that makes one number of nothing goes into who reads it: blocks that read nothing and
    write one element, of any dtype.

        for _ in range(1):                     ->
            with T.block("one"): c[()] = 3.0           B[i] = A[i] * 3.0
        B[i] = A[i] * c[()]
    """

    kind = "inline-constant-scalars"

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        """The schedule without the block, where it is a constant with consumers."""
        node = sch.get(block)
        if node.reads or len(node.writes) != 1 or node.iter_vars and node.init is not None:
            return [sch]
        if any(as_int(n) != 1 for n in node.writes[0].buffer.shape) or not sch.get_consumers(block):
            return [sch]
        return [tried(sch, lambda s: s.compute_inline(block)) or sch]
