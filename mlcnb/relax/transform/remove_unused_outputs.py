"""RemoveUnusedOutputs: fields of private functions' results that no caller reads go.

t = cls.pair(x)                                  gv = cls.pair(x)
gv = t[1]                             ->
@R.function(private=True)                        @R.function(private=True)
def pair(a): return (R.exp(a), R.abs(a))         def pair(a): return R.abs(a)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import return_info
from mlcnb.relax.analysis.variables import bindings_of, result_of, value_uses
from mlcnb.relax.emitter import Emitter, Names
from mlcnb.relax.expr import BindingBlock, Call, Function, SeqExpr, Tuple, TupleGetItem, Var
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import CallsOf
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings
from mlcnb.relax.transform.remove_unused_parameters import only_called


class RemoveUnusedOutputs(ModulePass):
    """Return from private graph functions only what their callers read.

    One field that is left is returned as it is, in its shape and dtype, not as a tuple. Functions
    that are handed around as values, or of which a caller uses the tuple as a whole, stay; nothing
    is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Functions without a global_symbol that give a tuple of which fields are never read."""
        kept = {}
        for key, func in mod.items():
            fields = _fields_of(func) if only_called(mod, key) else 0
            used = _read_fields(mod, key) if fields else None
            if used and len(used) < fields:
                kept[key] = sorted(used)
        if not kept:
            return mod
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for key, places in kept.items():
            functions[key] = _narrowed(functions[key], places, mod.functions)
        for key, func in functions.items():
            if isinstance(func, Function):
                functions[key] = _Caller(functions, kept).rewrite(func)
        ctx.note(f"{len(kept)} functions give less")
        return mod.with_functions(functions)


def _fields_of(func: Any) -> int:
    """How many results a private graph function gives as a tuple; 0 for any other."""
    if not isinstance(func, Function) or "global_symbol" in func.attrs:
        return 0
    info = func.body.struct_info
    return len(info.fields) if isinstance(info, TupleStructInfo) else 0


def _read_fields(mod: IRModule, key: GlobalVar) -> set[int] | None:
    """Which fields callers read; None where one of them uses the tuple as a whole."""
    found: set[int] = set()
    for func in mod.of_kind(Function).values():
        results = {b.var for b in bindings_of(func) if _calls(b.value, key)}
        for binding in bindings_of(func):
            value = binding.value
            if isinstance(value, TupleGetItem) and value.tuple_value in results:
                found.add(value.index)
            elif any(v in results for v in value_uses(value)):
                return None
        whole = result_of(func)
        if any(v in results for v in value_uses(whole)) or _calls(whole, key):
            return None
    return found


def _calls(value: Any, key: GlobalVar) -> bool:
    return isinstance(value, Call) and value.op == key


def _narrowed(func: Function, places: list[int], functions: Functions) -> Function:
    """The function that gives those fields; one of them is given as itself."""
    body: Any = func.body.body
    named = {b.var: b.value for b in bindings_of(func)}
    whole = named.get(body, body) if isinstance(body, Var) else body
    names = Names(v.name_hint for v in named)
    emitter = Emitter(functions, names)
    with emitter.scope(False) as bindings:
        if isinstance(whole, Tuple):
            fields = [whole.fields[i] for i in places]
        else:
            fields = [emitter.emit(TupleGetItem(body, i)) for i in places]
        result = fields[0] if len(fields) == 1 else emitter.leaf(Tuple(tuple(fields)))
    blocks = (*func.body.blocks, BindingBlock(tuple(bindings))) if bindings else func.body.blocks
    ret = return_info(func.params, result.struct_info)
    made = replace(func, body=SeqExpr(blocks, result), ret_struct_info=ret)
    return remove_unused_bindings(made, functions)


class _Caller(CallsOf):
    def __init__(self, functions: Functions, kept: dict[GlobalVar, list[int]]) -> None:
        super().__init__(functions, kept)
        #: variables of calls that give less now -> the fields that are left
        self.results: dict[Any, list[int]] = {}

    def called(self, call: Call, told: list[int], var: Var) -> Any:
        """The call with its struct info to be inferred again."""
        self.results[var] = told
        return replace(call, struct_info=None)

    def _variable(self, var: Var, value: Any) -> Var:
        new = super()._variable(var, value)
        if var in self.results:
            self.results[new] = self.results[var]
        return new

    def visit_item(self, item: TupleGetItem, var: Var) -> Any:
        """The field where it stands now; the result itself where it is the only one."""
        places = self.results.get(item.tuple_value)
        if places is None:
            return None
        if len(places) == 1:
            return item.tuple_value
        return TupleGetItem(item.tuple_value, places.index(item.index))
