"""StaticPlanBlockMemory: tensors that do not live together share memory.

alloc = R.builtin.alloc_tensor(…)       storage = R.memory.alloc_storage(R.shape([4096]), …)
_ = cls.exp(x, alloc)                   alloc = R.memory.alloc_tensor(storage, 0, …)
alloc1 = R.builtin.alloc_tensor(…)  ->  _ = cls.exp(x, alloc)
_1 = cls.exp(alloc, alloc1)             storage1 = R.memory.alloc_storage(R.shape([4096]), …)
alloc2 = R.builtin.alloc_tensor(…)      alloc1 = R.memory.alloc_tensor(storage1, 0, …)
…                                       …
                                        alloc2 = R.memory.alloc_tensor(storage, 0, …)

A storage is free again after the last loop function that reads or writes its tensor. What is
returned, handed to anything but loop functions, or used outside of its block keeps its own memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.errors import PassError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import GlobalVar, IntImm, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op._dims import product
from mlcnb.op.memory import AllocTensor
from mlcnb.op.vm import CallTirDyn
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dim, symbolic_vars
from mlcnb.relax.analysis.variables import nested, value_uses
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.tir.function import PrimFunc

#: a free storage is taken for what is up to so many times smaller, or larger
REACH = 16


class StaticPlanBlockMemory(FunctionPass):
    """Give tensors that never live together one storage, as TVM's pass of this name does.

    They are of one dtype; shapes may be symbolic: then a storage is taken again for what is surely
    as large. With the attribute `tir_var_upper_bound` the largest size is reserved, and a run that
    needs more ends.

    Raises:
        PassError: a bound of a size (`tir_var_upper_bound`) is no integer.
    """

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """The allocations of the function and of its branches."""
        _check_bounds(func)
        tokens = _Uses(func, mod).planned()
        storages = _Pool(func).place(func.body, tokens)
        if not storages:
            return func
        sizes = [as_int(s.nbytes) or 0 for s in set(storages.values())]
        ctx.note(f"{len(storages)} tensors in {len(sizes)} storages of {sum(sizes):,} bytes")
        return _Placer(mod.functions, storages).rewrite(func)


def _check_bounds(func: rx.Function) -> None:
    for end in ("tir_var_upper_bound", "tir_var_lower_bound"):
        for name, bound in func.attrs.get(end, {}).items():
            if not isinstance(bound, int):
                raise PassError(
                    f"StaticPlanBlockMemory: {end} of {name} is {bound!r}",
                    hint=f'one integer a size: R.func_attr({{"{end}": {{"{name}": 4}}}})',
                )


def _is_allocation(value: Any) -> bool:
    return called(value) is AllocTensor and isinstance(value.args[0], rx.ShapeExpr)


class _Uses:
    """Which allocations are used by loop functions of their own block only."""

    def __init__(self, func: rx.Function, mod: IRModule) -> None:
        self.func, self.mod = func, mod
        #: variable -> the allocation it stands for, or a tuple of such, or None
        self.holds: dict[rx.Var, Any] = {}
        self.block_of: dict[rx.Var, rx.BindingBlock] = {}
        self.kept: set[rx.Var] = set()

    def planned(self) -> dict[rx.Var, Any]:
        """Every variable that stands for allocations which may share memory, with these."""
        self.sequence(self.func.body)
        allowed = self.block_of.keys() - self.kept
        return {v: found for v in self.holds if (found := [t for t in self.of(v) if t in allowed])}

    def sequence(self, seq: rx.SeqExpr) -> None:
        """Blocks in order; what the sequence gives stays."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.binding(binding, block)
        self.kept.update(self.of(seq.body))

    def binding(self, binding: rx.Binding, block: rx.BindingBlock) -> None:
        """What the variable stands for, and what its value does with others."""
        var, value = binding.var, binding.value
        if _is_allocation(value):
            self.block_of[var], self.holds[var] = block, var
        elif isinstance(value, rx.Call):
            self.call(value, var, block)
        elif isinstance(value, rx.If):  # what its branches use of this block, their bindings say
            self.kept.update(self.of(value.cond))
            for inner in nested(value):
                self.sequence(inner)
        elif nested(value):
            self.kept.update(t for n in value_uses(value) for t in self.of(n))
        else:
            self.holds[var] = self.structure(value)

    def call(self, call: rx.Call, var: rx.Var, block: rx.BindingBlock) -> None:
        """Loop functions use a tensor and are done; others may keep it."""
        if called(call).view:
            self.holds[var] = self.structure(call.args[0])
            return
        used = [t for arg in (call.op, *call.args) for t in self.of(arg)]
        only_here = _releases(call, self.mod)
        self.kept.update(t for t in used if not only_here or self.block_of[t] is not block)

    def structure(self, expr: Any) -> Any:
        """The allocations that an expression stands for, in its tuples."""
        if isinstance(expr, rx.Tuple):
            return tuple(map(self.structure, expr.fields))
        if isinstance(expr, rx.TupleGetItem):
            whole = self.structure(expr.tuple_value)
            return whole[expr.index] if isinstance(whole, tuple) else whole
        return self.holds.get(expr) if isinstance(expr, rx.Var) else None

    def of(self, expr: Any) -> Iterator[rx.Var]:
        """The allocations that an expression stands for, one by one."""
        stack = [self.structure(expr)]
        while stack:
            found = stack.pop()
            if isinstance(found, tuple):
                stack += found
            elif found is not None:
                yield found


