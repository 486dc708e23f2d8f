"""RewriteCUDAGraph: stretches of kernels on memory that stays become functions of their own.

_1 = cls.exp(x, alloc)                    gv = R.call_builtin_with_ctx(
_2 = cls.exp(alloc, alloc1)                   "vm.builtin.cuda_graph.get_cached_alloc", …)
_3 = cls.exp(alloc1, alloc2)         ->   _1 = cls.exp(x, alloc)
                                          gv1 = R.call_builtin_with_ctx(
                                              "vm.builtin.cuda_graph.run_or_capture",
                                              (cls.main_cuda_graph_capture, (alloc, alloc1), 0))

What a CUDA graph replays has to read and write the same addresses in every run: tensors in storage
of known size that the function allocates and does not return, and parameters after the first
`num_input`. Storage moves to `cuda_graph_alloc`, one function for the module, whose storage all
functions share; a stretch of kernels that touch nothing else moves to `<name>_cuda_graph_capture`.
Where there is no CUDA graph the two builtins call these functions.

    with PassContext(config={"relax.backend.use_cuda_graph": True}): RewriteCUDAGraph()(mod)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.expr import GlobalVar, IntImm
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import const
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.op.memory import AllocStorage, AllocTensor
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import bound_vars, leaves
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import ObjectStructInfo, TupleStructInfo
from mlcnb.relax.transform.outline import Outline
from mlcnb.tir.function import PrimFunc

CONFIG = "relax.backend.use_cuda_graph"
#: the attribute of a function: names of sizes that a capture may depend on
CAPTURED_SIZES = "relax.rewrite_cuda_graph.capture_symbolic_vars"

_ALLOC = "vm.builtin.cuda_graph.get_cached_alloc"
_RUN = "vm.builtin.cuda_graph.run_or_capture"
#: calls that no kernel stands behind: they join a stretch, and begin none
_NO_KERNEL = ("relax.memory", "relax.builtin", "relax.null_value")


class RewriteCUDAGraph(ModulePass):
    """Lift what a CUDA graph can replay; runs after memory is planned, where it is asked for.

    Only shapes that are numbers, or made of the sizes that the attribute
    `relax.rewrite_cuda_graph.capture_symbolic_vars` names. Without the option
    `relax.backend.use_cuda_graph` the module is returned as it is; nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every graph function; the module itself where `relax.backend.use_cuda_graph` is off."""
        if not ctx.config.get(CONFIG, False):
            return mod
        functions = mod.of_kind(rx.Function)
        plans = {key: _Planner(func, mod).plan() for key, func in functions.items()}
        table = FunctionTable(mod.functions)
        storages = _Storages(table, [p.storages for p in plans.values()])
        number = 0
        for key, func in functions.items():
            rewriter = _Rewriter(table, key, plans[key], storages, number)
            table.set(key, rewriter.rewritten(func))
            number = rewriter.number
        if number:
            ctx.note(f"{number} stretches of kernels to capture")
        return table.module(mod)


class _Region:
    """Bindings that are to become a function, and what is used of them outside."""

    def __init__(self) -> None:
        self.bindings: list[rx.Binding] = []
        self.outputs: list[rx.Var] = []

    def add_output(self, var: rx.Var) -> None:
        if var not in self.outputs:
            self.outputs.append(var)


class _Planner:
    """Finds the storages of a function that stay, and the stretches of kernels on them."""

    def __init__(self, func: rx.Function, mod: IRModule) -> None:
        self.func, self.mod = func, mod
        count = int(func.attrs.get("num_input", len(func.params)))
        fixed = func.params[count:]
        wanted = set(map(str, func.attrs.get(CAPTURED_SIZES, ())))
        given = [v for p in func.params[:count] for v in definable_vars(p.struct_info)]
        self.static: set[rx.Var] = set(fixed)
        self.sizes: set[PrimVar] = {v for v in given if v.name in wanted}
        self.sizes.update(v for p in fixed for v in definable_vars(p.struct_info))
        self.returned = _returned_storages(func)
        self.storages = _Region()
        self.captures: list[_Region] = []
        self.region: _Region | None = None
        self.region_of: dict[rx.Var, _Region] = {}

    def plan(self) -> _Planner:
        """Itself, with `storages` and `captures` found."""
        for block in self.func.body.blocks:
            if not block_is_dataflow(block):
                for binding in block.bindings:
                    self.visit(binding)
            self.end()
        self.mark(leaves(self.func.body.body))
        self.storages.outputs = [
            b.var for b in self.storages.bindings if b.var in self.storages.outputs
        ]
        return self

    def visit(self, binding: rx.Binding) -> None:
        """Put a binding into the region at hand, begin one with it, or end it."""
        value = binding.value
        if called(value) is AllocStorage:
            self.storage(binding)
            return
        if called(value) is AllocTensor:
            return
        used = list(leaves(value))
        if isinstance(binding, rx.VarBinding) and self.may_move(value):
            if self.region is None and self.is_kernel(value):
                self.region = _Region()
            if self.region is not None:
                self.region.bindings.append(binding)
                self.region_of[binding.var] = self.region
            self.static.add(binding.var)
        else:
            self.end()
        self.mark(used)

    def storage(self, binding: rx.Binding) -> None:
        """Storage of a known size stays, unless what is returned lies in it."""
        shape = binding.value.args[0]
        known = all(isinstance(d, IntImm) for d in shape.values)
        if known and binding.var not in self.returned:
            self.storages.bindings.append(binding)
            self.region_of[binding.var] = self.storages
            self.static.add(binding.var)

    def end(self) -> None:
        """What follows does not belong to the region."""
        if self.region is not None:
            self.captures.append(self.region)
        self.region = None

    def mark(self, used: Iterable[Any]) -> None:
        """What is used here of other regions, these have to hand out."""
        for var in used:
            home = self.region_of.get(var) if isinstance(var, rx.Var) else None
            if home is not None and home is not self.region:
                home.add_output(var)

    def may_move(self, value: Any) -> bool:
        """True for what touches only memory that stays, and has no effect but that of kernels."""
        if isinstance(value, rx.Call):
            extern = value.op.global_symbol if isinstance(value.op, rx.ExternFunc) else ""
            if extern.startswith("vm.builtin") or isinstance(value.op, rx.Var):
                return False
            if isinstance(value.op, GlobalVar):
                if not isinstance(self.mod.functions.get(value.op), PrimFunc):
                    return False
            return all(map(self.is_static, value.args))
        return isinstance(
            value, rx.Var | rx.Tuple | rx.TupleGetItem | rx.Constant
        ) and self.is_static(value)

    def is_static(self, x: Any) -> bool:
        """True for what is the same in every run."""
        if isinstance(x, rx.Var):
            return x in self.static and self.is_sized(x.struct_info)
        if isinstance(x, rx.Tuple):
            return all(map(self.is_static, x.fields))
        if isinstance(x, rx.TupleGetItem):
            return self.is_static(x.tuple_value)
        return all(v in self.sizes for v in symbolic_vars(x))

    def is_sized(self, info: Any) -> bool:
        """True for a value whose sizes a capture may depend on."""
        return all(v in self.sizes for v in symbolic_vars(info))

    def is_kernel(self, value: Any) -> bool:
        """True for a call that launches a kernel."""
        if not isinstance(value, rx.Call):
            return False
        if isinstance(value.op, rx.Op):
            if value.op.name == "relax.call_builtin_with_ctx":
                return False
            return not called(value).view and not value.op.name.startswith(_NO_KERNEL)
        return isinstance(value.op, GlobalVar | rx.ExternFunc)


def _returned_storages(func: rx.Function) -> set[Any]:
    """The storages that a function's result lies in."""
    held: set[Any] = set(leaves(func.body.body))
    for binding in reversed(func.body.bindings):
        value = binding.value
        if binding.var in held and isinstance(value, rx.Var | rx.Tuple | rx.TupleGetItem):
            held.update(leaves(value))
        is_call = isinstance(value, rx.Call) and isinstance(value.op, rx.Op)
        if binding.var in held and is_call and value.op.name.startswith("relax.memory."):
            held.add(value.args[0])
    return held


