"""FuseTIR: a function of several loop functions becomes one loop function.

@R.function(private=True)                      @T.prim_func(private=True)
def fused_add_relu(x, b):                      def fused_add_relu(x: …, b: …, relu: …):
    lv = R.call_tir(cls.add, (x, b), …)   ->       add_intermediate = T.alloc_buffer((2, 3))
    gv = R.call_tir(cls.relu, (lv,), …)            … loops of add: x, b -> add_intermediate
    return gv                                      … loops of relu: add_intermediate -> relu

The loops stay apart, one nest after the other: moving them together is a schedule's work. Blocks
get names of their own and remember the graph call that they came from.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, Node, replace, rewrite
from mlcnb.core.text import plural
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import GlobalVar, Let
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span, merge
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.calls import callee_of, is_open
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.expr import Call, Function, ShapeExpr, Tuple, TupleGetItem, Var, call_tir
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import CallsOf
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_functions
from mlcnb.tir.analysis.made import is_declared, is_made, note_declared, note_made
from mlcnb.tir.analysis.safety import CHECKED
from mlcnb.tir.buffer import Buffer, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, For, IterVar, LetStmt, Stmt, seq


class FuseTIR(ModulePass):
    """Make one loop function of each function that FuseOps made.

    What lies between the calls becomes a local buffer of its shape and dtype. Sizes are int64 where
    one is symbolic, else int32.

    Raises:
        PassError: such a function holds something that is no call_tir of a loop function of one
            result.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Fused functions first, then the calls of them."""
        marked = {k: f for k, f in mod.of_kind(Function).items() if f.attrs.get("Primitive")}
        fused = {k: f for k, f in marked.items() if "Codegen" not in f.attrs}
        if not fused:
            return mod
        table = FunctionTable(mod.functions)
        renamed: dict[GlobalVar, GlobalVar] = {}
        table.remove(fused)
        for key, group in fused.items():
            renamed[key] = table.add_shared(fuse_tir(group, mod), key.name_hint)
        caller = _Caller(mod.functions, {k: (fused[k], new) for k, new in renamed.items()})
        table.rewrite(caller.rewrite)
        made = len(set(renamed.values()))
        ctx.note(f"{plural(len(fused), 'group')} became {plural(made, 'loop function')}")
        return remove_unused_functions(table.module(mod))


class _Caller(CallsOf):
    """Turns calls of fused functions into call_tir; told: such a function, and the loops' name."""

    def called(self, call: Call, told: tuple[Function, GlobalVar], var: Var) -> Any:
        """`cls.fused(x, R.shape([n]))` -> `R.call_tir(cls.fused, (x,), tir_vars=R.shape([n]))`."""
        func, key = told
        tensors: list[Any] = []
        scalars: list[Any] = []
        for prm, arg in zip(func.params, call.args, strict=True):
            info = arg.struct_info
            if isinstance(info, ShapeStructInfo):
                scalars += arg.values if isinstance(arg, ShapeExpr) else info.values or ()
            elif isinstance(prm.struct_info, TupleStructInfo):
                tensors += [self.field(arg, i) for i in fields_read(func, prm)]
            else:
                tensors.append(arg)
        out = call.struct_info
        infos: Any = list(out.fields) if isinstance(out, TupleStructInfo) else out
        shape = ShapeExpr(tuple(scalars)) if scalars else None
        made = call_tir(key, Tuple(tuple(tensors)), infos, shape)
        return replace(made, span=call.span)

    def field(self, whole: Any, index: int) -> Any:
        """One field of a tuple that is an argument."""
        known = self.value_of(whole)
        if isinstance(known, Tuple):
            return known.fields[index]
        return self.emit(TupleGetItem(whole, index))


def fields_read(func: Function, param: Var) -> list[int]:
    """The fields of a parameter that is a tuple, as far as the function takes them, in order."""
    items = (b.value for b in func.body.bindings)
    return sorted({i.index for i in items if _is_field(i, (param,))})


def _is_field(value: Any, params: Collection[Any]) -> bool:
    return isinstance(value, TupleGetItem) and value.tuple_value in params


