"""Emitter: expressions in, bindings in A-normal form out.

    emit(R.nn.relu(R.add(x, x)))    ->    lv = R.add(x, x)
                                          lv1 = R.nn.relu(lv)

What `BlockBuilder` and `Mutator` have in common: fresh names, nested calls made flat, struct info
filled in, and the list of bindings that grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.errors import MLCError, WellFormedError
from mlcnb.core.node import FrozenDict, identical, replace
from mlcnb.ir.expr import GlobalVar, PrimExpr
from mlcnb.ir.span import Span
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import return_info
from mlcnb.relax.infer import Functions, children_of, infer, infer_call, is_leaf
from mlcnb.relax.operator import NULL, is_null
from mlcnb.relax.struct_info import ObjectStructInfo, ShapeStructInfo, StructInfo


class Names:
    """Gives names that are not taken: lv, lv1, lv2, …"""

    def __init__(self, taken: Iterable[str] | Callable[[], Iterable[str]] = ()) -> None:
        self._source = taken if callable(taken) else None
        self._taken = None if callable(taken) else set(taken)
        self._next: dict[str, int] = {}

    @property
    def taken(self) -> set[str]:
        """All names given out or reserved."""
        if self._taken is None:
            self._taken = set(self._source()) if self._source else set()
        return self._taken

    def reserve(self, name: str) -> None:
        """Never give this name."""
        self.taken.add(name)

    def release(self, name: str) -> None:
        """This name may be given again."""
        self.taken.discard(name)
        self._next.pop(name, None)

    def fresh(self, prefix: str) -> str:
        """`prefix` itself if it is free, else with the first number that makes it so."""
        taken = self.taken
        name, number = prefix, self._next.get(prefix, 0)
        while name in taken:
            number += 1
            name = f"{prefix}{number}"
        self._next[prefix] = number
        taken.add(name)
        return name


class Emitter:
    """Collects bindings.

    functions: what GlobalVars name, for inference; names: the supply of variable names;
    dataflow: whether the bindings now go into a dataflow block; origin: the span of calls that have
    none of their own.
    """

    def __init__(self, functions: Functions, names: Names, dataflow: bool = False) -> None:
        self.functions = functions
        self.names = names
        self.dataflow = dataflow
        self.bindings: list[rx.Binding] = []
        self.origin: Span | None = None

    @contextmanager
    def scope(self, dataflow: bool) -> Iterator[list[rx.Binding]]:
        """Bindings go to a new list inside the `with` block."""
        kept = (self.bindings, self.dataflow)
        self.bindings, self.dataflow = [], dataflow
        try:
            yield self.bindings
        finally:
            self.bindings, self.dataflow = kept

    def emit(self, expr: Any, name_hint: str = "", output: bool = False) -> rx.Var:
        """Bind `expr` to a new variable, after what its nested calls need."""
        return self.bind(self.value(expr), name_hint, output)

    def bind(self, value: Any, name_hint: str = "", output: bool = False) -> rx.Var:
        """Bind a value that is in normal form, with its struct info: it is not looked into."""
        var = self.new_var(value, name_hint, output)
        self.bindings.append(rx.VarBinding(var, value))
        return var

    def match_cast(self, value: Any, info: StructInfo, name_hint: str = "") -> rx.Var:
        """Bind `value`, checked at run time to be of `info`."""
        name = self.names.fresh(name_hint or ("lv" if self.dataflow else "gv"))
        var = (rx.DataflowVar if self.dataflow else rx.Var)(name, info)
        self.bindings.append(rx.MatchCast(var, self.leaf(value), info))
        return var

    def new_var(self, value: Any, name_hint: str = "", output: bool = False) -> rx.Var:
        """A variable fit to hold `value`: a DataflowVar inside a dataflow block."""
        inner = self.dataflow and not output
        name = self.names.fresh(name_hint or ("lv" if inner else "gv"))
        info = infer(value, self.functions) or ObjectStructInfo()
        return (rx.DataflowVar if inner else rx.Var)(name, info, getattr(value, "span", None))

    def leaf(self, expr: Any) -> Any:
        """`expr` as something that may be an argument; what is not is bound to a variable."""
        if type(expr) in _PLAIN:
            return expr
        if isinstance(expr, rx.Tuple):
            fields = tuple(map(self.leaf, expr.fields))
            return replace(expr, fields=fields)
        if is_null(expr):
            return NULL
        return expr if is_leaf(expr) else self.emit(expr)

    def value(self, expr: Any) -> Any:
        """`expr` as something that may be bound: its parts are leaves, its struct info is known.

        Raises:
            TypeInferError: arguments of an operator do not fit.
            WellFormedError: `expr` is no graph expression.
        """
        make = _VALUES.get(type(expr))
        if make is not None:
            return make(self, expr)
        if not hasattr(expr, "struct_info") and not isinstance(expr, GlobalVar):
            raise WellFormedError(
                f"{type(expr).__name__} is no graph expression: {expr!r}",
                hint="numbers and arrays become expressions with relax.const(value)",
            )
        return expr

    def _call(self, call: rx.Call) -> rx.Call:
        args = tuple(map(self.leaf, call.args))
        op = (
            call.op
            if isinstance(call.op, rx.Op | GlobalVar | rx.ExternFunc)
            else self.leaf(call.op)
        )
        span = call.span or self.origin
        changed = op is not call.op or not identical(args, call.args) or span is not call.span
        known = None if changed else call.struct_info
        if known is not None:
            return call
        if changed:
            call = rx.Call(op, args, call.attrs, call.sinfo_args, None, span)
        return replace(call, struct_info=infer_call(call, self.functions))

    def _null(self, op: rx.Op) -> Any:
        """The operator that stands for nothing, bound: a call of it, which is an object."""
        return rx.Call(NULL, (), None, (), ObjectStructInfo()) if is_null(op) else op

    def _item(self, item: rx.TupleGetItem) -> Any:
        if isinstance(item.tuple_value, rx.Tuple):
            return self.value(item.tuple_value.fields[item.index])
        return replace(item, tuple_value=self.leaf(item.tuple_value))

    def _if(self, choice: rx.If) -> rx.If:
        branches = self.seq_expr(choice.true_branch), self.seq_expr(choice.false_branch)
        return self.choice(rx.If(choice.cond, *branches))

    def choice(self, choice: rx.If) -> rx.If:
        """An If whose branches are in normal form: they are not looked into."""
        if self.dataflow:
            raise MLCError(
                "an If stands in a dataflow block",
                hint="control flow goes outside of `with bb.dataflow()`",
            )
        made = replace(choice, cond=self.leaf(choice.cond))
        return made if made.struct_info is not None else replace(made, struct_info=infer(made))

    def _inline(self, seq: rx.SeqExpr) -> Any:
        for binding in seq.bindings:
            self.rebind(binding)
        return self.value(seq.body)

    def rebind(self, binding: rx.Binding) -> None:
        """Append a binding, its value normalized; the variable stays."""
        normal = self.leaf if isinstance(binding, rx.MatchCast) else self.value
        self.bindings.append(replace(binding, value=normal(binding.value)))

    def seq_expr(self, expr: Any) -> rx.SeqExpr:
        """`expr` as a block of bindings and a leaf, in a scope of its own."""
        if not isinstance(expr, rx.SeqExpr):
            expr = rx.SeqExpr((), expr)
        blocks = []
        for block in expr.blocks:
            with self.scope(block_is_dataflow(block)) as bindings:
                for binding in block.bindings:
                    self.rebind(binding)
            blocks.append(with_bindings(block, tuple(bindings)))
        return self.ended(expr, blocks, lambda: expr.body)

    def ended(
        self, seq: rx.SeqExpr, blocks: list[rx.BindingBlock], result: Callable[[], Any]
    ) -> rx.SeqExpr:
        """`seq` with these blocks (empty ones left out) and a result, which may bind more; itself
        where all is as it was.
        """
        with self.scope(False) as rest:
            body = self.leaf(result())
        last = (rx.BindingBlock(tuple(rest)),) if rest else ()
        kept = tuple(b for b in (*blocks, *last) if b.bindings)
        return replace(seq, blocks=kept, body=body)

    def _function(self, func: rx.Function) -> rx.Function:
        body = self.seq_expr(func.body)
        ret = func.ret_struct_info or body.struct_info
        return replace(func, body=body, ret_struct_info=ret)


#: leaves that are most of all arguments
_PLAIN = frozenset(
    {rx.Var, rx.DataflowVar, rx.Constant, rx.ShapeExpr, rx.PrimValue, GlobalVar, rx.Op}
)

_VALUES: dict[type, Callable[[Emitter, Any], Any]] = {
    rx.Call: Emitter._call,
    rx.TupleGetItem: Emitter._item,
    rx.Tuple: Emitter.leaf,
    rx.If: Emitter._if,
    rx.SeqExpr: Emitter._inline,
    rx.Function: Emitter._function,
    rx.Op: Emitter._null,
}


def block_is_dataflow(block: rx.BindingBlock) -> bool:
    """True for a DataflowBlock."""
    return type(block) is not rx.BindingBlock


def with_bindings(block: rx.BindingBlock, bindings: tuple[rx.Binding, ...]) -> rx.BindingBlock:
    """A block of the same kind with other bindings; itself where they are the same."""
    return replace(block, bindings=bindings)


def size_check(
    given: PrimExpr, wanted: PrimExpr, name: str, span: Span | None, kind: type[rx.Var] = rx.Var
) -> rx.MatchCast:
    """A binding that stops the program where a size is not the one that is wanted."""
    info = ShapeStructInfo((wanted,), 1)
    return rx.MatchCast(kind(name, info, span), rx.ShapeExpr((given,)), info)


@dataclass
class FunctionFrame:
    """A function that is being built."""

    name: str
    params: list[rx.Var] | None
    attrs: dict[str, Any]
    pure: bool
    blocks: list[rx.BindingBlock] = field(default_factory=list)
    result: rx.Function | None = None

    def check(self, body: Any) -> None:
        """Refuse a result that is local to a dataflow block.

        Raises:
            MLCError: it is.
        """
        for part in children_of(body):
            if isinstance(part, rx.DataflowVar):
                raise MLCError(
                    f"function {self.name!r} returns {part.name_hint}, which lives only in its "
                    "dataflow block",
                    hint="bb.emit_output(value) makes a variable that is seen outside",
                )

    def finish(self, body: Any) -> None:
        """The blocks and this body are the function."""
        params = tuple(self.params or ())
        ret = return_info(params, body.struct_info or ObjectStructInfo())
        seq = rx.SeqExpr(tuple(self.blocks), body)
        self.result = rx.Function(params, seq, ret, self.pure, FrozenDict(self.attrs))


def variables(params: rx.Var | Sequence[rx.Var] | None) -> list[rx.Var] | None:
    """Parameters as they may be given: one, several, or None for those that come later.

    Raises:
        MLCError: one is no Var, or one of a dataflow block.
    """
    if params is None:
        return None
    given = [params] if isinstance(params, rx.Var) else list(params)
    for each in given:
        if not isinstance(each, rx.Var) or isinstance(each, rx.DataflowVar):
            raise MLCError(
                f"a parameter has to be a relax.Var, got {type(each).__name__}",
                hint='relax.Var("x", struct_info)',
            )
    return given