class _Storages:
    """`cuda_graph_alloc`: for all functions as many storages as the neediest one takes.

    Functions run one after the other, so the n-th largest of each share one, as large as the
    largest of them. Where in its result a function finds its storage: `place`.
    """

    def __init__(self, table: FunctionTable, regions: list[_Region]) -> None:
        self.place: dict[rx.Var, int] = {}
        self.function: GlobalVar | None = None
        self.info: Any = None
        merged: list[rx.Binding] = []
        chosen = [[b for b in r.bindings if b.var in r.outputs] for r in regions]
        for scope in sorted({_scope(b) for found in chosen for b in found}):
            merged += self.merge([[b for b in f if _scope(b) == scope] for f in chosen], merged)
        if merged:
            func, _ = _lifted(merged, [b.var for b in merged])
            self.function = table.add(func, "cuda_graph_alloc")
            self.info = func.ret_struct_info

    def merge(self, found: list[list[rx.Binding]], before: list[rx.Binding]) -> list[rx.Binding]:
        """One storage for the largest of each function, one for the second, …"""
        rows = [sorted(f, key=lambda b: -_size(b)) for f in found]
        merged: list[rx.Binding] = []
        for turn in range(max(map(len, rows))):
            sharing = [row[turn] for row in rows if turn < len(row)]
            for binding in sharing:
                self.place[binding.var] = len(before) + len(merged)
            merged.append(max(sharing, key=_size))
        return merged


