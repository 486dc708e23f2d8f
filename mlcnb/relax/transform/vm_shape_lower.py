"""VMShapeLower: sizes are kept in a heap, checked and computed by builtins of the virtual machine.

def main(x: R.Tensor(("n", "m"))):        heap = alloc_shape_heap(3)          slots: n, m, n * 2
    return R.shape([n * 2, m])      ->    check_tensor_info(x, 2, "float32", "")
                                          match_shape(x, heap, 2, STORE, 0, STORE, 1, "")
                                          cls.shape_func(heap)                H[2] = H[0] * 2
                                          return make_shape(heap, 2, LOAD, 2, LOAD, 1)

Parameters are checked against their struct infos, weights (those after `num_input`) only where
they tell a size; a match_cast and the result where it is not certain. What follows from sizes is
computed by a loop function as soon as they are known. A match_cast stays for later passes.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import GlobalVar, IntImm, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import (
    BaseCheckResult,
    struct_info_base_check,
    symbolic_vars,
)
from mlcnb.relax.analysis.variables import bindings_of, leaves
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import NULL
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from mlcnb.relax.transform.shape_slots import Slots
from mlcnb.runtime.shape_builtin import MakeShapeCode, MatchShapeCode
from mlcnb.tir.buffer import BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore, seq

_NOTHING = TupleStructInfo(())


class VMShapeLower(ModulePass):
    """Keep sizes in a heap; the last pass before a virtual machine.

    The heap is int64 of shape (slots,), one for each size and for each expression of sizes.

    emit_err_ctx: checks say which function and parameter they are of.

    Raises:
        PassError: a local function (run LambdaLift before), or a shape that is used before its
            sizes are known.
    """

    emit_err_ctx: bool = True

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every graph function."""
        table = FunctionTable(mod.functions)
        for key, func in mod.of_kind(rx.Function).items():
            table.set(key, _Lowerer(table, key, func, self.emit_err_ctx).lowered())
        return table.module(mod)


