"""TopologicalSort: the bindings of a dataflow block in another order that is legal.

b1 = R.add(a, 1)                                      b1 = R.add(a, 1)
b2 = R.add(a, 2)        depth-first, from-inputs      c1 = R.add(a, b1)
c1 = R.add(a, b1)                 ->                  b2 = R.add(a, 2)
c2 = R.add(a, b2)                                     c2 = R.add(a, b2)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import leaves, reached, value_uses
from mlcnb.relax.emitter import block_is_dataflow, with_bindings
from mlcnb.relax.expr import Binding, BindingBlock, Function, MatchCast, Var

ORDERS = ("depth-first", "breadth-first")
DIRECTIONS = ("from-inputs", "from-outputs")


class TopologicalSort(FunctionPass):
    """Put the bindings of each dataflow block in a given order.

    Shapes and dtypes stay.

    order: "depth-first" or "breadth-first"; direction: "from-inputs" or "from-outputs".

    Raises:
        PassError: `order` or `direction` is no word for one.
    """

    order: str = "depth-first"
    direction: str = "from-inputs"

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every dataflow block of the body; ties keep the order that is there."""
        for name, value, known in (
            ("order", self.order, ORDERS),
            ("direction", self.direction, DIRECTIONS),
        ):
            if value not in known:
                raise PassError(
                    f"TopologicalSort: no {name} {value!r}", hint=f"one of {', '.join(known)}"
                )
        wanted = _outputs_of(func)
        blocks = tuple(self._block(func, b, wanted) for b in func.body.blocks)
        return replace(func, body=replace(func.body, blocks=blocks))

    def _block(self, func: Function, block: BindingBlock, wanted: list[Any]) -> BindingBlock:
        if not block_is_dataflow(block):
            return block
        graph = _Graph(block.bindings)
        if self.direction == "from-outputs":
            ordered = graph.from_outputs(wanted, self.order)
        else:
            ordered = graph.from_inputs(func.params, self.order)
        return with_bindings(block, tuple(ordered))


def _outputs_of(func: Function) -> list[Any]:
    """What is used outside of dataflow blocks, in the order of use."""
    found: list[Any] = []
    for block in func.body.blocks:
        if not block_is_dataflow(block):
            found.extend(v for b in block.bindings for v in value_uses(b.value))
    return [*found, *leaves(func.body.body)]


class _Graph:
    """The bindings of a block: what each needs of the block, and who needs it."""

    def __init__(self, bindings: tuple[Binding, ...]) -> None:
        self.bindings = bindings
        self.by_var = {b.var: b for b in bindings}
        self.sizes = {
            v: b
            for b in bindings
            if isinstance(b, MatchCast)
            for v in definable_vars(b.struct_info)
        }
        self.needs: dict[Any, list[Any]] = {}
        self.users: dict[Any, list[Any]] = {}
        self.outside: dict[Any, list[Any]] = {}
        #: what a binding needs of the block and of what stands outside
        self.reads: dict[Any, list[Any]] = {}
        for binding in bindings:
            self._add(binding)

    def _add(self, binding: Binding) -> None:
        used = [u for u in dict.fromkeys(value_uses(binding.value)) if isinstance(u, Var)]
        needs: dict[Any, None] = {u: None for u in used if u in self.by_var}
        outside = [u for u in used if u not in needs]
        for var in outside:
            self.outside.setdefault(var, []).append(binding.var)
        for symbol in _symbols(binding):
            maker = self.sizes.get(symbol)
            if maker is not None and maker is not binding:
                needs[maker.var] = None
        self.needs[binding.var] = list(needs)
        self.reads[binding.var] = [*needs, *outside]
        for need in needs:
            self.users.setdefault(need, []).append(binding.var)

    def from_inputs(self, params: Iterable[Any], order: str) -> list[Binding]:
        """A search from the parameters along the uses; who waits for others is met after them.

        What stands outside of the block, and what needs nothing, follows the parameters.
        """
        known = set(params)
        rest = [u for u in self.outside if u not in known]
        alone = [v for v in self.by_var if not self.reads[v]]
        seen: set[Any] = set()
        done: list[Binding] = []
        queue: deque[Any] = deque([*params, *rest, *alone])
        while queue:
            node = queue.popleft()
            if node in seen:
                continue
            seen.add(node)
            inside = node in self.by_var
            if inside:
                done.append(self.by_var[node])
            users = self.users.get(node, []) if inside else self.outside.get(node, [])
            ready = [u for u in users if u not in seen and seen.issuperset(self.reads[u])]
            queue.extendleft(reversed(ready)) if order == "depth-first" else queue.extend(ready)
        return done

    def from_outputs(self, wanted: list[Any], order: str) -> list[Binding]:
        """What the outputs need, before them, in the order in which they are used.

        What no output needs stands right behind what it follows from.
        """
        done: dict[Any, Binding] = {}
        starts = [v for v in dict.fromkeys(wanted) if v in self.by_var]
        useful = reached(starts, self.needs.__getitem__)
        for var in starts if order == "depth-first" else self._levels(starts):
            self._emit(var, done, useful)
        for var in self.by_var:
            self._emit(var, done, useful)
        return list(done.values())

    def _levels(self, starts: list[Any]) -> list[Any]:
        """Those farthest from the outputs first."""
        depth: dict[Any, int] = {}
        level = list(starts)
        number = 0
        while level:
            depth.update(dict.fromkeys(level, number))
            level = list(dict.fromkeys(n for v in level for n in self.needs[v]))
            number += 1
        return sorted(depth, key=lambda v: -depth[v])

    def _emit(self, var: Any, done: dict[Any, Binding], useful: set[Any]) -> None:
        if var in done:
            return
        for need in self.needs[var]:
            self._emit(need, done, useful)
        done[var] = self.by_var[var]
        for user in self.users.get(var, ()):
            ready = all(n in done for n in self.needs[user])
            if user not in useful and user not in done and ready:
                self._emit(user, done, useful)


def _symbols(binding: Binding) -> list[Any]:
    made = set(definable_vars(binding.struct_info)) if isinstance(binding, MatchCast) else set()
    mentioned = [*symbolic_vars(binding.var.struct_info)]
    for leaf in leaves(binding.value):
        mentioned.extend(symbolic_vars(leaf) if hasattr(leaf, "values") else ())
    return [v for v in mentioned if v not in made]
