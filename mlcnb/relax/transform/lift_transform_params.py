"""LiftTransformParams: what depends on weights alone goes into a function that runs once, before.

def main(x, w):                            def main(x, wt):
    R.func_attr({"num_input": 1})              R.func_attr({"num_input": 1})
    wt = R.permute_dims(w)                     gv = R.matmul(x, wt)
    gv = R.matmul(x, wt)          ->       def main_transform_params(params: R.Tuple(…)):
    return gv                                  wt = R.permute_dims(params[0])
                                               return (wt,)

Weights are the parameters after the first `num_input`. What a function still needs becomes its
parameters: first sizes that only weights told, then weights as they are, then what was computed,
in order. `R.builtin.stop_lift_params(x)` marks a value behind which nothing is lifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace, rewrite, walk
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import const as prim_const
from mlcnb.ir.structural import structural_digest
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.op.vm import StopLiftParams
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import (
    definable_vars,
    return_info,
    same_info,
    symbolic_vars,
)
from mlcnb.relax.analysis.variables import bindings_of, leaves, value_uses
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow
from mlcnb.relax.infer import Functions, infer, is_pure_call
from mlcnb.relax.mutator import Mutator, Renamer
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import ObjectStructInfo, TupleStructInfo

#: the setting under which each weight is given up as soon as it was read
CONSUME = "relax.lift_transform_params.consume_params"

_ANY = ObjectStructInfo()


class LiftTransformParams(ModulePass):
    """Compute what follows from weights in a function of its own.

    What is lifted keeps its shape and dtype; needs the attribute `num_input`, a function without it
    stays.

    shared_transform: False gives every function its own `<name>_transform_params`; True (or names
    of functions) gives all of them one `transform_params`, for what all of them compute.

    Raises:
        PassError: functions that are to share a transform have weights that differ in number, shape
            or dtype.
    """

    shared_transform: bool | Sequence[str] = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every graph function that says with `num_input` which of its parameters are weights."""
        chosen = self._chosen(mod)
        if not chosen:
            return mod
        plans = {key: _Plan(mod[key], mod.functions) for key in chosen}
        consume = bool(ctx.get_config(CONSUME))
        changed: dict[Any, rx.Function] = {}
        if self.shared_transform is False:
            for key, plan in plans.items():
                made = plan.outputs()
                name = f"{key.name_hint}_transform_params"
                changed[name] = _transform_function(name, plan, made, mod.functions, consume)
                changed[key] = _runtime_function(plan, made, mod.functions)
        else:
            changed = _shared(plans, mod.functions, consume)
        ctx.note(f"{sum(len(p.lifted) for p in plans.values())} values lifted")
        return mod.with_functions(changed)

    def _chosen(self, mod: IRModule) -> list[GlobalVar]:
        wanted = self.shared_transform
        names = None if isinstance(wanted, bool) else set(wanted)
        return [
            key
            for key, func in mod.of_kind(rx.Function).items()
            if "num_input" in func.attrs and (names is None or key.name_hint in names)
        ]