def _scope(binding: rx.Binding) -> str:
    return str(binding.value.args[2].value)


def _size(binding: rx.Binding) -> int:
    return int(binding.value.args[0].values[0].value)


def _lifted(bindings: list[rx.Binding], outputs: list[rx.Var]) -> tuple[rx.Function, list[Any]]:
    """Bindings as a function that returns a tuple of some of their variables, impure for what it
    does to memory; and its arguments.
    """
    every = [b.var for b in bindings]
    made = Outline(bindings, every, bind_constants=True, attrs={})
    copies: Any = made.func.body.blocks[0].bindings
    results = rx.Tuple(tuple(made.values[v] for v in outputs))
    result = rx.Var(made.names.fresh("gv"), results.struct_info)
    body = rx.SeqExpr((rx.BindingBlock((*copies, rx.VarBinding(result, results))),), result)
    attrs = FrozenDict({"relax.force_pure": True})
    return rx.Function(made.func.params, body, results.struct_info, True, attrs), made.args


class _Rewriter:
    """One function with calls in place of its storages and stretches."""

    def __init__(
        self,
        table: FunctionTable,
        key: GlobalVar,
        plan: _Planner,
        storages: _Storages,
        number: int,
    ) -> None:
        self.table, self.key, self.plan = table, key, plan
        self.storages, self.number = storages, number
        self.launches = {r.bindings[0].var: r for r in plan.captures}
        self.moved = {b.var for r in plan.captures for b in r.bindings}
        if plan.storages.outputs:
            self.launches[plan.storages.bindings[0].var] = plan.storages
            self.moved.update(b.var for b in plan.storages.bindings)
        #: variable that moved -> the field that holds it now
        self.fields: dict[rx.Var, rx.TupleGetItem] = {}
        self.renamed = Mutator(table.functions)

    def rewritten(self, func: rx.Function) -> rx.Function:
        """The function; itself where nothing moves."""
        if not self.launches:
            return func
        names = Names(v.name_hint for v in bound_vars(func) if v not in self.moved)
        self.emitter = Emitter(self.table.functions, names)
        blocks = []
        for block in func.body.blocks:
            with self.emitter.scope(block_is_dataflow(block)) as bindings:
                for binding in block.bindings:
                    self.binding(binding)
            blocks.append(with_bindings(block, tuple(bindings)))
        kept = tuple(b for b in blocks if b.bindings)
        return replace(func, body=rx.SeqExpr(kept, self.renamed.substitute(func.body.body)))

    def binding(self, binding: rx.Binding) -> None:
        """The call where a region begins, the field where something of it was made."""
        if binding.var in self.launches:
            self.launch(self.launches[binding.var])
        if binding.var in self.fields:
            self.current(binding.var)
        elif binding.var not in self.moved:
            kept = replace(binding, value=self.renamed.substitute(binding.value))
            self.emitter.bindings.append(kept)

    def current(self, var: Any) -> Any:
        """What stands for a variable now."""
        if var in self.fields and var not in self.renamed.remap:
            self.renamed.remap[var] = self.emitter.emit(self.fields[var], var.name_hint)
        return self.renamed.substitute(var)

    def launch(self, region: _Region) -> None:
        """The call of the function that the region became."""
        if region is self.plan.storages:
            zero = rx.PrimValue(const(0, "int64"))
            call = self.builtin(_ALLOC, (self.storages.function, zero), self.storages.info)
            places = {v: self.storages.place[v] for v in region.outputs}
        else:
            func, given = _lifted(region.bindings, region.outputs)
            key = self.table.add(func, f"{self.key.name_hint}_cuda_graph_capture")
            args = rx.Tuple(tuple(map(self.current, given)))
            sizes = tuple(a for a in given if not isinstance(a, rx.Var))
            index = rx.PrimValue(const(self.number, "int64"))
            self.number += 1
            outside = TupleStructInfo(
                tuple(v.struct_info or ObjectStructInfo() for v in region.outputs)
            )
            call = self.builtin(_RUN, (key, args, index, *sizes), outside)
            places = {v: i for i, v in enumerate(region.outputs)}
        whole = self.emitter.emit(call)
        self.fields.update({v: rx.TupleGetItem(whole, i) for v, i in places.items()})

    def builtin(self, name: str, args: tuple[Any, ...], info: Any) -> rx.Call:
        """A call of a builtin that knows the machine it runs in."""
        given: tuple[Any, ...] = (rx.ExternFunc(name), rx.Tuple(args))
        return rx.Call(rx.Op("relax.call_builtin_with_ctx"), given, None, (info,), info)