class _Lowerer(Mutator):
    """One function: checks before its body, builtins in it, checks of its result after it."""

    def __init__(self, table: FunctionTable, key: GlobalVar, func: rx.Function, told: bool) -> None:
        super().__init__(table.functions)
        self.table, self.key, self.told = table, key, told
        self.original = func
        self.slots = Slots(func)
        self.todo: list[tuple[Any, tuple[PrimExpr, ...], str]] = []
        self.heap: Any = None

    def lowered(self) -> rx.Function:
        """The whole function."""
        func = self.original
        if any(isinstance(b.value, rx.Function) for b in bindings_of(func)):
            raise PassError(
                f"VMShapeLower: {self.key.name_hint} has a local function",
                where=func,
                hint="run LambdaLift before",
            )
        self.func = func
        body = _with_bound_result(func.body)
        self.rewrite(replace(func, body=rx.SeqExpr((), func.body.body)))
        with self.emitter.scope(False) as before:
            self.enter()
        made = self._sequence(body)
        with self.emitter.scope(False) as after:
            self.check(func.ret_struct_info, made.body, "loc=return", always=False)
            self.run(last=True)
        blocks = [rx.BindingBlock(tuple(before)), *made.blocks, rx.BindingBlock(tuple(after))]
        return replace(func, body=rx.SeqExpr(_joined(blocks), made.body))

    def enter(self) -> None:
        """The heap, and the checks of parameters."""
        self.heap = self.emit(self.new_heap(), "shape_heap")
        count = int(self.original.attrs.get("num_input", len(self.original.params)))
        for place, param in enumerate(self.original.params):
            where = f"loc=param[{place}], param={param.name_hint}"
            self.check(param.struct_info, param, where, open_only=place >= count)
        self.matched()

    def new_heap(self) -> rx.Call:
        """The call that makes room for the sizes; of none, nothing."""
        size = len(self.slots.slots)
        if not size:
            return rx.Call(NULL, (), None, (), ObjectStructInfo())
        info = TensorStructInfo(None, dtype("int64"), ndim=1)
        extern = rx.ExternFunc("vm.builtin.alloc_shape_heap")
        args: tuple[Any, ...] = (extern, rx.Tuple((_number(size),)))
        return rx.Call(rx.Op("relax.call_builtin_with_ctx"), args, None, (info,), info)

    # checks --------------------------------------------------------------------------------------

    def check(
        self, info: Any, value: Any, where: str, always: bool = True, open_only: bool = False
    ) -> None:
        """Check that a value is of a struct info, as far as that is not certain; sizes later.

        always: also where it is certain; open_only: only tensors that tell a size.
        """
        known = getattr(value, "struct_info", None)
        if not always and _is_certain(info, known):
            return
        told = f"ErrorContext(fn={self.key.name_hint}, {where}) " if self.told else ""
        if isinstance(info, TupleStructInfo):
            self.check_tuple(info, value, where, always, open_only, told)
        elif isinstance(info, TensorStructInfo):
            self.check_tensor(info, value, always, open_only, told)
        elif isinstance(info, ShapeStructInfo):
            if always or not _is_certain(ShapeStructInfo(None, info.ndim), known):
                self.call("check_shape_info", value, _number(info.ndim), rx.StringImm(told))
            if info.values is not None:
                self.todo.append((value, info.values, told))
        elif isinstance(info, PrimStructInfo):
            if always or not _is_certain(PrimStructInfo(info.dtype), known):
                self.call(
                    "check_prim_value_info", value, rx.DataTypeImm(info.dtype), rx.StringImm(told)
                )
            if info.value is not None:
                self.todo.append((value, (info.value,), told))
        elif isinstance(info, FuncStructInfo) and (always or not isinstance(known, FuncStructInfo)):
            self.call("check_func_info", value, rx.StringImm(told))

    def check_tensor(
        self, info: TensorStructInfo, value: Any, always: bool, open_only: bool, told: str
    ) -> None:
        """Rank and dtype now, dimensions later."""
        dims = info.dims
        if open_only and dims is not None and all(isinstance(d, IntImm) for d in dims):
            return
        known = getattr(value, "struct_info", None)
        if always or not _is_certain(TensorStructInfo(None, info.dtype, ndim=info.ndim), known):
            kind = rx.DataTypeImm(info.dtype or dtype("void"))
            self.call("check_tensor_info", value, _number(info.ndim), kind, rx.StringImm(told))
        if dims is not None:
            self.todo.append((value, dims, told))

    def check_tuple(
        self,
        info: TupleStructInfo,
        value: Any,
        where: str,
        always: bool,
        open_only: bool,
        told: str,
    ) -> None:
        """The number of fields, then each of them."""
        known = getattr(value, "struct_info", None)
        is_tuple = isinstance(known, TupleStructInfo)
        if always or not is_tuple:
            self.call("check_tuple_info", value, _number(len(info.fields)), rx.StringImm(told))
        for place, field in enumerate(info.fields):
            if isinstance(value, rx.Tuple):
                part: Any = value.fields[place]
            elif open_only and not symbolic_vars(field):
                continue
            elif is_tuple:
                inner = known.fields[place]  # type: ignore[union-attr]
                if not always and _is_certain(field, inner):
                    continue
                part = self.emit(rx.TupleGetItem(value, place))
            else:
                part = self.call("tuple_getitem", value, _number(place), info=ObjectStructInfo())
            self.check(field, part, where, always, open_only)

    def call(self, name: str, *args: Any, info: Any = _NOTHING) -> rx.Var:
        """A builtin, called."""
        extern = rx.ExternFunc(f"vm.builtin.{name}")
        return self.emit(
            rx.Call(extern, args, None, (info,), info), "" if info is not _NOTHING else "_"
        )

    # sizes ---------------------------------------------------------------------------------------

    def matched(self) -> None:
        """Keep the sizes of what was checked, compute what follows, and compare the rest."""
        self.todo = self.run()
        self.compute()
        self.run(last=True)

    def run(self, last: bool = False) -> list[Any]:
        """Match what is to be matched; what has sizes that only follow later comes back."""
        waiting = []
        for value, dims, told in self.todo:
            codes = [self.match_code(dim, last) for dim in dims]
            skipped = [code is MatchShapeCode.NO_OP for code, _ in codes]
            if any(skipped):
                waiting.append((value, dims, told))
            if all(skipped) and codes:
                continue
            given = [_number(n) for pair in codes for n in pair]
            is_scalar = isinstance(getattr(value, "struct_info", None), PrimStructInfo)
            if is_scalar:
                self.call("match_prim_value", value, self.heap, *given, rx.StringImm(told))
            else:
                count = _number(len(codes))
                self.call("match_shape", value, self.heap, count, *given, rx.StringImm(told))
        self.todo = []
        return waiting

    def match_code(self, dim: PrimExpr, last: bool) -> tuple[MatchShapeCode, int]:
        """What is done with a dimension, and the number that goes with it."""
        if isinstance(dim, IntImm):
            return MatchShapeCode.ASSERT_EQUAL_TO_IMM, dim.value
        slot = self.slots.of(dim)
        if slot.is_known:
            return MatchShapeCode.ASSERT_EQUAL_TO_LOAD, slot.index
        if isinstance(dim, PrimVar):
            slot.is_known = True
            return MatchShapeCode.STORE_TO_HEAP, slot.index
        if last:
            raise self.unknown(dim)
        return MatchShapeCode.NO_OP, 0

    def compute(self) -> None:
        """The loop function that computes what follows from the sizes that are known."""
        ready = self.slots.computable()
        if not ready:
            return
        heap = PrimVar("heap", dtype("handle"))
        buffer = decl_buffer((p.const(len(self.slots.slots), "int64"),), "int64", "H")

        def read(n: Any) -> Any:
            return (
                BufferLoad(buffer, (_place(self.slots.of(n)),)) if isinstance(n, PrimVar) else None
            )

        stores: list[Any] = []
        for slot in ready:
            slot.is_known = True
            found = p.cast("int64", rewrite(slot.expr, read))  # type: ignore[arg-type]
            stores.append(BufferStore(buffer, found, (_place(slot),)))
        attrs = FrozenDict({"tir.is_host_func": True})
        func = PrimFunc((heap,), seq(*stores), buffer_map=FrozenDict({heap: buffer}), attrs=attrs)
        self.emit(rx.Call(self.table.add(func, "shape_func"), (self.heap,)), "_")

    def made_code(self, dim: PrimExpr) -> tuple[int, int]:
        """Where a dimension comes from."""
        if isinstance(dim, IntImm):
            return int(MakeShapeCode.USE_IMM), dim.value
        slot = self.slots.of(dim)
        if slot is None or not slot.is_known:
            raise self.unknown(dim)
        return int(MakeShapeCode.LOAD_SHAPE), slot.index

    def unknown(self, dim: PrimExpr) -> PassError:
        """An error about a size that is used too early."""
        return PassError(
            f"VMShapeLower: {self.key.name_hint}: {dim!r} is used before its sizes are known",
            where=dim,
            root=self.original,
        )

    # the body ------------------------------------------------------------------------------------

    def visit_match_cast(self, binding: rx.MatchCast) -> Any:
        """Its checks before it; it stays."""
        self.check(binding.struct_info, binding.value, "loc=match_cast", always=False)
        self.matched()

    def visit_leaf(self, leaf: Any, var: rx.Var) -> Any:
        """A shape or scalar of open sizes, made from the heap."""
        return self.made(leaf) if _is_open(leaf) else None

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The call on shapes and scalars that are made before it."""
        new = replace(call, args=tuple(map(self.argument, call.args)))
        return None if new is call else new

    def visit_tuple(self, value: rx.Tuple, var: rx.Var) -> Any:
        """The tuple of shapes and scalars that are made before it."""
        new = self.argument(value)
        return None if new is value else new

    def argument(self, x: Any) -> Any:
        """An argument; what is made for it is bound to a variable."""
        if isinstance(x, rx.Tuple):
            return replace(x, fields=tuple(map(self.argument, x.fields)))
        return self.emit(self.made(x)) if _is_open(x) else x

    def made(self, x: Any) -> rx.Call:
        """The call of the builtin that makes a shape or a scalar."""
        if isinstance(x, rx.PrimValue):
            codes = [_number(n) for n in self.made_code(x.value)]
            return _builtin("make_prim_value", (self.heap, *codes), x.struct_info)
        codes = [_number(n) for dim in x.values for n in self.made_code(dim)]
        info = ShapeStructInfo(None, len(x.values))
        return _builtin("make_shape", (self.heap, _number(len(x.values)), *codes), info)


def _with_bound_result(seq: rx.SeqExpr) -> rx.SeqExpr:
    """The sequence; what its result has of open sizes is bound to a variable."""
    if not any(_is_open(leaf) for leaf in leaves(seq.body)):
        return seq
    result = rx.Var("gv", seq.body.struct_info)
    last = rx.BindingBlock((rx.VarBinding(result, seq.body),))
    return rx.SeqExpr((*seq.blocks, last), result)


def _joined(blocks: list[rx.BindingBlock]) -> tuple[rx.BindingBlock, ...]:
    """The blocks; neighbours that are no dataflow blocks are one."""
    made: list[rx.BindingBlock] = []
    for block in blocks:
        plain = not block_is_dataflow(block)
        if made and plain and not block_is_dataflow(made[-1]):
            made[-1] = rx.BindingBlock((*made[-1].bindings, *block.bindings))
        elif block.bindings:
            made.append(block)
    return tuple(made)


def _builtin(name: str, args: tuple[Any, ...], info: Any) -> rx.Call:
    return rx.Call(rx.ExternFunc(f"vm.builtin.{name}"), args, None, (info,), info)


def _is_open(x: Any) -> bool:
    """True for a shape or scalar that mentions sizes."""
    return isinstance(x, rx.ShapeExpr | rx.PrimValue) and bool(symbolic_vars(x))


def _is_certain(info: Any, known: Any) -> bool:
    """True if every value of `known` is of `info`."""
    if known is None:
        return isinstance(info, ObjectStructInfo)
    return struct_info_base_check(info, known) is BaseCheckResult.PASS


def _number(value: int) -> rx.PrimValue:
    return rx.PrimValue(p.const(int(value), "int64"))


def _place(slot: Any) -> PrimExpr:
    return p.const(slot.index, "int64")
