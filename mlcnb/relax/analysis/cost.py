"""Cost: operations, bytes and memory of calls and functions, from struct infos alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis.calls import is_call_tir
from mlcnb.relax.analysis.struct_info import nbytes
from mlcnb.relax.analysis.variables import bindings_of, leaves, result_of
from mlcnb.relax.expr import Call, Constant, Function, Op, Var
from mlcnb.relax.infer import Functions
from mlcnb.relax.operand_infos import operand_infos
from mlcnb.relax.operator import attrs_of, declaration
from mlcnb.tir.function import PrimFunc


def call_flops(call: Call, functions: Functions | None = None) -> Any:
    """Floating-point operations of one call (a symbolic expression over symbolic shapes).

    None where the operator does not count them.
    """
    if is_call_tir(call):
        func: Any = (functions or {}).get(call.args[0])  # type: ignore[call-overload]
        return _prim_func_flops(func) if isinstance(func, PrimFunc) else None
    if isinstance(call.op, Op) and declaration(call.op, missing_ok=True) is not None:
        return attrs_of(call).flops(*operand_infos(call))
    return None


def _prim_func_flops(func: PrimFunc) -> Any:
    from mlcnb.tir.analysis import flops as prim_func_flops

    return prim_func_flops(func)


def call_bytes(call: Any) -> int | None:
    """Bytes that a call reads and writes, each tensor once; None where a size is not known."""
    sizes = [nbytes(call.struct_info)]
    for part in dict.fromkeys(leaves(call)):
        if isinstance(part, Var | Constant):
            sizes.append(nbytes(part.struct_info))
    return None if None in sizes else sum(s for s in sizes if s is not None)


def flops(func: Function | IRModule, functions: Functions | None = None) -> Any:
    """Floating-point operations of one run of a graph function, over the calls that count theirs.

    Calls of other graph functions count what those do. Of a module it is `main`, or its only graph
    function.

    Args:
        func: the function, or the module.
        functions: the functions that it calls; those of the module where that is given.

    Raises:
        MLCError: it calls a function that `functions` does not have, or the module has several
            graph functions and no `main`.
    """
    if isinstance(func, IRModule):
        return flops(_entry_of(func), func.functions)
    total: Any = 0
    for binding in bindings_of(func):
        if isinstance(binding.value, Call):
            total = total + (_flops_of(binding.value, functions or {}) or 0)
    return total


def _entry_of(mod: IRModule) -> Function:
    graphs = {k.name_hint: f for k, f in mod.of_kind(Function).items()}
    if "main" not in graphs and len(graphs) != 1:
        raise MLCError(
            f"flops: the module has {len(graphs)} graph functions and no 'main'",
            hint="relax.analysis.flops(mod[name], mod.functions)",
        )
    return graphs["main"] if "main" in graphs else next(iter(graphs.values()))


def _known(key: Any, functions: Functions) -> None:
    """Refuse to count a call as nothing because nobody said what is called."""
    if isinstance(key, GlobalVar) and key not in functions:
        raise MLCError(
            f"flops: {key.name_hint!r} is called, and is not among the functions",
            hint="relax.analysis.flops(mod), or flops(func, mod.functions)",
        )


def _flops_of(call: Call, functions: Functions) -> Any:
    _known(call.args[0] if is_call_tir(call) else call.op, functions)
    callee = functions.get(call.op) if not isinstance(call.op, Op) else None
    return flops(callee, functions) if isinstance(callee, Function) else call_flops(call, functions)


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that one run of a function holds.

    inputs: of parameters; constants: of constants; intermediates: of all bound tensors together;
    peak: the most that is alive at once, when each is freed after its last use.
    """

    name: str
    inputs: int
    constants: int
    intermediates: int
    peak: int

    def __repr__(self) -> str:
        parts = [f"{_size(getattr(self, n))} {n}" for n in _PARTS]
        return f"{self.name}: {', '.join(parts)}"


_PARTS = ("inputs", "constants", "intermediates", "peak")


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 10_000 else f"{count} B"


def estimate_memory_usage(mod: IRModule | Function) -> list[MemoryEstimate]:
    """Memory of each graph function of a module that is not called by another one as a kernel.

    Tensors of unknown size count as nothing.
    """
    if isinstance(mod, Function):
        return [_estimate(mod.attrs.get("global_symbol", "function"), mod)]
    return [
        _estimate(key.name_hint, func)
        for key, func in mod.of_kind(Function).items()
        if not func.attrs.get("Primitive")
    ]


def _estimate(name: str, func: Function) -> MemoryEstimate:
    sizes = {b.var: nbytes(b.var.struct_info) or 0 for b in bindings_of(func)}
    constants: dict[int, int] = {}
    last: dict[Var, int] = {}
    bindings = list(bindings_of(func))
    for step, binding in enumerate(bindings):
        for part in leaves(binding.value):
            if isinstance(part, Constant):
                constants[id(part.data)] = part.data.nbytes
            elif isinstance(part, Var):
                last[part] = step
    for part in leaves(result_of(func)):
        if isinstance(part, Var):
            last[part] = len(bindings)
    alive = peak = 0
    dying: dict[int, list[Var]] = {}
    for var, step in last.items():
        dying.setdefault(step, []).append(var)
    for step, binding in enumerate(bindings):
        alive += sizes[binding.var]
        peak = max(peak, alive)
        alive -= sum(sizes.get(v, 0) for v in dying.get(step, ()))
        alive -= sizes[binding.var] if binding.var not in last else 0
    inputs = sum(nbytes(p.struct_info) or 0 for p in func.params)
    return MemoryEstimate(name, inputs, sum(constants.values()), sum(sizes.values()), peak)
