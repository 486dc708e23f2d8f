"""create_prim_func: the loops of a tensor expression, one block for each compute.

C = te.compute((4, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")   ->
    for i, j, k in T.grid(4, 8, 16):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

from mlcnb.arith import Analyzer, simplify
from mlcnb.core.errors import MLCError, UnsupportedOperationError
from mlcnb.core.node import FrozenDict, replace, rewrite, walk
from mlcnb.core.recursion import roomy
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import GE, GT, LE, LT, IntImm, PrimExpr, Range, Var
from mlcnb.te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor
from mlcnb.te.translate import Translator, index_dtype
from mlcnb.tir.analysis.access import complete_regions
from mlcnb.tir.analysis.made import note_made
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.reducers import stored
from mlcnb.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    Reduce,
    Stmt,
    seq,
)

#: attribute of a compute: tensors whose layout may be chosen
LAYOUT_FREE = "layout_free_placeholders"


@roomy
def create_prim_func(
    args: Sequence[Tensor | Var], index_dtype_override: str | None = None
) -> PrimFunc:
    """The function that computes the output tensors among `args` from the placeholders.

    Args:
        args: parameters in order: tensors (placeholders and results) and scalar variables. A tensor
            that is needed on the way but is not listed becomes a buffer inside the function.
        index_dtype_override: dtype of loop variables; by default int32, and int64 where a dimension
            is a symbolic int64 or a tensor has 2**31 elements.

    Returns:
        A PrimFunc with attributes `global_symbol` "main" and `tir.noalias`.

    Raises:
        MLCError: a placeholder is missing in `args`, one of them is no tensor and no scalar
            variable, or a variable is bound nowhere.
    """
    if isinstance(args, Tensor | Var):
        raise MLCError(
            f"create_prim_func: {args.name} alone is no list of parameters",
            hint="name inputs and outputs, in order: te.create_prim_func([A, B, C])",
        )
    for arg in args:
        if not isinstance(arg, Tensor | Var):
            raise MLCError(
                f"create_prim_func: {reprlib.repr(arg)} is no parameter",
                hint="give te tensors, and te.var for sizes",
            )
    tensors = [a for a in args if isinstance(a, Tensor)]
    order = operations(tensors)
    shapes = [op.output(i).shape for op in order for i in range(op.num_outputs)]
    maker = _Maker(index_dtype(shapes, index_dtype_override))
    maker.parameters(args)
    maker.placeholders(order)
    stmts = [stmt for op in order for stmt in maker.statements(op)]
    func = maker.function(args, stmts)
    _check_bound(func)
    return func if any(isinstance(op, ExternOp) for op in order) else note_made(func)


def operations(tensors: Sequence[Tensor]) -> list[Operation]:
    """The operations behind the tensors, inputs first."""
    order: dict[int, Operation] = {}

    def add(op: Operation) -> None:
        stack = [(op, iter(op.input_tensors))]
        while stack:
            current, inputs = stack[-1]
            pending = next((t.op for t in inputs if id(t.op) not in order), None)
            if pending is None:
                order.setdefault(id(current), current)
                stack.pop()
            else:
                stack.append((pending, iter(pending.input_tensors)))

    for tensor in tensors:
        if id(tensor.op) not in order:
            add(tensor.op)
    return list(order.values())


class _Maker:
    """Collects buffers and names while the operations are turned into loops."""

    def __init__(self, index: DType) -> None:
        self.index = index
        self.buffers: dict[Tensor, Buffer] = {}
        self.local: list[Buffer] = []
        self.names: dict[str, int] = {}
        self.layout_free: list[Tensor] = []

    def to_index(self, x: PrimExpr) -> PrimExpr:
        """A dimension or bound in the index dtype."""
        fitted = p.fitted(self.index, x)
        return fitted if isinstance(fitted, IntImm) else simplify(fitted)

    def declare(self, tensor: Tensor) -> Buffer:
        shape = [self.to_index(d) for d in tensor.shape]
        buffer = decl_buffer(shape, tensor.dtype, tensor.name)
        self.buffers[tensor] = buffer
        return buffer

    def parameters(self, args: Sequence[Tensor | Var]) -> None:
        for arg in args:
            if isinstance(arg, Tensor):
                if arg in self.buffers:
                    raise MLCError(f"create_prim_func: {arg.name} is listed twice")
                self.declare(arg)

    def placeholders(self, order: Sequence[Operation]) -> None:
        for op in order:
            if not isinstance(op, PlaceholderOp | ComputeOp | ExternOp):
                raise UnsupportedOperationError(
                    f"create_prim_func: Unsupported Operation: {type(op).__name__}. "
                    f"{op.name} has no loops",
                    hint="write the recurrence with te.extern, or in TVMScript with T.axis.scan",
                )
        for op in order:
            if isinstance(op, PlaceholderOp) and op.output(0) not in self.buffers:
                raise MLCError(
                    f"create_prim_func: placeholder {op.name} is used but is no parameter",
                    hint="list it among the arguments",
                )

    def function(self, args: Sequence[Tensor | Var], stmts: list[Stmt]) -> PrimFunc:
        params: list[Var] = []
        buffer_map: dict[Var, Buffer] = {}
        for arg in args:
            if isinstance(arg, Tensor):
                param = Var(f"var_{arg.name}", dtype("handle"))
                buffer_map[param] = self.buffers[arg]
            else:
                param = arg
            params.append(param)
        body = seq(*stmts) if stmts else Evaluate(p.const(0))
        root = Block((), (), (), "root", body, alloc_buffers=tuple(self.local))
        attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
        free = set(self.layout_free)
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor) and arg in free]
        if places:
            attrs["layout_free_buffers"] = tuple(places)
        realize = BlockRealize((), p.const(True), root)
        return PrimFunc(tuple(params), realize, None, FrozenDict(buffer_map), FrozenDict(attrs))

    def fresh_name(self, name: str) -> str:
        """`name`, or `name_1`, `name_2` … where it is taken."""
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return self.fresh_name(f"{name}_{count}") if count else name

    def statements(self, op: Operation) -> list[Stmt]:
        if isinstance(op, PlaceholderOp):
            return []
        outputs = [op.output(i) for i in range(op.num_outputs)]
        for tensor in outputs:
            if tensor not in self.buffers:
                self.local.append(self.declare(tensor))
        if isinstance(op, ComputeOp):
            return [self.compute(op, outputs)]
        assert isinstance(op, ExternOp)
        return [self.extern(op, outputs)]

    def compute(self, op: ComputeOp, outputs: list[Tensor]) -> Stmt:
        """The loop nest of a compute: its blocks inside the loops of all its axes."""
        if any(_uses(axis.dom, (*op.axis, *op.reduce_axis)) for axis in op.reduce_axis):
            return self.nested(op, outputs)
        axes = (*op.axis, *op.reduce_axis)
        ranges = [self.range_of(a.dom) for a in axes]
        loops = [Var(a.var.name, self.index) for a in axes]
        if isinstance(op.body[0], Reduce):
            blocks = [self.block(op, outputs, ranges, loops)]
        else:
            blocks = [self.block(op, [out], ranges, loops) for out in outputs]
        return _loops(loops, ranges, seq(*blocks))

    def nested(self, op: ComputeOp, outputs: list[Tensor]) -> Stmt:
        """A reduction over what depends on the place: its loops stand inside of a block.

        te.sum(A[i, k], axis=k), k in 0 .. i   ->   for i: block v_i: for k in range(v_i + 1): block
        """
        if any(_uses(axis.dom, op.reduce_axis) for axis in op.reduce_axis):
            raise UnsupportedOperationError(
                f"create_prim_func: {op.name}: a reduce axis depends on another one",
                hint="reduce over both in their full ranges, with a condition (where=)",
            )
        ranges = [self.range_of(a.dom) for a in op.axis]
        loops = [Var(a.var.name, self.index) for a in op.axis]
        places = [Var(f"v_{a.var.name}", self.index) for a in op.axis]
        place_of = {a.var: v for a, v in zip(op.axis, places, strict=True)}
        doms = [self.range_of(_replaced(a.dom, place_of)) for a in op.reduce_axis]
        runs = [Var(a.var.name, self.index) for a in op.reduce_axis]
        here = [Range(v, p.const(1, self.index)) for v in places]
        inner = self.block(op, outputs, [*here, *doms], [*places, *runs])
        axes = tuple(
            IterVar(bounds, v, a.iter_type)
            for a, v, bounds in zip(op.axis, places, ranges, strict=True)
        )
        first, inner = _with_init_apart(inner, axes, doms)
        body = seq(*first, _loops(runs, doms, inner))
        made = Block(axes, (), (), self.fresh_name(_block_name(op, outputs)), body)
        return _loops(
            loops, ranges, BlockRealize(tuple(loops), p.const(True), complete_regions(made))
        )

    def range_of(self, dom: Range) -> Range:
        """The domain of an axis in the index dtype."""
        return Range(self.to_index(dom.min), self.to_index(dom.extent))

    def block(
        self, op: ComputeOp, outputs: list[Tensor], ranges: list[Range], loops: list[Var]
    ) -> BlockRealize:
        axes = (*op.axis, *op.reduce_axis)
        variables = [Var(f"v_{a.var.name}", self.index) for a in axes]
        values = {a.var: v for a, v in zip(axes, variables, strict=True)}
        iter_vars = tuple(
            IterVar(bounds, var, axis.iter_type)
            for axis, var, bounds in zip(axes, variables, ranges, strict=True)
        )
        indices = tuple(variables[: len(op.axis)])
        translate = Translator(self.buffers, values, self.index)
        buffers = [self.buffers[t] for t in outputs]
        body = op.body[outputs[0].value_index]
        init: Stmt | None = None
        if isinstance(body, Reduce):
            init, stmt = _reduction(body, buffers, indices, translate)
        else:
            stmt = rewrite(_store(buffers[0], simplify(translate(body)), indices), _ascending)
        bindings: tuple[PrimExpr, ...] = tuple(loops)
        if not iter_vars:
            zero, one = p.const(0, self.index), p.const(1, self.index)
            iter_vars = (IterVar(Range(zero, one), Var("vi", self.index)),)
            bindings = (zero,)
        made = Block(iter_vars, (), (), self.fresh_name(_block_name(op, outputs)), stmt, init)
        completed = complete_regions(replace(made, annotations=self.annotations(op)))
        return BlockRealize(bindings, p.const(True), completed)

    def annotations(self, op: ComputeOp | ExternOp) -> FrozenDict:
        """The attributes of an operation; parameters of free layout are noted of the function."""
        found = dict(op.attrs)
        free = found.pop(LAYOUT_FREE, ())
        inside = [t for t in free if not isinstance(t.op, PlaceholderOp)]
        self.layout_free += [t for t in free if isinstance(t.op, PlaceholderOp)]
        if inside:
            found[LAYOUT_FREE] = inside
        return FrozenDict({k: self.annotation(v) for k, v in found.items()})

    def annotation(self, value: Any) -> Any:
        """An attribute of the compute as an annotation: tensors become their buffers."""
        if isinstance(value, Tensor):
            return self.buffers[value]
        if isinstance(value, list | tuple):
            return tuple(self.annotation(v) for v in value)
        return value

    def extern(self, op: ExternOp, outputs: list[Tensor]) -> Stmt:
        """The statement of an extern in an opaque block, with the function's own buffers."""
        inside = (*op.input_buffers, *op.output_buffers)
        outside = [self.buffers[t] for t in (*op.inputs, *outputs)]
        values: dict[Any, Any] = dict(zip(inside, outside, strict=True))
        values.update({i.data: o.data for i, o in zip(inside, outside, strict=True)})
        body = _replaced(op.body, values)
        block = Block((), (), (), self.fresh_name(op.name), body)
        completed = complete_regions(replace(block, annotations=self.annotations(op)), outside)
        return BlockRealize((), p.const(True), completed)


