"""The lines of a loop program: loops, blocks, assignments, branches, macros."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.script import build, frames, words
from mlcnb.script.parser import operate
from mlcnb.script.parser.advice import buffer_hint, title
from mlcnb.script.parser.body import Body
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.macro import MAX_DEPTH, Macro, bound_names, inside, read_macro
from mlcnb.script.parser.source import is_remark
from mlcnb.script.parser.tir_block import BlockParser
from mlcnb.script.parser.tir_loop import LoopParser
from mlcnb.script.tir.dtypes import dtype_of
from mlcnb.script.tir.holding import HOLDING, message_of
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import Stmt

_MACRO = "@T.macro makes a macro of it; other functions belong outside of the program"


class StmtParser(LoopParser):
    """Reads blocks of lines into statements."""

    def lines(self, lines: list[ast.stmt]) -> Stmt:
        """Lines in the scope that is open, as one statement."""
        out = Body()
        for index, line in enumerate(lines):
            if index == 0 and is_remark(line):
                continue
            self.line(line, out)
        return out.finish()

    def line(self, line: ast.stmt, out: Body) -> None:
        """One line."""
        rule = _LINES.get(type(line))
        if rule is None:
            what = type(line).__name__
            raise self.ev.error(line, f"a loop program has no {what} statement", _INSTEAD.get(what))
        with self.ev.blame(line):  # what no rule below has put in words of a program
            rule(self, line, out)

    def assert_(self, node: ast.Assert, out: Body) -> None:
        """`assert condition, "message"`; 0.27 writes a kind and a list of parts."""
        condition = self.condition(node.test)
        message = "" if node.msg is None else message_of(self.ev.value(node.msg))
        out.hold(lambda body: s.AssertStmt(condition, message, body))

    def pass_(self, node: ast.Pass, out: Body) -> None:
        """`pass`: nothing."""

    def return_(self, node: ast.Return, out: Body) -> None:
        """`return x`: `T.ret(x)`."""
        if node.value is None:
            hint = "return 0, with -> T.int32 in the signature"
            raise self.ev.error(node, "a loop function returns a scalar or has no return", hint)
        found = self.ev.value(node.value)
        if isinstance(found, Buffer):
            raise self.ev.error(
                node,
                f"a loop function returns no buffer, such as {found.name}",
                "leave the line out: the caller gives the arrays that are written",
            )
        value = self.ev.as_expr(found, node.value)
        self.function.note_result(value.dtype)
        out.add(s.Evaluate(e.Call(value.dtype, "tir.ret", (value,))))

    # macros --------------------------------------------------------------------------------------

    def function_(self, node: ast.FunctionDef, out: Body) -> None:
        """A function inside of a program: a macro, or an error."""
        made = read_macro(self.ev, node)
        if made is None:
            raise self.ev.error(node, f"{node.name} is a function inside of a program", _MACRO)
        self.ev.scope.define(node.name, made)

    def macro_of(self, node: ast.expr) -> Macro | None:
        """The macro that a line calls, if it calls one."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            return None
        found = self.ev.value(node.func)
        return found if isinstance(found, Macro) else None

    def expand(self, macro: Macro, call: ast.Call, out: Body) -> None:
        """Read the lines of a macro here."""
        if len(self.expanding) >= MAX_DEPTH:
            raise self.ev.error(call, f"macro {macro.__name__} calls itself without end")
        args, kwargs = self.ev.arguments(call)
        names = bound_names(self.ev, macro, args, kwargs, call)
        count = self.expanding_count.get(macro, 0)
        self.expanding_count[macro] = count + 1
        self.expanding.append((macro, f"_{count}" if macro.inline and count else ""))
        with inside(self.ev, macro, names):
            for line in macro.node.body:
                if isinstance(line, ast.Return):
                    raise self.ev.error(line, "a macro has no value to return")
                if not is_remark(line):
                    self.line(line, out)
        self.expanding.pop()

    def block_suffix(self) -> str:
        """What the names of blocks end with: a second call of a T.inline counts."""
        return "".join(suffix for _, suffix in self.expanding)

    # lines with a value --------------------------------------------------------------------------

    def line_(self, node: ast.Expr, out: Body) -> None:
        """A line that binds nothing: `T.reads(…)`, a call for its effect, a macro."""
        macro = self.macro_of(node.value)
        if macro is not None:
            self.expand(macro, node.value, out)  # type: ignore[arg-type]
            return
        value = self.ev.value(node.value)
        if isinstance(value, frames.Regions | frames.Where | frames.BlockAttr):
            self._block_of(node).note(value, node)
        elif isinstance(value, frames.FuncAttr):
            if self.function.private and "global_symbol" in value.attrs:
                raise self.ev.error(
                    node, "a private function has no global_symbol", "leave out private=True"
                )
            self.function.set_attrs(value.attrs)
        elif isinstance(value, frames.Attr | frames.Asserted | frames.LaunchThread) or (
            isinstance(value, frames.LetValue) and value.var is not None
        ):
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
        if isinstance(node.target, ast.Name):
            self._change_name(node, node.target, out)
            return
        if not isinstance(node.target, ast.Subscript):
            raise self.ev.error(node.target, "only an element of a buffer can be changed")
        load = ast.copy_location(
            ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target
        )
        name, old, change = type(node.op).__name__, self.ev.value(load), self.ev.value(node.value)
        with self.ev.blame(node):
            value = operate.binary(name, old, change, self.ev.trusted)
        self._subscript_store(node.target, value, node, out)

    def _change_name(self, node: ast.AugAssign, target: ast.Name, out: Body) -> None:
        """`x += 1` of a cell of 0.27."""
        cell = self.ev.scope.find(target.id)
        if not isinstance(cell, frames.Cell):
            name = target.id
            hint = f'keep it in memory: {name} = T.alloc_buffer((1,), "float32"), {name}[0] += …'
            raise self.ev.error(target, "only an element of a buffer can be changed", hint)
        with self.ev.blame(node):
            change = self.ev.value(node.value)
            value = operate.binary(
                type(node.op).__name__, cell.as_prim_expr(), change, self.ev.trusted
            )
        self.change(cell, value, node.value, out)

    def ann_assign_(self, node: ast.AnnAssign, out: Body) -> None:
        """`x: T.int32 = value`: a let."""
        name = self.plain_name(node.target)
        kind = self.ev.value(node.annotation)
        is_let = isinstance(kind, frames.LetType) or kind is words.LET
        if isinstance(kind, frames.LetType):
            kind = kind.kind
        made = dtype_of(kind)
        if node.value is None:
            if not self.function.is_new or is_let or made is None:
                raise self.ev.error(node, f"{name} needs a value", f"{name}: T.int32 = 0")
            self.empty_cell(name, made.dtype, node.annotation, out)
            return
        value = self.ev.value(node.value)
        if made is None and is_let:
            found = self.ev.as_expr(value, node.value)
            self._not_lost(name, node.target)
            self.let(Var(name, found.dtype), found, out)
            return
        if made is None or isinstance(value, frames.Frame):
            self.bind(node.target, value, node.value, out)
            return
        if self.function.is_new and not is_let and not made.dtype.is_handle:
            self.empty_cell(name, made.dtype, node.annotation, out)
            self.change(self.ev.scope.find(name), value, node.value, out)
            return
        with self.ev.blame(node.value):
            number = build.cast(made.dtype, value) if isinstance(value, int | float) else value
        found = self.ev.as_expr(number, node.value)
        if found.dtype != made.dtype:
            hint = f'T.Cast("{made.dtype}", …)'
            raise self.ev.error(
                node.value, f"{name} is {made.dtype}, its value is {found.dtype}", hint
            )
        self._not_lost(name, node.target)
        self.let(made.make(name), found, out)

    # stores --------------------------------------------------------------------------------------

    def _subscript_store(
        self, target: ast.Subscript, value: Any, node: ast.stmt, out: Body
    ) -> None:
        buffer = self.ev.value(target.value)
        if not isinstance(buffer, Buffer):
            kind = f"this is {title(buffer)}"
            raise self.ev.error(
                target.value,
                f"only elements of buffers can be assigned, {kind}",
                buffer_hint(self.ev.scope),
            )
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
        return s.BufferStore(buffer, stored, indices, predicate, self.ev.source.span(node))

    # with ----------------------------------------------------------------------------------------

    def with_(self, node: ast.With, out: Body) -> None:
        """`with T.block("C"):`, `with T.init():`, `with T.allocate(…) as v:`"""
        item = node.items[0]
        if len(node.items) > 1:
            inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
            node = ast.copy_location(ast.With([item], [inner]), node)
        value = self.ev.value(item.context_expr)
        name = None if item.optional_vars is None else self.plain_name(item.optional_vars)
        if name is not None and isinstance(value, frames.BlockHead | frames.Init):
            raise self.ev.error(
                item.optional_vars, "a block has no value to name", "leave `as` away"
            )
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
        with self.ev.scope.inner(), self.inside_loop("block"):
            block = BlockParser(self.ev, head.name + self.block_suffix())
            self.blocks.append(block)
            body = self.lines(node.body)
            self.blocks.pop()
        with self.ev.blame(node):
            return block.finish(body, self.ev.source.span(node))


