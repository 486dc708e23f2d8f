"""The lines of a loop program: loops, blocks, assignments, branches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.script import build, frames
from mlcnb.script.parser import operate
from mlcnb.script.parser.attrs import frozen
from mlcnb.script.parser.body import Body
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.tir_bind import HOLDING, Bindings, message_of
from mlcnb.script.parser.tir_block import BlockParser
from mlcnb.script.ranges import make_range
from mlcnb.script.tir.dtypes import dtype_of
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import Stmt


class StmtParser(Bindings):
    """Reads blocks of lines into statements."""

    def body(self, lines: list[ast.stmt]) -> Stmt:
        """Lines in a scope of their own, as one statement."""
        with self.ev.scope.inner():
            return self.lines(lines)

    def lines(self, lines: list[ast.stmt]) -> Stmt:
        """Lines in the scope that is open, as one statement."""
        out = Body()
        for index, line in enumerate(lines):
            if index == 0 and _is_docstring(line):
                continue
            rule = _LINES.get(type(line))
            if rule is None:
                what = type(line).__name__
                raise self.ev.error(line, f"a loop program has no {what} statement")
            rule(self, line, out)
        return out.finish()

    # loops and branches --------------------------------------------------------------------------

    def for_(self, node: ast.For, out: Body) -> None:
        """`for i, j in T.grid(4, 8):`"""
        found = self.ev.value(node.iter)
        if not isinstance(found, frames.Loops):
            raise self.ev.error(
                node.iter, "a loop runs over range(…), T.grid(…), T.serial(…), T.parallel(…) …"
            )
        names = self._loop_names(node, len(found.loops))
        with self.ev.scope.inner():
            loops = [
                self._loop(loop, name, node) for loop, name in zip(found.loops, names, strict=True)
            ]
            stmt = self.lines(node.body)
        for var, dom, loop in reversed(loops):
            marks = frozen(loop.annotations)
            stmt = s.For(var, dom.min, dom.extent, loop.kind, stmt, loop.thread, marks)
        out.add(stmt)

    def _loop_names(self, node: ast.For, count: int) -> list[str]:
        target = node.target
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if len(targets) != count:
            raise self.ev.error(target, f"{count} loops need {count} names, not {len(targets)}")
        return [self.plain_name(t) for t in targets]

    def _loop(self, loop: frames.Loop, name: str, node: ast.For) -> tuple[Var, Range, frames.Loop]:
        if loop.kind is s.ForKind.THREAD_BINDING and not loop.thread:
            hint = 'T.thread_binding(8, thread="threadIdx.x")'
            raise self.ev.error(node.iter, "which thread axis?", hint)
        with self.ev.blame(node.iter):
            start = loop.start if isinstance(loop.start, int) else self._scalar(loop.start, node)
            stop = self._scalar(loop.stop, node)
            dom = make_range(start, stop)
        var = Var(name, dom.extent.dtype)
        self.loops[var] = dom
        self.ev.scope.define(name, var)
        return var, dom, loop

    def _scalar(self, value: Any, node: ast.For) -> PrimExpr:
        return self.ev.as_expr(value, node.iter)

    def while_(self, node: ast.While, out: Body) -> None:
        """`while condition:`"""
        out.add(s.While(self.ev.expr(node.test), self.body(node.body)))

    def if_(self, node: ast.If, out: Body) -> None:
        """`if condition:`; a Python value is decided now."""
        test = self.ev.value(node.test)
        if isinstance(test, bool | int) or test is None:
            for line in node.body if test else node.orelse:
                _LINES[type(line)](self, line, out)
            return
        condition = self.ev.as_expr(test, node.test)
        then = self.body(node.body)
        out.add(s.IfThenElse(condition, then, self.body(node.orelse) if node.orelse else None))

    def assert_(self, node: ast.Assert, out: Body) -> None:
        """`assert condition, "message"`; 0.27 writes a kind and a list of parts."""
        condition = self.ev.expr(node.test)
        message = "" if node.msg is None else message_of(self.ev.value(node.msg))
        out.hold(lambda body: s.AssertStmt(condition, message, body))

    def pass_(self, node: ast.Pass, out: Body) -> None:
        """`pass`: nothing."""

    def return_(self, node: ast.Return, out: Body) -> None:
        """`return x`: `T.ret(x)`."""
        if node.value is None:
            raise self.ev.error(node, "a loop function returns a scalar or has no return")
        value = self.ev.expr(node.value)
        out.add(s.Evaluate(e.Call(value.dtype, "tir.ret", (value,))))

    # lines with a value --------------------------------------------------------------------------

    def line_(self, node: ast.Expr, out: Body) -> None:
        """A line that binds nothing: `T.reads(…)`, a call for its effect."""
        value = self.ev.value(node.value)
        if isinstance(value, frames.Regions | frames.Where | frames.BlockAttr):
            self._block_of(node).note(value, node)
        elif isinstance(value, frames.FuncAttr):
            self.function.set_attrs(value.attrs)
        elif isinstance(value, frames.Attr | frames.Asserted | frames.LaunchThread):
            out.hold(self.holder(value, None, node))
        elif isinstance(value, frames.VectorStore):
            out.add(self._vector_store(value, node))
        elif isinstance(value, frames.Effect):
            out.add(s.Evaluate(self.ev.as_expr(value.value, node)))
        elif isinstance(value, PrimExpr):
            out.add(s.Evaluate(value))
        elif value is not None and not isinstance(value, str):
            raise self.ev.error(node, "this line does nothing", _line_hint(value))

    def _vector_store(self, value: frames.VectorStore, node: ast.Expr) -> Stmt:
        predicate = None if value.predicate is None else self.ev.as_expr(value.predicate, node)
        return self._store(value.buffer, value.indices, value.value, node, predicate)

    def _block_of(self, node: ast.stmt) -> BlockParser:
        if not self.blocks:
            raise self.ev.error(node, "this line belongs in a block", 'with T.block("name"):')
        return self.blocks[-1]

    def assign_(self, node: ast.Assign, out: Body) -> None:
        """`x = value`, `A[i] = value`, `vi, vj = …`"""
        if len(node.targets) != 1:
            raise self.ev.error(node, "one target is assigned at a time")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            self._subscript_store(target, self.ev.value(node.value), node, out)
            return
        value = self.ev.value(node.value)
        self.bind(target, value, node.value, out)

    def aug_assign_(self, node: ast.AugAssign, out: Body) -> None:
        """`A[i] += x`"""
        if not isinstance(node.target, ast.Subscript):
            raise self.ev.error(node, "only an element of a buffer can be changed")
        load = ast.copy_location(
            ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target
        )
        name, old, change = type(node.op).__name__, self.ev.value(load), self.ev.value(node.value)
        with self.ev.blame(node):
            value = operate.binary(name, old, change, self.ev.trusted)
        self._subscript_store(node.target, value, node, out)

    def ann_assign_(self, node: ast.AnnAssign, out: Body) -> None:
        """`x: T.int32 = value`: a let."""
        name = self.plain_name(node.target)
        kind = self.ev.value(node.annotation)
        if isinstance(kind, frames.LetType):
            kind = kind.kind
        if node.value is None:
            raise self.ev.error(node, f"{name} needs a value")
        made = dtype_of(kind)
        value = self.ev.value(node.value)
        if made is None or isinstance(value, frames.Frame):
            self.bind(node.target, value, node.value, out)
            return
        number = build.cast(made.dtype, value) if isinstance(value, int | float) else value
        found = self.ev.as_expr(number, node.value)
        if found.dtype != made.dtype:
            raise self.ev.error(
                node.value, f"{name} is {made.dtype}, its value is {found.dtype}", "T.Cast"
            )
        self.let(made.make(name), found, out)

    # stores --------------------------------------------------------------------------------------

    def _subscript_store(
        self, target: ast.Subscript, value: Any, node: ast.stmt, out: Body
    ) -> None:
        buffer = self.ev.value(target.value)
        if not isinstance(buffer, Buffer):
            raise self.ev.error(target.value, "only elements of buffers can be assigned")
        index = self.ev.index(target.slice)
        axes = index if isinstance(index, tuple) else (index,)
        out.add(self._store(buffer, axes, value, node, None, target))

    def _store(
        self,
        buffer: Buffer,
        axes: tuple,
        value: Any,
        node: ast.stmt,
        predicate: PrimExpr | None = None,
        target: ast.expr | None = None,
    ) -> Stmt:
        with self.ev.blame(target or node):
            indices = frames.Sliced(buffer, axes).indices()
        lanes = indices[-1].dtype.lanes if indices else 1
        kind = buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
        with self.ev.blame(node):
            stored = _stored(value, kind, self.ev, node)
        return s.BufferStore(buffer, stored, indices, predicate)

    # with ----------------------------------------------------------------------------------------

    def with_(self, node: ast.With, out: Body) -> None:
        """`with T.block("C"):`, `with T.init():`, `with T.allocate(…) as v:`"""
        item = node.items[0]
        if len(node.items) > 1:
            inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
            node = ast.copy_location(ast.With([item], [inner]), node)
        value = self.ev.value(item.context_expr)
        name = None if item.optional_vars is None else self.plain_name(item.optional_vars)
        if isinstance(value, frames.BlockHead):
            out.add(self._block(value, node))
        elif isinstance(value, frames.Init):
            self._block_of(node).set_init(self._init_body(node), node)
        elif isinstance(value, frames.DeclareBuffer):
            self._with_scope(
                node, out, lambda: self.declare(name or "buffer", value, item.context_expr)
            )
        elif type(value) in HOLDING:
            self._with_scope(node, out, lambda: self.holder(value, name, item.context_expr))
        else:
            raise self.ev.error(item.context_expr, "`with` opens a block, an init, an allocation …")

    def _with_scope(self, node: ast.With, out: Body, make: Callable[[], Any]) -> None:
        with self.ev.scope.inner():
            wrap = make()
            out.add(wrap(self.lines(node.body)))

    def _init_body(self, node: ast.With) -> Stmt:
        blocks, self.blocks = self.blocks, []
        try:
            return self.body(node.body)
        finally:
            self.blocks = blocks

    def _block(self, head: frames.BlockHead, node: ast.With) -> Stmt:
        with self.ev.scope.inner():
            block = BlockParser(self.ev, head.name)
            self.blocks.append(block)
            body = self.lines(node.body)
            self.blocks.pop()
        with self.ev.blame(node):
            return block.finish(body)


def _stored(value: Any, kind: Any, ev: Evaluator, node: ast.stmt) -> PrimExpr:
    """A value in the dtype of the buffer: numbers and narrower scalars are converted."""
    if isinstance(value, int | float) and not isinstance(value, PrimExpr):
        return p.const(value, kind)
    found = ev.as_expr(value, node)
    if found.dtype == kind:
        return found
    if found.dtype.lanes == 1 and kind.lanes != 1:
        found = e.Broadcast(found, kind.lanes)
    return found if found.dtype == kind else e.Cast(kind, found)


def _is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _line_hint(value: Any) -> str | None:
    if isinstance(value, frames.BlockHead | frames.Init | frames.AllocateMemory):
        return "open it with `with`, or give it a name"
    if isinstance(value, frames.Loops):
        return "for i in …"
    return None


Line = Callable[[StmtParser, Any, Body], None]
_LINES: dict[type, Line] = {
    ast.For: StmtParser.for_,
    ast.While: StmtParser.while_,
    ast.If: StmtParser.if_,
    ast.With: StmtParser.with_,
    ast.Assert: StmtParser.assert_,
    ast.Return: StmtParser.return_,
    ast.Pass: StmtParser.pass_,
    ast.Expr: StmtParser.line_,
    ast.Assign: StmtParser.assign_,
    ast.AnnAssign: StmtParser.ann_assign_,
    ast.AugAssign: StmtParser.aug_assign_,
}