def fuse_tir(func: Function, mod: IRModule) -> PrimFunc:
    """One loop function of a graph function that consists of call_tirs.

    Raises:
        PassError: it holds something else.
    """
    return _Fusion(func, mod).result()


class _Fusion:
    """Collects the loops of the calls, over shared buffers."""

    def __init__(self, func: Function, mod: IRModule) -> None:
        self.func, self.mod = func, mod
        #: of a variable, or of a field of a parameter
        self.buffers: dict[Any, Buffer] = {}
        self.symbols: dict[PrimVar, PrimVar] = {}
        self.local: list[Buffer] = []
        self.stmts: list[Stmt] = []
        self.names: dict[str, int] = {}
        self.block_names: dict[str, int] = {}
        self.spans: list[Span | None] = []
        #: the blocks of all callees are true by construction
        self.are_made = True
        #: … and in bounds, or else the mark that they are to be checked
        self.are_declared = True
        self.checked: dict[str, Any] = {}
        self.index = self.index_dtype()

    def index_dtype(self) -> DType:
        """The dtype of sizes: int64 where one is symbolic, or where a callee counts so."""
        if any(symbolic_vars(prm.struct_info) for prm in self.func.params):
            return dtype("int64")
        calls = [self.callee(b.value) for b in self.calls()]
        dims = (d for func in calls for b in func.buffers for d in b.shape)
        return dtype("int64" if any(d.dtype.bits > 32 for d in dims) else "int32")

    def result(self) -> PrimFunc:
        """Parameters, calls in order, then the function."""
        scalars = self.parameters()
        outputs = self.outputs()
        inputs = list(self.buffers.values())
        for binding in self.func.body.bindings:
            value: Any = binding.value
            if _is_field(value, self.func.params):
                self.buffers[binding.var] = self.buffers[value.tuple_value, value.index]
            else:
                self.call(binding.var, value, outputs)
        buffers = [*inputs, *(self.buffers[v] for v in outputs)]
        root = Block((), (), (), "root", seq(*self.stmts), alloc_buffers=tuple(self.local))
        params = [PrimVar(f"p_{b.name}", dtype("handle")) for b in buffers]
        made = PrimFunc(
            (*params, *scalars),
            BlockRealize((), p.const(True), root),
            None,
            FrozenDict(zip(params, buffers, strict=True)),
            FrozenDict({"tir.noalias": True, **self.checked}),
            merge(*self.spans),
        )
        if self.are_declared:
            note_declared(made.body)
        return note_made(made) if self.are_made else made

    def calls(self) -> list[Any]:
        """The bindings that are no fields of parameters."""
        bindings = self.func.body.bindings
        return [b for b in bindings if not _is_field(b.value, self.func.params)]

    def parameters(self) -> list[PrimVar]:
        """A buffer for each tensor, and each field of a tuple that is read; scalars of shapes."""
        scalars: list[PrimVar] = []
        for prm in self.func.params:
            info: Any = prm.struct_info
            for var in symbolic_vars(info):
                self.symbols.setdefault(var, PrimVar(var.name, var.dtype))
            if isinstance(info, TensorStructInfo):
                self.buffers[prm] = self.declare(prm.name_hint, info)
            elif isinstance(info, TupleStructInfo):
                for i in fields_read(self.func, prm):
                    name = f"{prm.name_hint}_{i}"
                    self.buffers[prm, i] = self.declare(name, info.fields[i])
            elif isinstance(info, ShapeStructInfo):
                scalars += [self.symbols[v] for v in definable_vars(info)]
        return scalars

    def outputs(self) -> list[Any]:
        """The variables that the function returns."""
        body: Any = self.func.body.body
        return list(body.fields) if isinstance(body, Tuple) else [body]

    def declare(self, name: str, info: Any) -> Buffer:
        """A buffer of a tensor's shape, over the symbolic variables of the new function."""
        dims = [p.cast(self.index, _replaced(d, self.symbols)) for d in info.dims]
        return decl_buffer(dims, info.dtype, self.fresh(name))

    def fresh(self, name: str, taken: dict[str, int] | None = None) -> str:
        """`name`, or name_1, name_2 …"""
        names = self.names if taken is None else taken
        count = names.get(name, 0)
        names[name] = count + 1
        return self.fresh(f"{name}_{count}", names) if count else name

    def call(self, var: Var, call: Any, outputs: list[Any]) -> None:
        """The loops of one call_tir."""
        func = self.callee(call)
        inputs = [self.buffers[a] for a in call.args[1].fields]
        inner = func.buffers
        made = inner[len(inputs) :]
        if len(made) != 1:
            raise PassError("FuseTIR: a call with several results in a fused function", where=call)
        is_output = var in outputs
        name = made[0].name if is_output else f"{made[0].name}_intermediate"
        self.buffers[var] = self.declare(name, call.struct_info)
        if not is_output:
            self.local.append(self.buffers[var])
        outer = [*inputs, self.buffers[var]]
        self.spans.append(call.span)
        self.inline(call, func, dict(zip(inner, outer, strict=True)))

    def callee(self, call: Any) -> PrimFunc:
        """The loop function that a binding calls."""
        func = callee_of(call, self.mod.functions)
        if func is not None:
            self.are_made = self.are_made and is_made(func)
            self.are_declared = self.are_declared and is_declared(func)
            if CHECKED in func.attrs or (not is_declared(func) and is_open(call, func)):
                self.checked[CHECKED] = "check"
            return func
        raise PassError(
            "FuseTIR: a fused function holds something that is no call_tir of a loop function",
            where=call,
            root=self.mod,
            hint="run LegalizeOps before FuseOps",
        )

    def inline(self, call: Any, func: PrimFunc, buffers: dict[Buffer, Buffer]) -> None:
        """The body of `func` over the given buffers, with variables of its own."""
        values: dict[Any, Any] = {}
        for inner, outer in buffers.items():
            values[inner] = outer
            values[inner.data] = outer.data
            for dim, value in zip(inner.shape, outer.shape, strict=True):
                if isinstance(dim, PrimVar):
                    values[dim] = p.cast(dim.dtype, value)
        scalars = [prm for prm in func.params if prm not in func.buffer_map]
        if scalars:
            given = call.args[2].values
            pairs = zip(scalars, given, strict=True)
            values.update({s: p.cast(s.dtype, _replaced(v, self.symbols)) for s, v in pairs})
        body = rewrite(func.body, lambda n: self.named(n, call.span), enter=_Renewed(values))
        root = _root_block(body)
        if root is None:
            self.stmts.append(body)
            return
        for buffer in root.alloc_buffers:
            self.local.append(buffer)
        self.stmts.append(root.body)

    def named(self, n: Node, span: Span | None) -> Node | None:
        """A block with a name of its own, and the span of the graph call."""
        if not isinstance(n, Block) or not n.name_hint or n.name_hint == "root":
            return None
        name = self.fresh(n.name_hint, self.block_names)
        made = replace(n, name_hint=name)
        return made if span is None else replace(made, span=span)


