"""Weights that are read when they are needed and written when they are known, one at a time.

LazyTransformParams     def main_transform_params(params):      def main_transform_params():
                            w = params[0]                           w = R.call_packed("get_item", 0)
                            wt = R.permute_dims(w)         ->       wt = R.permute_dims(w)
                            return (wt,)                            R.vm.kill_object(w)
                                                                    R.call_packed("set_item", 0, wt)
LazyGetInput            the weights of a function come from its parameter `fget_param(index, name)`
LazySetOutput           its results go to its parameter `fset_output(index, value)`

What is read is checked by a match_cast. A set of weights that is larger than memory can be
transformed this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import const as prim_const
from mlcnb.ir.transform import FunctionPass, ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import bindings_of, value_uses
from mlcnb.relax.emitter import Names
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TupleStructInfo,
)
from mlcnb.relax.transform.to_non_dataflow import merged, to_non_dataflow

_ANY = ObjectStructInfo()
_INDEX = PrimStructInfo(dtype("int64"))


class LazyTransformParams(ModulePass):
    """Make functions named `…transform_params` read and write weights one at a time.

    fget_item: the packed function f(*extra_get_item_params, index) -> weight.
    fset_item: f(*extra_set_item_params, index, value); None returns the results as before.

    Each read is checked by the run against the weight's shape and dtype. Functions whose only
    parameter is no tuple stay, none is refused.
    """

    fget_item: str = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: Sequence[rx.Var] | None = None
    extra_set_item_params: Sequence[rx.Var] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every such function whose only parameter is a tuple."""
        changed = {}
        for key, func in mod.of_kind(rx.Function).items():
            if key.name_hint.endswith("transform_params") and _takes_a_tuple(func):
                changed[key] = self._lazy(func, mod.functions)
        ctx.note(f"{len(changed)} functions read weights one at a time")
        return mod.with_functions(changed)

    def _lazy(self, func: rx.Function, functions: Functions) -> rx.Function:
        flat = to_non_dataflow(func)
        more = tuple(self.extra_get_item_params or ())
        source = _Source(rx.ExternFunc(self.fget_item), more)
        made = _Reader(functions, {flat.params[0]: source}).rewrite(flat)
        params = list(more)
        if self.fset_item is not None:
            given = tuple(self.extra_set_item_params or ())
            params += [p for p in given if p not in params]
            made = _written(made, rx.ExternFunc(self.fset_item), given, functions, kill=True)
        return _impure(made, tuple(params))


class LazyGetInput(FunctionPass):
    """Read the parameters after the first `num_input` from a function that is given.

    fget_param(index, name) -> weight becomes the parameter after the inputs.

    Each read is checked by the run against the weight's shape and dtype. Private functions stay,
    nothing is refused.
    """

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """Public functions; those without `num_input` have weights only."""
        if "global_symbol" not in func.attrs:
            return func
        count = int(func.attrs.get("num_input", 0))
        inputs, weights = func.params[:count], func.params[count:]
        if weights and weights[0].name_hint == "fget_param":
            return func
        info = FuncStructInfo((_INDEX, _ANY), _ANY)
        getter = rx.Var(_free("fget_param", func), info)
        sources = {w: _Source(getter, (), i) for i, w in enumerate(weights)}
        made = _Reader(mod.functions, sources).rewrite(to_non_dataflow(func))
        return _impure(made, (*inputs, getter), pure=func.is_pure, num_input=count + 1)


class LazySetOutput(FunctionPass):
    """Give each result to a function that is given, as soon as it is known.

    fset_output(index, value) becomes the parameter after the inputs; the function returns nothing.

    Private functions, and those that have such a parameter, stay; nothing is refused.
    """

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """Public functions."""
        if "global_symbol" not in func.attrs:
            return func
        if any(p.name_hint == "fset_output" for p in func.params):
            return func
        count = int(func.attrs.get("num_input", len(func.params)))
        nothing = TupleStructInfo(())
        setter = rx.Var(_free("fset_output", func), FuncStructInfo((_INDEX, _ANY), nothing, False))
        made = _written(to_non_dataflow(func), setter, (), mod.functions)
        params = (*func.params[:count], setter, *func.params[count:])
        number = count + 1 if "num_input" in func.attrs else None
        return _impure(made, params, num_input=number)


def _takes_a_tuple(func: rx.Function) -> bool:
    return len(func.params) == 1 and isinstance(func.params[0].struct_info, TupleStructInfo)


def _free(name: str, func: rx.Function) -> str:
    return Names(p.name_hint for p in func.params).fresh(name)


def _impure(
    func: rx.Function, params: tuple[rx.Var, ...], pure: bool = False, num_input: int | None = None
) -> rx.Function:
    """The function on other parameters, without the claim that it has no effects."""
    gone = ("relax.force_pure", "num_input")
    attrs = {k: v for k, v in func.attrs.items() if k not in gone}
    if num_input is not None:
        attrs["num_input"] = num_input
    ret = func.body.struct_info or _ANY
    made = replace(func, params=params, is_pure=pure, attrs=FrozenDict(attrs))
    return replace(made, ret_struct_info=ret)


