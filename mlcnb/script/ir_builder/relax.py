"""R: the words of graph programs, for the IRBuilder.

with IRBuilder() as ib:                                @R.function
    with R.function():                                 def main(x: R.Tensor((2, 3), "float32")):
        R.func_name("main")                                with R.dataflow():
        x = R.arg("x", R.Tensor((2, 3), "float32"))            lv = R.exp(x)
        with R.dataflow() as frame:             ->             gv = R.add(lv, lv)
            lv = R.emit(R.exp(x))                              R.output(gv)
            R.output(R.emit(R.add(lv, lv)))                return gv
        R.func_ret_value(frame.output_vars[0])

Operators and struct infos are those of `mlcnb.script.relax`.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.attrs import frozen
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import return_info
from mlcnb.relax.emitter import Emitter, Names
from mlcnb.relax.infer import is_leaf
from mlcnb.relax.mutator import Renamer
from mlcnb.relax.struct_info import ObjectStructInfo
from mlcnb.script import relax as script
from mlcnb.script.ir_builder.builder import Frame, IRBuilder, find
from mlcnb.script.ir_builder.ir import ModuleFrame, finish_function


class Sequence(Frame):
    """A frame that holds blocks of bindings: a function, or a branch."""

    title = "sequence of blocks"
    func: FunctionFrame

    def __init__(self) -> None:
        self.blocks: list[rx.BindingBlock] = []

    def close(self) -> None:
        """What was bound so far is a block."""
        if self.func.emitter.bindings:
            self.blocks.append(rx.BindingBlock(tuple(self.func.emitter.bindings)))
        self.func.emitter.bindings = []


class FunctionFrame(Sequence):
    """`with R.function():`"""

    title = "graph function"

    def __init__(self, is_pure: bool, is_private: bool) -> None:
        super().__init__()
        self.func = self
        self.pure, self.private = is_pure, is_private
        self.name: str | None = None
        self.params: list[rx.Var] = []
        self.attrs: dict[str, Any] = {}
        self.ret: Any = None
        self.result: Any = None
        self.emitter = Emitter({}, Names())

    def enter(self) -> None:
        """Functions that the module has already are known to calls."""
        around = [f for f in IRBuilder.current().frames if isinstance(f, ModuleFrame)]
        self.emitter.functions = around[-1].functions if around else {}

    def leave(self) -> None:
        """The function, its variables by the names that were given."""
        if self.result is None:
            raise MLCError("a graph function has no result", hint="R.func_ret_value(x)")
        self.close()
        named = self.name is not None and not self.private
        attrs = {"global_symbol": self.name} if named else {}
        info = self.result.struct_info or ObjectStructInfo()
        params = tuple(self.params)
        ret = return_info(params, info) if self.ret is None else self.ret
        body = rx.SeqExpr(tuple(self.blocks), self.result)
        made = IRBuilder.current().named(
            rx.Function(params, body, ret, self.pure, frozen({**attrs, **self.attrs}))
        )
        finish_function(made, self.name)


class DataflowFrame(Frame):
    """`with R.dataflow() as frame:`; `frame.output_vars` are what it gives out, once it is left."""

    title = "dataflow block"

    def __init__(self) -> None:
        self.output_vars: list[rx.Var] = []

    def enter(self) -> None:
        """A block begins."""
        self.func = find(FunctionFrame, "R.dataflow")
        if self.func.emitter.dataflow:
            raise MLCError("a dataflow block is open already", hint="dataflow blocks do not nest")
        self.around = find(Sequence, "R.dataflow")
        self.around.close()
        self.func.emitter.dataflow = True

    def leave(self) -> None:
        """The block; what it gives out are variables that are seen after it."""
        local, names = self.output_vars, IRBuilder.current().names
        self.output_vars = [rx.Var(names.get(v, v.name_hint), v.struct_info, v.span) for v in local]
        block = rx.DataflowBlock(tuple(self.func.emitter.bindings))
        self.func.emitter.bindings, self.func.emitter.dataflow = [], False
        renamed = Renamer(dict(zip(local, self.output_vars, strict=True))).visit_block(block)
        if renamed.bindings:
            self.around.blocks.append(renamed)


class IfFrame(Frame):
    """`with R.If(c) as frame:`; `frame.var` is the result of the branches, once it is left."""

    title = "R.If"

    def __init__(self, condition: Any) -> None:
        self.condition = condition
        self.branches: dict[str, tuple[str, rx.SeqExpr]] = {}
        self.var: Any = None

    def enter(self) -> None:
        """The condition, bound where it is no variable yet.

        Raises:
            MLCError: a dataflow block is open.
        """
        self.func = find(FunctionFrame, "R.If")
        if self.func.emitter.dataflow:
            raise MLCError(
                "R.If stands in a dataflow block",
                hint="control flow goes outside of `with R.dataflow():`",
            )
        self.condition = self.func.emitter.leaf(self.condition)

    def leave(self) -> None:
        """Both branches, bound to a variable.

        Raises:
            MLCError: a branch is missing, or they bind different names.
        """
        for word in ("Then", "Else"):
            if word not in self.branches:
                raise MLCError(f"R.If has no R.{word}", hint=f"with R.{word}():")
        (name, then), (other, otherwise) = self.branches["Then"], self.branches["Else"]
        if name and other and name != other:
            raise MLCError(
                f"the branches bind {name!r} and {other!r}, not the same name",
                hint="IRBuilder.name: the last value of both branches under one name",
            )
        emitter = self.func.emitter
        hint = name or other
        self.var = emitter.emit(rx.If(self.condition, then, otherwise), hint)
        if hint:
            IRBuilder.name(hint, self.var)


class BranchFrame(Sequence):
    """`with R.Then():` or `with R.Else():`; the value that it binds last is its result."""

    title = "branch"

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word

    def enter(self) -> None:
        """A branch of the R.If around.

        Raises:
            MLCError: there is none, or it has such a branch.
        """
        frames = IRBuilder.current().frames
        found = frames[-2] if len(frames) > 1 else None
        if not isinstance(found, IfFrame):
            raise MLCError(f"R.{self.word} stands in no R.If", hint="with R.If(c):")
        if self.word in found.branches:
            raise MLCError(f"R.If has two R.{self.word}")
        self.choice, self.func = found, found.func
        self.before, self.func.emitter.bindings = self.func.emitter.bindings, []

    def leave(self) -> None:
        """The bindings and their last value, under the name that it was given.

        Raises:
            MLCError: the branch binds nothing.
        """
        self.close()
        self.func.emitter.bindings = self.before
        if not self.blocks:
            raise MLCError(
                f"R.{self.word} binds nothing", hint="its last R.emit is the result of the branch"
            )
        last = self.blocks[-1].bindings[-1]
        name = IRBuilder.current().names.get(last.var, "")
        body: Any = last.var
        if is_leaf(last.value) and isinstance(last, rx.VarBinding):
            body = last.value
            rest = self.blocks.pop().bindings[:-1]
            self.blocks += [rx.BindingBlock(rest)] if rest else []
        elif name:  # the result has the name; what a branch binds last is told by its branch
            IRBuilder.name(f"{name}_{self.word.lower()}", last.var)
        self.choice.branches[self.word] = (name, rx.SeqExpr(tuple(self.blocks), body))


def function(is_pure: bool = True, is_private: bool = False) -> FunctionFrame:
    """A function: `with R.function():`"""
    return FunctionFrame(is_pure, is_private)


def func_name(name: str) -> None:
    """The name of the function."""
    found = find(FunctionFrame, "R.func_name")
    found.name = name


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes of the function."""
    find(FunctionFrame, "R.func_attr").attrs.update(FrozenDict(attrs))


