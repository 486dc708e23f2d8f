"""SpecializePrimFuncBasedOnCallSite: the buffers of loop functions are what their calls hand them.

def relu(x: T.Buffer((n,)), …)              def relu(x: T.Buffer((4,), scope="global.texture"), …)
lv = R.call_tir(relu, (x,), …)      ->      lv = R.call_tir(relu, (x,), …)
x: R.Tensor((4,), vdevice="cuda:0:global.texture")

Passes on virtual devices change where tensors lie, others which sizes are known; this one tells the
loops. A function that is called in several ways becomes several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import walk
from mlcnb.ir.expr import GlobalVar, IntImm, Var
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import const
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.calls import LOOPS
from mlcnb.relax.analysis.variables import bindings_of, uses
from mlcnb.relax.expr import Call, Function, Op, Tuple
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_functions
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.renew import renew_defs


class SpecializePrimFuncBasedOnCallSite(ModulePass):
    """Give buffers the memory scope of the tensors that calls pass, and sizes that are known there.

    Shapes whose dimensions are variables of the loop function alone become those of the call where
    they are numbers; dtypes stay. A tensor of no virtual device lies in "global". A public function
    stays as it is, and its calls go to a private copy.

    Raises:
        PassError: a call passes a tensor of another rank, size or dtype than the function takes.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All calls; a function with one way to be called keeps its name."""
        ways: dict[GlobalVar, list[PrimFunc]] = {}
        for call in _calls(mod):
            key: Any = call.args[0]
            made, known = _specialized(call, mod, key), ways.setdefault(key, [])
            if not any(structural_equal(made, other) for other in known):
                known.append(made)
        table = FunctionTable(mod.functions)
        for key in [k for k, made in ways.items() if len(made) == 1 and _is_own(k, mod)]:
            table.set(key, ways.pop(key)[0])
        caller = _Caller(table, mod, set(ways))
        table.rewrite(caller.rewrite)
        after = table.module(mod)
        if after is mod:
            return mod
        ctx.note(
            f"{sum(mod.functions.get(k) is not f for k, f in after.items())} functions changed"
        )
        return remove_unused_functions(after)


def _is_call(n: Any, functions: Any) -> bool:
    """Whether it calls a loop function of the module, with tensors that are told one by one."""
    if not isinstance(n, Call) or not isinstance(n.op, Op) or n.op.name not in LOOPS:
        return False
    key: Any = n.args[0]
    func = functions.get(key) if isinstance(key, GlobalVar) else None
    return isinstance(func, PrimFunc) and isinstance(n.args[1], Tuple)


def _calls(mod: IRModule) -> Iterator[Call]:
    for func in mod.of_kind(Function).values():
        yield from (b.value for b in bindings_of(func) if _is_call(b.value, mod.functions))


def _is_own(key: GlobalVar, mod: IRModule) -> bool:
    """Whether nothing but such calls names a private function."""
    if "global_symbol" in mod.functions[key].attrs:
        return False
    calls = sum(call.args[0] == key for call in _calls(mod))
    return calls == sum(n == key for f in mod.functions.values() for n in _named(f))


def _named(func: Any) -> Iterator[Any]:
    nodes = uses(func) if isinstance(func, Function) else walk(func)
    return (n for n in nodes if isinstance(n, GlobalVar))


class _Caller(Mutator):
    """Calls of functions that are called in several ways go to copies."""

    def __init__(self, table: FunctionTable, mod: IRModule, keys: set[GlobalVar]) -> None:
        super().__init__(table.functions)
        self.table, self.mod, self.keys = table, mod, keys

    def visit_call(self, call: Call, var: Any) -> Any:
        """The call of a copy; itself where its function fits as it is."""
        if not _is_call(call, self.mod.functions) or call.args[0] not in self.keys:
            return None
        key: Any = call.args[0]
        made = _specialized(call, self.mod, key)
        if made is self.mod.functions[key]:
            return None
        own = renew_defs(made.without_attr("global_symbol"))  # the first may stay beside it
        name: Any = self.table.add_shared(own, key.name_hint)
        return Call(call.op, (name, *call.args[1:]), call.attrs, call.sinfo_args, None, call.span)


def _specialized(call: Call, mod: IRModule, key: GlobalVar) -> PrimFunc:
    """The function as this call wants it; itself where it is so."""
    func: Any = mod.functions[key]
    values: dict[Any, Any] = {}
    for buffer, info in zip(func.buffers, _passed(call), strict=False):
        _want_same(buffer, info, key, call, mod)
        if buffer.scope != _scope(info):
            pointee = (str(buffer.dtype), _scope(info))
            values[buffer.data] = Var(buffer.data.name, buffer.data.dtype, pointee)
        for dim, given in zip(buffer.shape, info.dims or (), strict=False):
            if isinstance(dim, Var) and dim not in func.params and isinstance(given, IntImm):
                values[dim] = const(given.value, dim.dtype)
    return substitute(func, values)


def _passed(call: Call) -> list[TensorStructInfo]:
    """The tensors that a call passes, then those that it gives (in place: among the others)."""
    given: Any = call.args[1]
    out: Any = call.sinfo_args[0] if call.sinfo_args else call.struct_info
    fields = list(out.fields) if isinstance(out, TupleStructInfo) else [out]
    if call.op.name == "relax.call_tir_inplace":  # type: ignore[union-attr]
        places = call.attrs["inplace_indices"]
        fields = [f for f, i in zip(fields, places, strict=True) if i < 0]
    infos = [*(x.struct_info for x in given.fields), *fields]
    return [i for i in infos if isinstance(i, TensorStructInfo)]


def _scope(info: TensorStructInfo) -> str:
    return info.vdevice.memory_scope if info.vdevice is not None else "global"


def _want_same(buffer: Buffer, info: Any, key: GlobalVar, call: Call, mod: IRModule) -> None:
    """A tensor that may be a buffer: of its dtype, and its sizes where both are numbers.

    Raises:
        PassError: it may not.
    """
    dims = info.dims
    pairs = zip(buffer.shape, dims or (), strict=False)
    differ = any(
        isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value for a, b in pairs
    )
    if (dims is not None and len(dims) != buffer.ndim) or differ or info.dtype != buffer.dtype:
        raise PassError(
            f"SpecializePrimFuncBasedOnCallSite: {key.name_hint} takes {buffer.name} of "
            f"{buffer.dtype} {list(buffer.shape)}, but is called with {info}",
            where=call,
            root=mod,
            hint="relax.analysis.well_formed(mod) finds such calls",
        )
