"""What is watched for races: memory that several agents see, not what each makes for itself."""

from __future__ import annotations

from typing import Any

from mlcnb.codegen.interp.blocks import BlockCompiler
from mlcnb.codegen.interp.expressions import Closure
from mlcnb.codegen.interp.statements import Code
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, MatchBufferRegion


class WatchingCompiler(BlockCompiler):
    """Notes where several agents run (a kernel, a parallel loop), and what memory is made there."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        #: agents run the place that is compiled
        self.watches = False
        #: the statement that is compiled
        self.site: Any = None
        #: pointers to memory that is allocated where agents run
        self.own: set[Var] = set()

    def stmt(self, x: s.Stmt) -> Code:
        """The closure of a statement."""
        outer, self.site = self.site, x
        code = super().stmt(x)
        self.site = outer
        return code

    def _allocation(self, x: s.Allocate) -> Code:
        if self.watches and x.data is None:
            self.own.add(x.buffer_var)
        return super()._allocation(x)

    def _allocated(self, buffer: Buffer) -> Closure:
        if self.watches:
            self.own.add(buffer.data)
        return super()._allocated(buffer)

    def matched(self, match: MatchBufferRegion) -> Closure:
        """A view of a region of another buffer."""
        if match.source.buffer.data in self.own:
            self.own.add(match.buffer.data)
        return super().matched(match)