def _ascending(n: Any) -> PrimExpr | None:
    """a > b as b < a, and a >= b as b <= a: TVM simplifies what is no reduction."""
    if isinstance(n, GT):
        return LT(n.b, n.a)
    return LE(n.b, n.a) if isinstance(n, GE) else None


def _uses(dom: Range, axes: Sequence[Any]) -> bool:
    """True if a domain speaks of one of the axes."""
    variables = {axis.var for axis in axes}
    return any(n in variables for n in walk(dom) if isinstance(n, Var))


def _loops(variables: Sequence[Var], ranges: Sequence[Range], body: Stmt) -> Stmt:
    """`body` in serial loops, the first outermost."""
    for var, bounds in zip(reversed(variables), reversed(ranges), strict=True):
        body = For(var, bounds.min, bounds.extent, ForKind.SERIAL, body)
    return body


def _with_init_apart(
    inner: BlockRealize, axes: Sequence[IterVar], doms: Sequence[Range]
) -> tuple[list[Stmt], BlockRealize]:
    """The init of a block before its loops where these may be empty: it must run all the same."""
    analyzer = Analyzer({axis.var: axis.dom for axis in axes})
    if all(analyzer.can_prove(p.less(0, dom.extent)) for dom in doms):
        return [], inner
    block = inner.block
    values = {a.var: v for a, v in zip(block.iter_vars, inner.iter_values, strict=True)}
    assert block.init is not None
    bare = complete_regions(replace(block, init=None, reads=(), writes=()))
    return [_replaced(block.init, values)], replace(inner, block=bare)