class _Plan:
    """One function: its weights, what follows from them, and what it needs when it runs."""

    def __init__(self, func: rx.Function, functions: Functions) -> None:
        count = int(func.attrs["num_input"])
        self.func = func
        self.inputs, self.weights = func.params[:count], func.params[count:]
        self.symbols = {v for w in self.weights for v in definable_vars(w.struct_info)}
        #: variables that are known before the function runs -> whether a weight is among it
        self.known: dict[rx.Var, bool] = dict.fromkeys(self.weights, True)
        #: bindings of known values, in order
        self.lifted: list[rx.VarBinding] = []
        for block in func.body.blocks:
            if block_is_dataflow(block):
                for binding in block.bindings:
                    self._look(binding, functions)

    def _look(self, binding: rx.Binding, functions: Functions) -> None:
        value = binding.value
        if not isinstance(binding, rx.VarBinding) or not _may_move(value, functions):
            return
        used = [v for v in value_uses(value) if isinstance(v, rx.Var)]
        if all(v in self.known for v in used) and self._symbols_of(binding).keys() <= self.symbols:
            self.known[binding.var] = any(self.known[v] for v in used)
            self.lifted.append(binding)

    @staticmethod
    def _symbols_of(binding: rx.Binding) -> dict[Any, None]:
        """The sizes that a binding mentions, in order."""
        found = dict.fromkeys(symbolic_vars(binding.var.struct_info))
        for leaf in leaves(binding.value):
            if isinstance(leaf, rx.ShapeExpr | rx.PrimValue):
                found.update(dict.fromkeys(symbolic_vars(leaf)))
        return found

    def moves(self, var: rx.Var) -> bool:
        """Whether a variable's value comes from before the run: it is known, and of a weight."""
        return self.known.get(var, False)

    def keep_only(self, lifted: set[rx.Var]) -> None:
        """Lift no more than these."""
        self.lifted = [b for b in self.lifted if b.var in lifted]
        self.known = {v: k for v, k in self.known.items() if v in lifted or v in self.weights}

    def remaining(self) -> list[rx.Binding]:
        """The bindings that run with the function."""
        moved = {b.var for b in self.lifted if self.moves(b.var)}
        helpers = {b.var for b in self.lifted} - moved
        kept = [b for b in bindings_of(self.func) if b.var not in moved]
        used = {v for b in kept for v in value_uses(b.value)} | set(leaves(self.func.body.body))
        ever = {v for b in bindings_of(self.func) for v in value_uses(b.value)}
        return [b for b in kept if b.var not in helpers or b.var in used or b.var not in ever]

    def needed(self) -> set[Any]:
        """What those bindings and the result read."""
        used = {v for b in self.remaining() for v in value_uses(b.value)}
        return used | set(leaves(self.func.body.body))

    def extra_symbols(self, made: Sequence[rx.Expr]) -> list[Any]:
        """Sizes that the function mentions and only weights define that it does not get."""
        infos = [p.struct_info for p in (*self.inputs, *made)]
        defined = {v for i in infos for v in definable_vars(i)}
        found: dict[Any, None] = {}
        for binding in self.remaining():
            found.update(self._symbols_of(binding))
        return [v for v in found if v in self.symbols and v not in defined]

    def outputs(self, needed: set[Any] | None = None) -> list[Any]:
        """What the transform gives: sizes, weights, lifted values; each as an expression here."""
        wanted = self.needed() if needed is None else needed
        made: list[Any] = [w for w in self.weights if w in wanted]
        made += [b.var for b in self.lifted if b.var in wanted and self.moves(b.var)]
        symbols = self.extra_symbols(made)
        return [rx.ShapeExpr(tuple(symbols)), *made] if symbols else made


def _may_move(value: Any, functions: Functions) -> bool:
    if isinstance(value, rx.If | rx.Function):
        return False
    if not isinstance(value, rx.Call):
        return True
    return called(value) is not StopLiftParams and is_pure_call(value, functions)


def _transform_function(
    name: str, plan: _Plan, made: list[Any], functions: Functions, consume: bool
) -> rx.Function:
    """The function from all weights, as a tuple, to what is needed of them."""
    params = rx.Var("params", TupleStructInfo(tuple(infer(w) or _ANY for w in plan.weights)))
    emitter = Emitter(functions, Names(["params"]))
    places = {w: i for i, w in enumerate(plan.weights)}
    needed = _closure(plan, made)
    renamed: dict[Any, Any] = {}

    def read(var: Any) -> Any:
        if var not in renamed:
            item = rx.TupleGetItem(params, places[var])
            renamed[var] = emitter.emit(item, var.name_hint)
            if consume:
                emitter.emit(_given_up(params, places[var]), "_")
        return renamed[var]

    with emitter.scope(True) as bindings:
        for binding in plan.lifted:
            if binding.var not in needed:
                continue
            for used in value_uses(binding.value):
                if used in places:
                    read(used)
            value = Renamer(renamed).substitute(binding.value)
            renamed[binding.var] = emitter.emit(value, binding.var.name_hint)
        fields = [m if isinstance(m, rx.ShapeExpr) else read(m) for m in made]
        result = emitter.emit(rx.Tuple(tuple(fields)), "gv", output=True)
    ret = return_info((params,), result.struct_info)
    body = rx.SeqExpr((rx.DataflowBlock(tuple(bindings)),), result)
    attrs = FrozenDict(global_symbol=name, num_input=0)
    return _with_own_sizes(rx.Function((params,), body, ret, True, attrs))


def _with_own_sizes(func: rx.Function) -> rx.Function:
    """The function with symbolic sizes of its own: no two functions name the same."""
    own = {v: PrimVar(v.name, v.dtype) for v in walk(func) if isinstance(v, PrimVar)}
    return rewrite(func, lambda n: own.get(n) if isinstance(n, PrimVar) else None)


