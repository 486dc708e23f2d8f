"""Visitors and mutators of graph programs that a person writes, by TVM's names.

    @relax.expr_functor.mutator
    class ReluToGelu(relax.PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == tvm.ir.Op.get("relax.nn.relu"):
                return relax.op.nn.gelu(call.args[0])
            return call

    new = ReluToGelu(mod).visit_expr(mod["main"])

Every kind of node has a method `visit_…_` (an expression), `visit_…_` (a binding or a block) or
`visit_…_def_` (a variable where it is bound); one that is not overridden goes on into what is
inside. A mutator's results are made flat and typed by its `builder_`, a BlockBuilder.
Semantics: https://tvm.apache.org/docs/reference/api/python/relax/expr_functor.html
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import children, identical, replace
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import return_info, same_info
from mlcnb.relax.analysis.variables import bound_vars
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.emitter import block_is_dataflow, with_bindings
from mlcnb.relax.infer import infer
from mlcnb.relax.struct_info import StructInfo
from mlcnb.tir.functor import method_name, mutator, visitor

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

#: class of an expression -> the method that visits it
_METHODS: dict[type, str] = {
    kind: method_name(kind)
    for kind in (
        rx.Constant, rx.Tuple, rx.DataflowVar, rx.Var, rx.ShapeExpr, rx.ExternFunc, GlobalVar,
        rx.Function, rx.Call, rx.SeqExpr, rx.If, rx.Op, rx.PrimValue, rx.StringImm, rx.DataTypeImm,
    )
} | {rx.TupleGetItem: "visit_tuple_getitem_"}  # fmt: skip


def _leaf(self: Any, op: Any) -> Any:
    """Nothing inside to go on into."""
    return op


class ExprFunctor:
    """Finds the method for a node, and leaves what has nothing inside: what visitors and mutators
    share.
    """

    visit_constant_ = visit_global_var_ = visit_op_ = visit_extern_func_ = _leaf
    visit_string_imm_ = visit_data_type_imm_ = visit_var_ = _leaf
    #: an expression that has no method of its own, such as a loop function
    visit_other = _leaf
    #: a scalar inside of a shape or a PrimValue
    visit_prim_expr = _leaf

    def visit_dataflow_var_(self, op: rx.DataflowVar) -> Any:
        """A variable of a dataflow block where it is used."""
        return self.visit_var_(op)

    def visit_expr(self, expr: Any) -> Any:
        """Visit any expression: calls the method of its class."""
        method = _METHODS.get(type(expr))
        return self.visit_other(expr) if method is None else getattr(self, method)(expr)

    def visit_binding(self, binding: rx.Binding) -> Any:
        """Visit a binding of either kind."""
        if isinstance(binding, rx.MatchCast):
            return self.visit_match_cast_(binding)
        return self.visit_var_binding_(binding)  # type: ignore[arg-type]

    def visit_binding_block(self, block: rx.BindingBlock) -> Any:
        """Visit a block of either kind."""
        if block_is_dataflow(block):
            return self.visit_dataflow_block_(block)  # type: ignore[arg-type]
        return self.visit_binding_block_(block)

    def visit_var_def(self, var: rx.Var) -> Any:
        """Visit a variable where it is bound."""
        if isinstance(var, rx.DataflowVar):
            return self.visit_dataflow_var_def_(var)
        return self.visit_var_def_(var)

    def visit_match_cast_(self, binding: rx.MatchCast) -> Any:
        """A match_cast."""
        raise NotImplementedError

    def visit_var_binding_(self, binding: rx.VarBinding) -> Any:
        """A binding of a variable."""
        raise NotImplementedError

    def visit_binding_block_(self, block: rx.BindingBlock) -> Any:
        """A block that may have effects."""
        raise NotImplementedError

    def visit_dataflow_block_(self, block: rx.DataflowBlock) -> Any:
        """A dataflow block."""
        return self.visit_binding_block_(block)

    def visit_var_def_(self, var: rx.Var) -> Any:
        """A variable where it is bound."""
        return var

    def visit_dataflow_var_def_(self, var: rx.DataflowVar) -> Any:
        """A variable of a dataflow block where it is bound."""
        return self.visit_var_def_(var)


class PyExprVisitor(ExprFunctor):
    """Walks a function, block by block and binding by binding; a subclass overrides methods."""

    def visit_span(self, span: Any) -> None:
        """Where a node came from; not walked by itself."""

    def visit_struct_info(self, info: StructInfo) -> None:
        """A struct info; not walked by itself."""

    def visit_shape_expr_(self, op: rx.ShapeExpr) -> Any:
        """Dimension by dimension."""
        for value in op.values:
            self.visit_prim_expr(value)

    def visit_prim_value_(self, op: rx.PrimValue) -> Any:
        """The scalar."""
        self.visit_prim_expr(op.value)

    def _inside(self, op: Any) -> None:
        """Field by field; the tuple; the condition, then the branches."""
        for part in children(op):
            self.visit_expr(part)

    visit_tuple_ = visit_tuple_getitem_ = visit_if_ = _inside

    def visit_call_(self, op: rx.Call) -> Any:
        """The head, then the arguments, then the struct infos among them."""
        self.visit_expr(op.op)
        for arg in op.args:
            self.visit_expr(arg)
        for info in op.sinfo_args:
            self.visit_struct_info(info)

    def visit_seq_expr_(self, op: rx.SeqExpr) -> Any:
        """Blocks, then the result."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_function_(self, op: rx.Function) -> Any:
        """Parameters, then the body."""
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)

    def visit_binding_block_(self, block: rx.BindingBlock) -> Any:
        """Binding by binding."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_var_binding_(self, binding: rx.VarBinding) -> Any:
        """The value, then the variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: rx.MatchCast) -> Any:
        """The value, the struct info, then the variable."""
        self.visit_expr(binding.value)
        self.visit_struct_info(binding.struct_info)
        self.visit_var_def(binding.var)