def _releases(call: rx.Call, mod: IRModule) -> bool:
    """True for a call that holds on to no argument: a loop function, or one that gives nothing."""
    if isinstance(call.op, GlobalVar):
        return isinstance(mod.functions.get(call.op), PrimFunc)
    gives_nothing = isinstance(call.struct_info, TupleStructInfo) and not call.struct_info.fields
    return called(call) is CallTirDyn or (isinstance(call.op, rx.ExternFunc) and gives_nothing)


@dataclass(eq=False)
class _Storage:
    """A piece of memory: its size, and what it is made of."""

    nbytes: PrimExpr
    dtype: Any
    device: Any
    scope: Any
    var: Any = field(default=None)


class _Pool:
    """Hands out storages along a function."""

    def __init__(self, func: rx.Function) -> None:
        bounds = func.attrs.get("tir_var_upper_bound", {})
        given = [v for prm in func.params for v in symbolic_vars(prm.struct_info)]
        self.bounds: dict[PrimVar, Any] = {v: (0, bounds.get(v.name)) for v in given}
        self.bounded = any(v.name in bounds for v in given)

    def place(self, seq: rx.SeqExpr, tokens: dict[rx.Var, Any]) -> dict[rx.Var, _Storage]:
        """A storage for each allocation below a sequence; branches have storages of their own."""
        placed: dict[rx.Var, _Storage] = {}
        free: list[_Storage] = []
        for block in seq.blocks:
            left = Counter(t for b in block.bindings for t in _uses(b.value, tokens))
            for binding in block.bindings:
                for inner in nested(binding.value) if isinstance(binding.value, rx.If) else ():
                    placed.update(self.place(inner, tokens))
                if _is_allocation(binding.value) and binding.var in tokens:
                    placed[binding.var] = self.taken(binding.value, free)
                    if not left[binding.var]:
                        free.append(placed[binding.var])
                for token in _uses(binding.value, tokens):
                    left[token] -= 1
                    if not left[token]:
                        free.append(placed[token])
        return placed

    def taken(self, call: rx.Call, free: list[_Storage]) -> _Storage:
        """A free storage that fits, or a new one."""
        made = self.storage(call)
        rest = [
            s for s in free
            if s.dtype == made.dtype and s.scope == made.scope and s.device == made.device
        ]  # fmt: skip
        found = _fitting(made.nbytes, rest)
        if found is None:
            return made
        free.remove(found)
        if (as_int(found.nbytes) or 0) < (as_int(made.nbytes) or 0):
            found.nbytes = made.nbytes
        return found

    def storage(self, call: rx.Call) -> _Storage:
        """The storage that an allocation needs."""
        args: Any = call.args
        shape, kind, device, scope = args
        dims = [self.bound(d) for d in shape.values]
        size = p.as_expr(product(dims), None)
        nbytes = p.multiply(p.const(kind.value.nbytes, "int64"), p.cast("int64", size))
        return _Storage(nbytes, kind.value, as_int(device.value), scope.value)

    def bound(self, dim: PrimExpr) -> PrimExpr:
        """The largest value of a dimension, where bounds are told; else itself."""
        if isinstance(dim, IntImm) or not self.bounded:
            return dim
        most = Analyzer(self.bounds).const_int_bound(dim).max_value
        return dim if most is None or most >= 2**62 else p.const(int(most), "int64")


def _uses(value: Any, tokens: dict[rx.Var, Any]) -> list[rx.Var]:
    """The allocations that a call uses."""
    if not isinstance(value, rx.Call) or called(value).view:
        return []
    return [t for n in value_uses(value) if isinstance(n, rx.Var) for t in tokens.get(n, ())]


def _fitting(nbytes: PrimExpr, free: list[_Storage]) -> _Storage | None:
    """The smallest that is large enough, else the largest; both within reach."""
    size = as_int(nbytes)
    if size is None:
        return next((s for s in free if same_dim(s.nbytes, nbytes)), None)
    sizes = [(known, s) for s in free if (known := as_int(s.nbytes)) is not None]
    near = [(n, s) for n, s in sizes if size // REACH <= n <= size * REACH]
    larger = [pair for pair in near if pair[0] >= size]
    if larger:
        return min(larger, key=lambda pair: pair[0])[1]
    return max(near, key=lambda pair: pair[0])[1] if near else None


class _Placer(Mutator):
    """Writes the storages, each before the first tensor in it."""

    def __init__(self, functions: Any, storages: dict[rx.Var, _Storage]) -> None:
        super().__init__(functions)
        self.storages = storages

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """An allocation that has a place."""
        found = self.storages.get(var)
        if found is None or not _is_allocation(call):
            return None
        if found.var is None:
            size, device, scope = rx.ShapeExpr((found.nbytes,)), call.args[2], found.scope
            made = op.memory.alloc_storage(size, device, scope, str(found.dtype))
            found.var = self.emit(made, "storage")
        return op.memory.alloc_tensor(found.var, 0, call.args[0], call.args[1])