class _Source:
    """Where weights come from: a function and the arguments before the index.

    place: the index where the source is one weight; None where it is a tuple of them.
    """

    def __init__(self, function: Any, more: Sequence[Any], place: int | None = None) -> None:
        self.function, self.more, self.place = function, tuple(more), place

    def call(self, index: int, name: str) -> rx.Call:
        """The call that reads a weight."""
        number = rx.PrimValue(prim_const(index, "int64"))
        if isinstance(self.function, rx.ExternFunc):
            return rx.Call(self.function, (*self.more, number), None, (_ANY,), _ANY)
        return rx.Call(self.function, (number, rx.StringImm(name)), None, (), _ANY)


class _Reader(Mutator):
    """Reads weights where they are used first."""

    def __init__(self, functions: Functions, sources: dict[rx.Var, _Source]) -> None:
        super().__init__(functions)
        self.sources = sources

    def visit_item(self, item: rx.TupleGetItem, var: rx.Var) -> Any:
        """A field of the tuple of weights."""
        source = self.sources.get(item.tuple_value)  # type: ignore[call-overload]
        if source is None or source.place is not None:
            return None
        return self.read(source, item.index, var)

    def substitute(self, value: Any) -> Any:
        """The value, the weights that are parameters read right before."""
        for used in value_uses(value):
            source = self.sources.get(used)
            if source is not None and source.place is not None and used not in self.remap:
                self.remap[used] = self.read(source, source.place, used)
        return super().substitute(value)

    def read(self, source: _Source, index: int, like: rx.Var) -> rx.Var:
        """A weight, checked to be what the function was written for."""
        untyped = self.emit(source.call(index, like.name_hint), f"{like.name_hint}_untyped")
        start = len(self.emitter.bindings)
        var = self.emitter.match_cast(untyped, like.struct_info, like.name_hint)  # type: ignore[arg-type]
        self._record(start)
        return var


def _written(
    func: rx.Function, setter: Any, more: Sequence[Any], functions: Functions, kill: bool = False
) -> rx.Function:
    """The function that hands its results to `setter`; weights are killed after their last use."""
    result: Any = func.body.body
    named = {b.var: b.value for b in bindings_of(func)}
    whole = named.get(result, result) if isinstance(result, rx.Var) else result
    fields = list(whole.fields) if isinstance(whole, rx.Tuple) else [result]
    dropped = result if isinstance(whole, rx.Tuple) and isinstance(result, rx.Var) else None
    writer = _Writer(functions, _Results(setter, tuple(more), fields, dropped))
    if kill:
        writer.watch(func)
    return writer.rewrite(func)


class _Results(NamedTuple):
    """Who takes the results, with what before them; the results; the tuple of them, which goes."""

    setter: Any
    more: tuple[Any, ...]
    fields: list[Any]
    dropped: rx.Var | None


class _Writer(Mutator):
    """Hands each result over right after its binding; those that are none are handed at the end."""

    def __init__(self, functions: Functions, results: _Results) -> None:
        super().__init__(functions)
        self.results = results
        self.places: dict[Any, list[int]] = {}
        for place, field in enumerate(results.fields):
            self.places.setdefault(field, []).append(place)
        #: weights that were read -> the variable whose binding uses them last
        self.last: dict[Any, rx.Var] = {}

    def watch(self, func: rx.Function) -> None:
        """Kill weights that were read (checked by a match_cast) after their last use."""
        for binding in bindings_of(func):
            if isinstance(binding, rx.MatchCast):
                self.last[binding.var] = binding.var
            elif binding.var is not self.results.dropped:
                used = [u for u in value_uses(binding.value) if u in self.last]
                self.last.update(dict.fromkeys(used, binding.var))

    def _binding(self, binding: rx.Binding) -> None:
        if binding.var is self.results.dropped:
            return
        super()._binding(binding)
        var = binding.var
        dying = [v for v, last in self.last.items() if last is var and v is not var]
        self._kill(dying)
        self._set(var)
        if self.last.get(var) is var:
            self._kill([var])

    def _kill(self, dying: Sequence[rx.Var]) -> None:
        for var in dying:
            self.emit(op.vm.kill_object(self.substitute(var)), "_")

    def _set(self, field: Any) -> None:
        setter = self.results.setter
        for place in self.places.pop(field, ()):
            number = rx.PrimValue(prim_const(place, "int64"))
            args = (*self.results.more, number, self.substitute(field))
            packed = isinstance(setter, rx.ExternFunc)
            info: Any = _ANY if packed else TupleStructInfo(())
            self.emit(rx.Call(setter, args, None, (info,) if packed else (), info), "_")

    def _sequence(self, seq: Any) -> rx.SeqExpr:
        if seq is not self.func.body:
            return super()._sequence(seq)
        made = super()._sequence(replace(seq, body=rx.Tuple(())))
        with self.emitter.scope(False) as rest:
            for field in list(self.places):
                self._set(field)
            result = self.emit(rx.Tuple(()), "gv")
        return rx.SeqExpr(merged((*made.blocks, rx.BindingBlock(tuple(rest)))), result)