class PyExprMutator(ExprFunctor):
    """Rebuilds a function from what its methods return; itself where they change nothing.

    Args:
        mod: the module whose functions calls may name; `builder_` begins with it.

    Attributes:
        builder_: the BlockBuilder that results are emitted to, and that new functions go into.
    """

    builder_: BlockBuilder

    def __init__(self, mod: IRModule | None = None) -> None:
        self._begin(mod)

    def _begin(self, mod: IRModule | None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[rx.Var, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """A subclass whose __init__ calls no other has its builder when it first asks for it."""
        if name in ("builder_", "_remap"):
            self._begin(None)
            return self.__dict__[name]
        raise AttributeError(f"{kind_of(self)} has no attribute {name!r}")

    # leaves --------------------------------------------------------------------------------------

    def visit_var_(self, op: rx.Var) -> Any:
        """A variable where it is used: what took its place, or itself."""
        return self._remap.get(op, op)

    def visit_shape_expr_(self, op: rx.ShapeExpr) -> Any:
        """Dimension by dimension."""
        return replace(op, values=tuple(map(self.visit_prim_expr, op.values)))

    def visit_prim_value_(self, op: rx.PrimValue) -> Any:
        """The scalar."""
        return replace(op, value=self.visit_prim_expr(op.value))

    # expressions ---------------------------------------------------------------------------------

    def _inside(self, op: Any) -> Any:
        """What is inside: fields, the tuple, head and arguments, or the condition and the branches,
        each in a scope of its own.
        """
        return self.visit_expr_post_order(op)

    visit_tuple_ = visit_tuple_getitem_ = visit_call_ = visit_if_ = _inside

    def visit_expr_post_order(self, expr: Any) -> Any:
        """`expr` with what is inside of it visited, its own method not called."""
        if isinstance(expr, rx.Call):
            return self._rebuilt_call(expr)
        if isinstance(expr, rx.Tuple):
            return replace(expr, fields=tuple(map(self.visit_expr, expr.fields)))
        if isinstance(expr, rx.TupleGetItem):
            return replace(expr, tuple_value=self.visit_expr(expr.tuple_value))
        if isinstance(expr, rx.If):
            cond = self.visit_expr(expr.cond)
            branches = [self.visit_expr(b) for b in (expr.true_branch, expr.false_branch)]
            before = (expr.cond, expr.true_branch, expr.false_branch)
            return expr if identical((cond, *branches), before) else rx.If(cond, *branches)
        if isinstance(expr, rx.Function):
            return PyExprMutator.visit_function_(self, expr)
        return self.visit_expr(expr)

    def _rebuilt_call(self, call: rx.Call) -> rx.Call:
        op = self.visit_expr(call.op)
        args = tuple(map(self.visit_expr, call.args))
        if op is call.op and identical(args, call.args):
            return call
        return rx.Call(op, args, call.attrs, call.sinfo_args, None, call.span)

    # functions, blocks, bindings -----------------------------------------------------------------

    def visit_function_(self, op: rx.Function) -> Any:
        """Parameters, then the body; the result's struct info is inferred again."""
        params = tuple(map(self.visit_var_def, op.params))
        with self.builder_.scope_of([v.name_hint for v in bound_vars(op)]):
            body = self.visit_with_new_scope(op.body)
        if body is op.body and identical(params, op.params):
            return op
        info = body.struct_info
        kept = info is None or same_info(info, op.body.struct_info)
        ret = op.ret_struct_info if kept else return_info(params, info)
        return replace(op, params=params, body=body, ret_struct_info=ret)

    def visit_with_new_scope(self, expr: Any) -> Any:
        """A body, visited so that what it emits stays inside of it."""
        seq = expr if isinstance(expr, rx.SeqExpr) else rx.SeqExpr((), expr)
        return self.visit_seq_expr_(seq)

    def visit_seq_expr_(self, op: rx.SeqExpr) -> Any:
        """Blocks, then the result; blocks that are left empty go."""
        blocks = [*map(self.visit_binding_block, op.blocks)]
        return self.builder_.emitter.ended(op, blocks, lambda: self.visit_expr(op.body))

    def visit_binding_block_(self, block: rx.BindingBlock) -> Any:
        """Binding by binding; each emits its new form."""
        emitter = self.builder_.emitter
        with emitter.scope(block_is_dataflow(block)) as bindings:
            for binding in block.bindings:
                self.visit_binding(binding)
        return with_bindings(block, tuple(bindings))

    def visit_var_binding_(self, binding: rx.VarBinding) -> Any:
        """The value, made flat, under the same variable where its struct info stays."""
        given = self.visit_expr(binding.value)
        is_new = given is not binding.value
        value = self.builder_.normalize(given) if is_new else given
        var = self.visit_var_def(binding.var)
        self._emit_as(binding, self._typed(var, value) if is_new else var, value)

    def visit_match_cast_(self, binding: rx.MatchCast) -> Any:
        """The value; the struct info stays."""
        value = self.builder_.normalize(self.visit_expr(binding.value))
        self._emit_as(binding, self.visit_var_def(binding.var), value)

    def _emit_as(self, binding: rx.Binding, var: rx.Var, value: Any) -> None:
        if var is not binding.var:
            self._remap[binding.var] = var
        self.builder_.emit_normalized(replace(binding, var=var, value=value))

    def _typed(self, var: rx.Var, value: Any) -> rx.Var:
        info = infer(value, self.builder_.emitter.functions)
        return var if info is None else self.with_struct_info(var, info)

    # what methods use ----------------------------------------------------------------------------

    def lookup_binding(self, var: Any) -> Any:
        """What a variable is bound to in the program as rewritten so far, or None."""
        return self.builder_.lookup_binding(var)

    def set_var_remap(self, var: rx.Var, new: Any) -> None:
        """Later uses of `var` are `new`."""
        self._remap[var] = new

    #: what took the place of a variable, or itself
    get_var_remap = visit_var_

    def with_struct_info(self, var: rx.Var, info: StructInfo) -> rx.Var:
        """`var`, or a new one of its name with another struct info."""
        known = var.struct_info
        if known is not None and same_info(known, info):
            return var
        return type(var)(var.name_hint, info, var.span)