def _block_name(op: ComputeOp, outputs: list[Tensor]) -> str:
    return outputs[0].name if len(outputs) == 1 else op.name


def _store(buffer: Buffer, value: PrimExpr, indices: tuple[PrimExpr, ...]) -> BufferStore:
    return BufferStore(buffer, p.cast(buffer.dtype, value), indices)


def _reduction(
    reduce: Reduce, buffers: list[Buffer], indices: tuple[Var, ...], translate: Translator
) -> tuple[Stmt, Stmt]:
    """What starts the reduction, and one step of it."""
    start = reduce.init or reduce.combiner.identity_element
    init = seq(*(_store(b, translate(v), indices) for b, v in zip(buffers, start, strict=True)))
    condition = translate(reduce.condition)
    sources = [p.if_then_else(condition, translate(s), v) for s, v in _with_identity(reduce)]
    values: dict[Any, Any] = {}
    for var, buffer in zip(reduce.combiner.lhs, buffers, strict=True):
        values[var] = BufferLoad(buffer, indices)
    values.update(zip(reduce.combiner.rhs, sources, strict=True))
    results = [_replaced(r, values) for r in reduce.combiner.result]
    return init, stored([_store(b, r, indices) for b, r in zip(buffers, results, strict=True)])


def _with_identity(reduce: Reduce) -> list[tuple[PrimExpr, PrimExpr]]:
    return list(zip(reduce.source, reduce.combiner.identity_element, strict=True))


def _check_bound(func: PrimFunc) -> None:
    free = undefined_vars(func)
    if free:
        names = ", ".join(v.name for v in free)
        raise MLCError(
            f"create_prim_func: variable {names} is bound by no parameter",
            hint="list it among the arguments, or give a parameter the shape that holds it",
        )


def _replaced(n: Any, values: dict[Any, Any]) -> Any:
    return rewrite(n, lambda _: None, enter=values.get)
