"""A place in a program where steps may be tried: a loop or block, and what else has a name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from mlcnb.tir import stmt as s
from mlcnb.tir.schedule.record.tree import Tree


@dataclass(frozen=True)
class Named:
    """A loop or block and the Python text that gets it."""

    node: s.For | s.Block
    text: str


@dataclass
class Site:
    """One block or loop of a function, and what else is there.

    blocks, loops: everything in the function that has a name.
    """

    tree: Tree
    target: Named
    blocks: list[Named] = field(default_factory=list)
    loops: list[Named] = field(default_factory=list)

    @staticmethod
    def of(tree: Tree, node: s.For | s.Block) -> Site:
        """The site of a node."""
        blocks = [Named(b, json.dumps(b.name_hint)) for b in tree.blocks]
        found: dict[s.For, Named] = {}
        for block in tree.blocks:
            text = f"sch.get_loops({json.dumps(block.name_hint)})"
            for n, loop in enumerate(tree.loops(block)):
                found.setdefault(loop, Named(loop, f"{text}[{n}]"))
        loops = list(found.values())
        named = (x for x in (*blocks, *loops) if x.node is node)
        target = next(named, None) or Named(node, "loop")  # a loop around no block has no name
        return Site(tree, target, blocks, loops)

    @property
    def is_loop(self) -> bool:
        """True for a loop, False for a block."""
        return isinstance(self.target.node, s.For)

    @property
    def block(self) -> s.Block:
        """The block itself, or the first one in the loop."""
        node = self.target.node
        if isinstance(node, s.Block):
            return node
        return next(iter(self.tree.blocks_under(node)), self.tree.root)

    @property
    def nest(self) -> list[Named]:
        """The other loops of the loop's own nest."""
        around = self.tree.loops(self.block)
        return [x for x in self.loops if x.node in around and x.node is not self.target.node]