def _stored(value: Any, kind: Any, ev: Evaluator, node: ast.stmt) -> PrimExpr:
    """A value in the dtype of the buffer: numbers and narrower scalars are converted."""
    if isinstance(value, int | float) and not isinstance(value, PrimExpr):
        return p.const(value, kind)
    found = ev.as_expr(value, node)
    if found.dtype == kind:
        return found
    if found.dtype.lanes == 1 and kind.lanes != 1:
        found = e.Broadcast(found, kind.lanes)
    return p.cast(kind, found)


def _line_hint(value: Any) -> str | None:
    if isinstance(value, frames.BlockHead | frames.Init | frames.AllocateMemory):
        return "open it with `with`, or give it a name"
    if isinstance(value, frames.Loops):
        return "for i in …"
    return None


Line = Callable[[StmtParser, Any, Body], None]
_INSTEAD = {
    "Import": "import outside of the program",
    "ImportFrom": "import outside of the program",
    "Try": "a program has no exceptions; T.Assert stops it",
    "Raise": 'assert condition, "message"',
    "Delete": "a name ends with the lines around it",
    "Global": "names of Python are read only",
    "Nonlocal": "names of Python are read only",
    "ClassDef": "classes belong outside of the program",
    "AsyncFunctionDef": "write plain statements",
    "AsyncFor": "write plain statements",
    "AsyncWith": "write plain statements",
    "Match": "if … elif …",
}
_LINES: dict[type, Line] = {
    ast.Break: StmtParser.break_,
    ast.Continue: StmtParser.continue_,
    ast.FunctionDef: StmtParser.function_,
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