def func_ret_struct_info(ret_sinfo: Any) -> None:
    """The struct info of the result."""
    find(FunctionFrame, "R.func_ret_struct_info").ret = _struct_info(ret_sinfo)


def func_ret_value(value: Any) -> None:
    """The result: an expression, of variables that are seen outside of dataflow blocks."""
    func = find(FunctionFrame, "R.func_ret_value")
    if func.result is not None:
        raise MLCError("a graph function has its result already")
    func.result = func.emitter.leaf(_expr(value))


def arg(name: str, struct_info: Any) -> rx.Var:
    """A parameter: `x = R.arg("x", R.Tensor((2, 3), "float32"))`"""
    func = find(FunctionFrame, "R.arg")
    func.params.append(rx.Var(func.emitter.names.fresh(name), _struct_info(struct_info)))
    return func.params[-1]


def dataflow() -> DataflowFrame:
    """A dataflow block."""
    return DataflowFrame()


def If(condition: Any) -> IfFrame:
    """A choice: `with R.If(c) as frame:`, in it `with R.Then():` and `with R.Else():`

    condition: a bool tensor of shape ().
    """
    return IfFrame(condition)


def Then() -> BranchFrame:
    """Where the condition of the R.If around holds; what is bound last is the result."""
    return BranchFrame("Then")


def Else() -> BranchFrame:
    """Where it does not hold; what is bound last is the result, under the name that R.Then gave."""
    return BranchFrame("Else")


def output(*variables: rx.Var) -> None:
    """What the dataflow block gives out."""
    find(DataflowFrame, "R.output").output_vars += variables


def emit(value: Any, annotate_struct_info: Any = None) -> rx.Var:
    """A binding of a value, and its variable.

    Raises:
        TypeInferError: the arguments of an operator do not fit.
    """
    emitter = find(FunctionFrame, "R.emit").emitter
    if annotate_struct_info is None:
        return emitter.emit(_expr(value))
    made = emitter.value(_expr(value))
    kind = rx.DataflowVar if emitter.dataflow else rx.Var
    var = kind(
        emitter.names.fresh("lv" if emitter.dataflow else "gv"), _struct_info(annotate_struct_info)
    )
    emitter.bindings.append(rx.VarBinding(var, made))
    return var


def emit_match_cast(value: Any, struct_info: Any) -> rx.Var:
    """A binding of a value that is checked to be of a struct info."""
    emitter = find(FunctionFrame, "R.emit_match_cast").emitter
    return emitter.match_cast(_expr(value), _struct_info(struct_info))


def _expr(value: Any) -> Any:
    return rx.Tuple(tuple(map(_expr, value))) if isinstance(value, list | tuple) else value


def _struct_info(given: Any) -> Any:
    return given() if callable(given) and not isinstance(given, rx.Expr) else given


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(script, name)