def _given_up(params: rx.Var, place: int) -> rx.Call:
    number = rx.PrimValue(prim_const(place, "int32"))
    nothing = TupleStructInfo(())
    return rx.call_pure_packed("vm.builtin.tuple_reset_item", params, number, sinfo_args=nothing)


def _closure(plan: _Plan, made: list[Any]) -> set[Any]:
    """The lifted values that are asked for, and those that they are computed from."""
    needed = set(made)
    for binding in reversed(plan.lifted):
        if binding.var in needed:
            needed.update(value_uses(binding.value))
    return needed


class _Runtime(Mutator):
    """The function without what was lifted; its variables stand for parameters now."""

    def __init__(self, functions: Functions, new: dict[Any, rx.Var], kept: set[rx.Var]) -> None:
        super().__init__(functions)
        self.remap.update(new)
        self.kept = kept

    def _binding(self, binding: rx.Binding) -> None:
        if binding.var not in self.kept:
            return
        if called(binding.value) is StopLiftParams:  # it has stopped what it was there to stop
            source: Any = binding.value.args[0]  # type: ignore[attr-defined]
            self.remap[binding.var] = self.remap.get(source, source)
        else:
            super()._binding(binding)


def _runtime_function(plan: _Plan, made: list[Any], functions: Functions) -> rx.Function:
    """The function on its inputs and on what was made of its weights."""
    new = {}
    params = list(plan.inputs)
    for each in made:
        name = "sizes" if isinstance(each, rx.ShapeExpr) else each.name_hint
        param = rx.Var(name, infer(each, functions))
        params.append(param)
        if not isinstance(each, rx.ShapeExpr):
            new[each] = param
    kept = {b.var for b in plan.remaining()}
    body = _Runtime(functions, new, kept).rewrite(plan.func).body
    return replace(plan.func, params=tuple(params), body=body)


# one transform for several functions ------------------------------------------------------------


def _meanings(plan: _Plan) -> dict[rx.Var, Any]:
    """What weights and lifted values are, whatever the function calls them."""
    keys: dict[rx.Var, Any] = {w: ("weight", i) for i, w in enumerate(plan.weights)}
    for binding in plan.lifted:
        keys[binding.var] = _meaning(binding.value, keys)
    return keys


def _meaning(value: Any, keys: dict[rx.Var, Any]) -> Any:
    """Equal for two values that are computed alike from weights at the same places."""
    if isinstance(value, rx.Var):
        return keys[value]
    if isinstance(value, rx.Tuple):
        return ("tuple", tuple(_meaning(f, keys) for f in value.fields))
    if isinstance(value, rx.TupleGetItem):
        return ("item", value.index, _meaning(value.tuple_value, keys))
    if isinstance(value, rx.Call):
        how = structural_digest((value.op, value.attrs, value.sinfo_args))
        return ("call", how, tuple(_meaning(a, keys) for a in value.args))
    return structural_digest(value)


def _shared(
    plans: dict[GlobalVar, _Plan], functions: Functions, consume: bool
) -> dict[Any, rx.Function]:
    """All functions on the results of one `transform_params`, which lifts what they have in
    common.
    """
    _check_alike(plans)
    common = {key: _meanings(plan) for key, plan in plans.items()}
    shared = set.intersection(*(set(c.values()) for c in common.values()))
    for key, plan in plans.items():
        plan.keep_only({v for v, k in common[key].items() if k in shared})
    wanted = {common[k][v] for k, p in plans.items() for v in p.needed() if p.moves(v)}
    changed: dict[Any, rx.Function] = {}
    for key, plan in plans.items():
        first: dict[Any, Any] = {}
        for var, meaning in common[key].items():
            if meaning in wanted and var in plan.known:
                first.setdefault(meaning, var)
        made = plan.outputs(set(first.values()))
        if not changed:
            name = "transform_params"
            changed[name] = _transform_function(name, plan, made, functions, consume)
        changed[key] = _runtime_function(plan, made, functions)
    return changed


def _check_alike(plans: dict[GlobalVar, _Plan]) -> None:
    (first, one), *others = plans.items()
    for key, plan in others:
        same = len(one.weights) == len(plan.weights) and all(
            same_info(a.struct_info, b.struct_info)
            for a, b in zip(one.weights, plan.weights, strict=True)
        )
        if not same:
            raise PassError(
                f"LiftTransformParams: {first.name_hint} and {key.name_hint} cannot share a "
                "transform: their weights differ in number, shape or dtype",
                where=plan.func,
                hint="shared_transform=False, or the names of functions with the same weights",
            )
