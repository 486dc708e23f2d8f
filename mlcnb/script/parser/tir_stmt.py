"""The lines of a loop program: loops, blocks, assignments, branches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.script import build, frames
from mlcnb.script.parser.attrs import frozen
from mlcnb.script.parser.body import Body
from mlcnb.script.parser.evaluate import Evaluator, ModuleRef
from mlcnb.script.parser.symbols import resolve_dims
from mlcnb.script.parser.tir_block import BlockParser
from mlcnb.script.ranges import make_range
from mlcnb.script.tir.dtypes import dtype_of
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import Stmt

if TYPE_CHECKING:
    from mlcnb.script.parser.tir_func import PrimFuncParser


class StmtParser:
    """Reads blocks of lines into statements."""

    def __init__(self, ev: Evaluator, function: PrimFuncParser) -> None:
        self.ev = ev
        self.function = function
        #: the blocks that the current line stands in, innermost last
        self.blocks: list[BlockParser] = []
        #: loop variable -> its range
        self.loops: dict[Var, Range] = {}
        #: GPU axes named by T.env_thread: variable -> tag
        self.threads: dict[Var, str] = {}

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
        return [self._plain_name(t) for t in targets]

    def _plain_name(self, target: ast.expr) -> str:
        if not isinstance(target, ast.Name):
            raise self.ev.error(target, "a name is expected here")
        return target.id

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
        message = "" if node.msg is None else _message(self.ev.value(node.msg))
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
            out.hold(self._holder(value, None, node))
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
        value = self.ev.operate(
            type(node.op).__name__, self.ev.value(load), self.ev.value(node.value), node.value
        )
        self._subscript_store(node.target, value, node, out)

    def ann_assign_(self, node: ast.AnnAssign, out: Body) -> None:
        """`x: T.int32 = value`: a let."""
        name = self._plain_name(node.target)
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
        number = value if isinstance(value, PrimExpr) else build.cast(made.dtype, value)
        self._let(made.make(name), number, out)

    def _let(self, var: Var, value: PrimExpr, out: Body) -> None:
        self.ev.scope.define(var.name, var)
        out.hold(lambda body: s.LetStmt(var, value, body))

    def bind(self, target: ast.expr, value: Any, place: ast.expr, out: Body) -> None:
        """Give a value its name; what that means depends on the value."""
        if isinstance(target, ast.Tuple | ast.List):
            self._bind_many(target, value, place, out)
            return
        name = self._plain_name(target)
        rule = _BINDINGS.get(type(value))
        if rule is not None:
            rule(self, name, value, place, out)
        elif isinstance(value, frames.Frame):
            raise self.ev.error(place, f"{type(value).__name__} gives nothing that has a name")
        elif isinstance(value, PrimExpr | frames.Sliced) and not isinstance(value, e.Var):
            expr = self.ev.as_expr(value, place)
            self._let(Var(name, expr.dtype), expr, out)
        else:
            self.ev.scope.define(name, value)

    def _bind_many(
        self, target: ast.Tuple | ast.List, value: Any, place: ast.expr, out: Body
    ) -> None:
        if isinstance(value, frames.Remap):
            names = [self._plain_name(t) for t in target.elts]
            self._block_of_axis(place).remap(names, value, self.loops, place)
            return
        if not isinstance(value, tuple | list) or len(value) != len(target.elts):
            raise self.ev.error(place, f"{len(target.elts)} values are expected")
        for one, item in zip(target.elts, value, strict=True):
            self.bind(one, item, place, out)

    def _block_of_axis(self, place: ast.expr) -> BlockParser:
        if not self.blocks:
            raise self.ev.error(place, "an axis belongs in a block", 'with T.block("name"):')
        return self.blocks[-1]

    def _bind_axis(self, name: str, value: frames.Axis, place: ast.expr, out: Body) -> None:
        self._block_of_axis(place).axis(name, value, place)

    def _bind_remap(self, name: str, value: frames.Remap, place: ast.expr, out: Body) -> None:
        self._block_of_axis(place).remap([name], value, self.loops, place)

    def _bind_new(self, name: str, value: frames.NewVar, place: ast.expr, out: Body) -> None:
        known = self.function.symbols.pop(name, None)
        self.ev.scope.define(name, value.make(name) if known is None else known)

    def _named(self, name: str, buffer: Buffer, place: ast.expr) -> Buffer:
        from mlcnb.script.parser.tir_func import renamed

        made = renamed(resolve_dims(self.ev, buffer, place), name)
        self.ev.scope.define(name, made)
        return made

    def _bind_alloc(self, name: str, value: frames.AllocBuffer, place: ast.expr, out: Body) -> None:
        buffer = self._named(name, value.buffer, place)
        owner = self.blocks[-1].alloc_buffers if self.blocks else self.function.root_buffers
        owner.append(buffer)

    def _bind_match(self, name: str, value: frames.MatchBuffer, place: ast.expr, out: Body) -> None:
        buffer = self._named(name, value.buffer, place)
        if isinstance(value.source, Var):
            self.function.match(value.source, buffer)
        else:
            self._block_of_axis(place).match(buffer, value.source, place)

    def _bind_decl(
        self, name: str, value: frames.DeclareBuffer, place: ast.expr, out: Body
    ) -> None:
        out.hold(self._declare(name, value, place))

    def _declare(self, name: str, value: frames.DeclareBuffer, place: ast.expr) -> Any:
        buffer = self._named(name, value.buffer, place)
        if not value.allocates:
            return lambda body: s.DeclBuffer(buffer, body)
        return lambda body: s.Allocate(
            buffer.data, buffer.dtype, buffer.shape, p.const(True), s.DeclBuffer(buffer, body)
        )

    def _bind_allocate(
        self, name: str, value: frames.AllocateMemory, place: ast.expr, out: Body
    ) -> None:
        out.hold(self._holder(value, name, place))

    def _bind_thread(self, name: str, value: frames.EnvThread, place: ast.expr, out: Body) -> None:
        value.var = Var(name, dtype(value.dtype))
        self.ev.scope.define(name, value.var)
        self.threads[value.var] = value.tag

    def _bind_holder(self, name: str, value: Any, place: ast.expr, out: Body) -> None:
        out.hold(self._holder(value, name, place))

    def _bind_meta(self, name: str, value: frames.Meta, place: ast.expr, out: Body) -> None:
        self.ev.scope.define(name, value.value)

    def _bind_buffer(self, name: str, value: Buffer, place: ast.expr, out: Body) -> None:
        self.ev.scope.define(name, value)

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
        name = None if item.optional_vars is None else self._plain_name(item.optional_vars)
        if isinstance(value, frames.BlockHead):
            out.add(self._block(value, node))
        elif isinstance(value, frames.Init):
            self._block_of(node).set_init(self._init_body(node), node)
        elif isinstance(value, frames.DeclareBuffer):
            self._with_scope(
                node, out, lambda: self._declare(name or "buffer", value, item.context_expr)
            )
        elif type(value) in _HOLDING:
            self._with_scope(node, out, lambda: self._holder(value, name, item.context_expr))
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

    def _holder(self, value: Any, name: str | None, place: Any) -> Callable[[Stmt], Stmt]:
        """The statement that holds the lines that follow."""
        return _HOLDING[type(value)](self, value, name, place)

    def _hold_attr(self, value: frames.Attr, name: str | None, place: Any) -> Any:
        subject = p.const(0) if isinstance(value.node, int) else value.node
        held = value.value if not isinstance(value.value, list) else tuple(value.value)
        return lambda body: s.AttrStmt(subject, value.key, held, body)

    def _hold_assert(self, value: frames.Asserted, name: str | None, place: Any) -> Any:
        condition = self.ev.as_expr(value.condition, place)
        return lambda body: s.AssertStmt(condition, _message(value.message), body)

    def _hold_launch(self, value: frames.LaunchThread, name: str | None, place: Any) -> Any:
        extent = self.ev.as_expr(value.extent, place)
        if isinstance(value.thread, Var):
            var, tag = value.thread, self.threads.get(value.thread, "")
        else:
            tag = str(value.thread)
            var = Var(name or tag.replace(".", "_"), extent.dtype)
        if name is not None:
            self.ev.scope.define(name, var)
        dom = Range(p.const(0, extent.dtype), extent)
        axis = s.IterVar(dom, var, s.IterType.THREAD, tag)
        return lambda body: s.AttrStmt(axis, "thread_extent", extent, body)

    def _hold_let(self, value: frames.LetValue, name: str | None, place: Any) -> Any:
        found = self.ev.as_expr(value.value, place)
        made = dtype_of(value.kind) if value.kind is not None else None
        var = made.make(name or "v") if made else Var(name or "v", found.dtype)
        self.ev.scope.define(var.name, var)
        return lambda body: s.LetStmt(var, found, body)

    def _hold_allocate(self, value: frames.AllocateMemory, name: str | None, place: Any) -> Any:
        var = Var(name or "memory", dtype("handle"), (value.dtype, value.scope))
        self.ev.scope.define(var.name, var)
        extents = tuple(self.ev.as_expr(x, place) for x in value.extents)
        condition = self.ev.as_expr(value.condition, place)
        kind, marks = dtype(value.dtype), frozen(value.annotations)
        return lambda body: s.Allocate(var, kind, extents, condition, body, marks)


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


def _message(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return "".join(str(part) for part in value[1])
    return str(value)


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
_BINDINGS: dict[type, Callable[..., None]] = {
    frames.Axis: StmtParser._bind_axis,
    frames.Remap: StmtParser._bind_remap,
    frames.NewVar: StmtParser._bind_new,
    frames.AllocBuffer: StmtParser._bind_alloc,
    frames.MatchBuffer: StmtParser._bind_match,
    frames.DeclareBuffer: StmtParser._bind_decl,
    frames.AllocateMemory: StmtParser._bind_allocate,
    frames.EnvThread: StmtParser._bind_thread,
    frames.LaunchThread: StmtParser._bind_holder,
    frames.LetValue: StmtParser._bind_holder,
    frames.Meta: StmtParser._bind_meta,
    Buffer: StmtParser._bind_buffer,
    ModuleRef: StmtParser._bind_meta,
}
_HOLDING: dict[type, Callable[..., Any]] = {
    frames.Attr: StmtParser._hold_attr,
    frames.Asserted: StmtParser._hold_assert,
    frames.LaunchThread: StmtParser._hold_launch,
    frames.LetValue: StmtParser._hold_let,
    frames.AllocateMemory: StmtParser._hold_allocate,
}