def _replaced(n: Any, values: dict[Any, Any]) -> Any:
    return rewrite(n, lambda _: None, enter=values.get) if values else n


def _root_block(body: Stmt) -> Block | None:
    """The block around all of a function's body, where it is only there to hold buffers."""
    if not isinstance(body, BlockRealize) or body.block.iter_vars or body.block.init is not None:
        return None
    plain = body.block.name_hint == "root" and not body.block.annotations
    return body.block if plain and not body.block.match_buffers else None


class _Renewed:
    """What stands for a node: a given value, or a new variable for one that is defined inside."""

    def __init__(self, values: dict[Any, Any]) -> None:
        self.values = values

    def __call__(self, n: Any) -> Any:
        """The replacement of `n`, or None to go into it (what it defines is renewed first)."""
        found = self.values.get(n)
        if found is None:
            kind = type(n)
            if kind is For:
                self.renew(n.loop_var)
            elif kind in _BINDERS:
                self.renew(n.var)
            elif kind is Block:
                for buffer in n.alloc_buffers:
                    self.renew(buffer.data)
        return found

    def renew(self, var: PrimVar) -> None:
        """From here on a variable of the same name stands for `var`."""
        self.values[var] = type(var)(var.name, var.dtype, var.pointee)


_BINDERS = frozenset({IterVar, LetStmt, Let})
