"""The lines of a graph program: bindings, dataflow blocks, branches, nested functions.

Nested calls are made flat, and struct infos that the text does not say are inferred, by the same
Emitter that the BlockBuilder uses.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mlcnb.core.errors import MLCError, UnsupportedError
from mlcnb.core.node import replace
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import BaseCheckResult, struct_info_base_check
from mlcnb.relax.emitter import Emitter, Names
from mlcnb.relax.infer import GIVEN, infer, infer_call, is_leaf, is_pure_call
from mlcnb.relax.operator import declaration
from mlcnb.relax.struct_info import FuncStructInfo, ObjectStructInfo, StructInfo, describe
from mlcnb.relax.te_call import call_te
from mlcnb.script import frames
from mlcnb.script.parser.advice import ModuleRef, no_return
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.macro import expand
from mlcnb.script.parser.scope import names_in, targets
from mlcnb.script.parser.symbols import resolve_devices
from mlcnb.script.relax.convert import as_relax

if TYPE_CHECKING:
    from mlcnb.script.parser.relax_func import FunctionParser


class BodyParser:
    """Reads the lines of one function."""

    def __init__(self, ev: Evaluator, function: FunctionParser) -> None:
        self.ev = ev
        self.function = function
        self.emitter = Emitter(function.functions, Names(lambda: names_in(function.node)))
        self.blocks: list[rx.BindingBlock] = []
        #: inside a dataflow block: the lines whose variable outlives it
        self.outputs: set[int] = set()
        #: macros that are being read, one inside of the other
        self.macros = 0

    def function_body(self, lines: list[ast.stmt], place: ast.AST) -> rx.SeqExpr:
        """All lines of a function, the last of which is `return`."""
        if not lines or not isinstance(lines[-1], ast.Return):
            raise self.ev.error(*no_return(lines[-1] if lines else place))
        around, self.ev.expand = self.ev.expand, partial(expand, self)
        try:
            return self.whole(lines)
        finally:
            self.ev.expand = around

    def whole(self, lines: list[ast.stmt]) -> rx.SeqExpr:
        """The lines, and the value of the last."""
        self.lines(lines[:-1])
        last: Any = lines[-1]
        if last.value is None:
            raise self.ev.error(last, "`return` needs a value", "return R.tuple() for nothing")
        value = self.relax(self.ev.value(last.value), last.value)
        with self.ev.blame(last.value):
            body = self.emitter.leaf(value) if not isinstance(value, rx.Tuple) else self.leaf(value)
        self.close()
        return rx.SeqExpr(tuple(self.blocks), body)

    def leaf(self, value: rx.Tuple) -> Any:
        """A tuple whose fields are leaves."""
        return self.emitter.leaf(value)

    def lines(self, lines: list[ast.stmt]) -> None:
        """Lines that bind."""
        for index, line in enumerate(lines):
            if index == 0 and isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
                continue
            rule = _LINES.get(type(line))
            if rule is None:
                what = type(line).__name__
                raise self.ev.error(
                    line, f"a graph program has no {what} statement", _HINTS.get(what)
                )
            rule(self, line)

    def close(self) -> None:
        """End the block of bindings that is open."""
        if self.emitter.bindings:
            kind = rx.DataflowBlock if self.emitter.dataflow else rx.BindingBlock
            self.blocks.append(kind(tuple(self.emitter.bindings)))
            self.emitter.bindings = []

    # bindings ------------------------------------------------------------------------------------

    def relax(self, value: Any, place: Any) -> Any:
        """A value as a graph expression."""
        if isinstance(value, frames.FromTe):
            return self.from_te(value, place)
        if isinstance(value, frames.Frame):
            raise self.ev.error(place, f"{type(value).__name__} is no value here")
        with self.ev.blame(place):
            found = as_relax(value)
        return resolve_devices(self.ev, found, place)

    def from_te(self, value: frames.FromTe, place: Any) -> rx.Call:
        """The call of a loop function made here, which the module around gets."""
        if self.ev.table is None:
            raise self.ev.error(
                place, "R.emit_te needs a module, which gets the loops", "@I.ir_module"
            )
        with self.ev.blame(place):
            return call_te(self.emitter, self.ev.table, value.func, value.args, value.kwargs)

    def assign_(self, node: ast.Assign) -> None:
        """`x = value`"""
        if len(node.targets) != 1:
            raise self.ev.error(node, "one target is assigned at a time")
        self.bind(node.targets[0], self.ev.value(node.value), None, node)

    def ann_assign_(self, node: ast.AnnAssign) -> None:
        """`x: R.Tensor(…) = value`"""
        if node.value is None:
            raise self.ev.error(node, "a value is expected")
        found = self.function.struct_info(node.annotation)
        self.bind(node.target, self.ev.value(node.value), found, node)

    def bind(self, target: ast.expr, value: Any, info: StructInfo | None, node: Any) -> None:
        """Give a value its name; what that means depends on the value."""
        if isinstance(target, ast.Tuple):
            self.bind_fields(target, value, node)
            return
        if not isinstance(target, ast.Name):
            raise self.ev.error(target, "a name is expected here")
        name = target.id
        if isinstance(value, frames.NewVar):
            before = self.function.symbols.pop(name, None)
            known = self.function.named.get(name, before)
            self.ev.scope.define(name, known if known is not None else value.make(name))
        elif isinstance(value, ModuleRef | frames.Meta):
            self.ev.scope.define(name, getattr(value, "value", value))
        elif isinstance(value, frames.Matched):
            self.match(name, value, info, node)
        else:
            self.emit(name, self.relax(value, node.value), info, node)

    def bind_fields(self, target: ast.Tuple, value: Any, node: Any) -> None:
        """`a, b = T.int64(), T.int64()`, or the fields of a tuple."""
        if isinstance(value, tuple | list) and len(value) == len(target.elts):
            for one, item in zip(target.elts, value, strict=True):
                self.bind(one, item, None, node)
            return
        whole = self.relax(value, node.value)
        with self.ev.blame(node.value):
            var = self.emitter.leaf(whole)
        for index, one in enumerate(target.elts):
            self.bind(one, rx.TupleGetItem(var, index), None, node)

    def emit(self, name: str, value: Any, info: StructInfo | None, node: Any) -> None:
        """One binding: the value flat, its struct info as said or inferred."""
        with self.ev.blame(node.value):
            value = self.normal(value, info)
            found = info or infer(value, self.function.functions) or ObjectStructInfo()
            if info is not None and (isinstance(value, rx.Call) or is_leaf(value)):
                self.check(name, value, info)
        self.add(rx.VarBinding(self.variable(name, found, node), value))

    def check(self, name: str, value: Any, info: StructInfo) -> None:
        """What the text says of a value must not contradict what its operator says."""
        op = getattr(value, "op", None)
        if isinstance(op, rx.Op) and (op.name in GIVEN or not declaration(op, missing_ok=True)):
            return
        try:
            find: Any = infer_call if isinstance(value, rx.Call) else infer
            inferred = find(value, self.function.functions)
        except UnsupportedError:
            return
        if inferred and struct_info_base_check(info, inferred) is BaseCheckResult.FAIL_L0:
            message = f"{name} is said to be {describe(info)}, this gives {describe(inferred)}"
            raise MLCError(message, hint="leave the annotation out, and it is inferred")

    def normal(self, value: Any, info: StructInfo | None) -> Any:
        """A value in A-normal form; a call says the struct info that its binding says."""
        if isinstance(value, rx.Call) and info is not None:
            args = tuple(map(self.emitter.leaf, value.args))
            return replace(value, args=args, struct_info=info)
        if is_leaf(value) and not isinstance(value, rx.Op):
            return value
        if isinstance(value, rx.TupleGetItem):
            return replace(value, tuple_value=self.emitter.leaf(value.tuple_value))
        return self.emitter.value(value)

    def variable(self, name: str, info: StructInfo | None, node: Any) -> rx.Var:
        """The new variable of a name."""
        inner = self.emitter.dataflow and id(node) not in self.outputs
        var = (rx.DataflowVar if inner else rx.Var)(name, info)
        self.ev.scope.define(name, var)
        return var

    def add(self, binding: rx.Binding) -> None:
        """Append a binding to the block that is open."""
        self.emitter.bindings.append(binding)

    def match(self, name: str, value: frames.Matched, info: StructInfo | None, node: Any) -> None:
        """`y: R.Tensor((m,)) = R.match_cast(x, R.Tensor((m,)))`"""
        from mlcnb.script.parser.symbols import resolve_dims

        to = resolve_dims(self.ev, value.struct_info, node.value)
        with self.ev.blame(node.value):
            subject = self.emitter.leaf(value.value)
        self.add(rx.MatchCast(self.variable(name, info or to, node), subject, to))

    def line_(self, node: ast.Expr) -> None:
        """A line that binds nothing: `R.func_attr(…)`, a call for its effect."""
        value = self.ev.value(node.value)
        if value is None:  # a macro without a value
            return
        if isinstance(value, frames.FuncAttr):
            self.function.set_attrs(value.attrs)
        elif isinstance(value, frames.Output):
            raise self.ev.error(node, "R.output ends a dataflow block", "with R.dataflow():")
        elif isinstance(value, rx.Call):
            self.unused(value, node)
            self.emit("_", value, None, node)
        else:
            raise self.ev.error(node, "this line does nothing")

    def unused(self, value: rx.Call, node: ast.Expr) -> None:
        """A line of its own is a call for its effect: an operator without one does nothing."""
        known = declaration(value.op, missing_ok=True) if isinstance(value.op, rx.Op) else None
        if known is not None and is_pure_call(value):
            raise self.ev.error(
                node,
                f"the result of {known.op_name} is not used",
                "bind it: y = …, or leave it out",
            )

    def pass_(self, node: ast.Pass | ast.Nonlocal | ast.Global) -> None:
        """`pass`, and words that say where Python finds a name: nothing."""

    def return_(self, node: ast.Return) -> None:
        """Only the last line of a function returns."""
        raise self.ev.error(node, "`return` stands at the end of a function only")

    # blocks --------------------------------------------------------------------------------------

    def with_(self, node: ast.With) -> None:
        """`with R.dataflow():`"""
        item = node.items[0].context_expr
        if not isinstance(self.ev.value(item), frames.DataflowHead):
            raise self.ev.error(item, "`with` opens a dataflow block", "with R.dataflow():")
        if self.emitter.dataflow:
            raise self.ev.error(item, "dataflow blocks do not nest")
        self.close()
        self.emitter.dataflow = True
        lines, outputs = self.split_output(node)
        self.outputs = outputs
        before = set(self.ev.scope.frames[-1])
        self.lines(lines)
        self.forget(node, lines, before)
        self.close_dataflow()

    def close_dataflow(self) -> None:
        """End the dataflow block, even an empty one."""
        self.blocks.append(rx.DataflowBlock(tuple(self.emitter.bindings)))
        self.emitter.bindings = []
        self.emitter.dataflow = False
        self.outputs = set()

    def split_output(self, node: ast.With) -> tuple[list[ast.stmt], set[int]]:
        """The lines before R.output, and which of them bind what it names (their ids)."""
        last = node.body[-1]
        call = last.value if isinstance(last, ast.Expr) else None
        if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "output":
            raise self.ev.error(last, "a dataflow block ends with R.output(…)", "R.output(gv)")
        lines = node.body[:-1]
        final = {name: id(line) for line in lines for name in targets(line)}
        found = set()
        for arg in call.args:
            if not isinstance(arg, ast.Name) or arg.id not in final:
                raise self.ev.error(arg, "R.output names variables of this block")
            found.add(final[arg.id])
        return lines, found

    def forget(self, node: ast.With, lines: list[ast.stmt], before: set[str]) -> None:
        """Variables of the block that are no outputs have no name after it."""
        scope = self.ev.scope.frames[-1]
        for name in {n for line in lines for n in targets(line)}:
            if isinstance(scope.get(name), rx.DataflowVar):
                del scope[name]

    def if_(self, node: ast.If) -> None:
        """`if c:` … `else:` …, both ending with a binding of the same name."""
        if self.emitter.dataflow:
            raise self.ev.error(node, "no branches inside a dataflow block")
        cond = self.relax(self.ev.value(node.test), node.test)
        if not node.orelse:
            raise self.ev.error(node, "a branch of a graph needs its `else`")
        name, info = self.last_binding(node.body)
        other, _ = self.last_binding(node.orelse)
        if name != other:
            raise self.ev.error(
                node.orelse[-1], f"the branches bind {name!r} and {other!r}, not the same name"
            )
        with self.ev.blame(node.test):
            cond = self.emitter.leaf(cond)
        branches = [
            self.branch(lines, word) for lines, word in ((node.body, "then"), (node.orelse, "else"))
        ]
        choice = rx.If(cond, branches[0], branches[1], info)
        found = info or infer(choice, self.function.functions)
        choice = replace(choice, struct_info=found)
        self.add(rx.VarBinding(self.variable(name, found, node), choice))

    def last_binding(self, lines: list[ast.stmt]) -> tuple[str, StructInfo | None]:
        """The name that the last line of a branch binds, and its type where it is said."""
        last = lines[-1]
        if isinstance(last, ast.If) and last.orelse:
            return self.last_binding(last.body)
        found = targets(last)
        if len(found) != 1:
            raise self.ev.error(last, "a branch ends by binding its result", "y = …")
        is_said = isinstance(last, ast.AnnAssign)
        return found[0], self.function.struct_info(last.annotation) if is_said else None  # type: ignore[attr-defined]

    def branch(self, lines: list[ast.stmt], word: str) -> rx.SeqExpr:
        """One branch; what its last line binds is its value."""
        blocks, self.blocks = self.blocks, []
        bindings, self.emitter.bindings = self.emitter.bindings, []
        with self.ev.scope.inner():
            self.lines(lines[:-1])
            body = self.result_of(lines[-1], word)
        self.close()
        found = rx.SeqExpr(tuple(self.blocks), body)
        self.blocks, self.emitter.bindings = blocks, bindings
        return found

    def result_of(self, last: Any, word: str) -> Any:
        """The value of the last line of a branch: a leaf, or a new variable for it."""
        if isinstance(last, ast.If):
            self.lines([last])
            return self.ev.scope.find(self.last_binding(last.body)[0])
        value = self.ev.value(last.value)
        if not isinstance(value, frames.Matched):
            made = self.relax(value, last.value)
            if is_leaf(made) and not isinstance(made, rx.TupleGetItem):
                return self.emitter.leaf(made)
        name = f"{targets(last)[0]}_{word}"
        info = (
            self.function.struct_info(last.annotation) if isinstance(last, ast.AnnAssign) else None
        )
        self.bind(ast.copy_location(ast.Name(name, ast.Store()), last), value, info, last)
        return self.ev.scope.find(name)

    def function_(self, node: ast.FunctionDef) -> None:
        """A function inside a function."""
        from mlcnb.script.parser.module import FunctionReader
        from mlcnb.script.parser.relax_func import FunctionParser

        kind, options = FunctionReader(self.ev).kind(node)
        if kind != "function":
            raise self.ev.error(node, "only graph functions stand inside graph functions")
        pure = bool(options.get("pure", True))
        inner = FunctionParser(self.ev, node, self.function.functions, True, pure)
        known: list[rx.Var] = []

        def recursive(params: list[rx.Var], ret: StructInfo) -> None:
            """A function that says its result may call itself."""
            infos = tuple(p.struct_info or ObjectStructInfo() for p in params)
            known.append(self.variable(node.name, FuncStructInfo(infos, ret, pure), node))

        inner.known = recursive
        made = inner.parse()
        var = known[0] if known else self.variable(node.name, made.struct_info, node)
        self.ev.scope.define(node.name, var)
        self.add(rx.VarBinding(var, made))


_HINTS = {
    "For": "loops belong in a @T.prim_func",
    "While": "loops belong in a @T.prim_func",
    "AugAssign": "every name is bound once: y = x + 1",
}
_LINES: dict[type, Callable[[BodyParser, Any], None]] = {
    ast.Assign: BodyParser.assign_,
    ast.AnnAssign: BodyParser.ann_assign_,
    ast.Expr: BodyParser.line_,
    ast.With: BodyParser.with_,
    ast.If: BodyParser.if_,
    ast.FunctionDef: BodyParser.function_,
    ast.Return: BodyParser.return_,
    ast.Pass: BodyParser.pass_,
    ast.Nonlocal: BodyParser.pass_,
    ast.Global: BodyParser.pass_,
}
