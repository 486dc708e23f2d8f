"""Exporter: an nn.Module's methods, called once with variables, leave graph functions behind.

forward(x)  ->  def forward(x, [effects …], [parameters …]):
                    with R.dataflow():
                        …what the method's operators emitted…
                        gv = (result, (effects …))          without effects: the result
                        R.output(gv)
                    return gv
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.expr import Var as SizeVar
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis.struct_info import substitute, symbolic_vars
from mlcnb.relax.analysis.well_formed import assert_well_formed
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Expr, Tuple, TupleGetItem, Var
from mlcnb.relax.frontend.nn import spec as specs
from mlcnb.relax.frontend.nn.effects import IOEffect
from mlcnb.relax.frontend.nn.extern import ExternModule
from mlcnb.relax.frontend.nn.module import find
from mlcnb.relax.frontend.nn.tensor import Effect, Object, Parameter, Tensor, kept_expressions
from mlcnb.relax.struct_info import ObjectStructInfo, ShapeStructInfo, TupleStructInfo

_exporting: list[Exporter] = []
Named = list[tuple[str, Any]]


def add_extern(mod: ExternModule) -> None:
    """Say, in a method that is being exported, that it calls functions of `mod`.

    Raises:
        MLCError: nothing is being exported.
        ArgumentError: a symbol was added before.
    """
    if not _exporting:
        raise MLCError("`nn.add_extern` should only be invoked when exporting a module.")
    Exporter.current().add_external_module(mod)


class Exporter:
    """Builds the IRModule of one `nn.spec.ModuleSpec`.

    debug: whether `op.print_` and `op.debug_func` may be used.
    """

    def __init__(self, debug: bool = False) -> None:
        self.builder = BlockBuilder()
        self.io_effect = IOEffect() if debug else None
        self.extern_mods: list[ExternModule] = []

    @staticmethod
    def current() -> Exporter:
        """The exporter at work.

        Raises:
            MLCError: there is none.
        """
        if not _exporting:
            raise MLCError("nn: no module is being exported", hint="module.export_tvm(spec)")
        return _exporting[-1]

    def add_external_module(self, mod: ExternModule) -> None:
        """Keep a module whose functions are called."""
        known = {symbol for other in self.extern_mods for symbol in other.symbols}
        twice = sorted(known & set(mod.symbols))
        if twice:
            raise ArgumentError(f"Duplicate symbols: {twice}")
        self.extern_mods.append(mod)

    def build(
        self, spec: specs.ModuleSpec
    ) -> tuple[IRModule, list[tuple[str, Parameter]], list[ExternModule]]:
        """The module, its parameters by path, and the ExternModules that were added."""
        params = list(find(spec.module, "", lambda part: isinstance(part, Parameter)))
        effects: Named = [("", self.io_effect)] if self.io_effect is not None else []
        effects += find(spec.module, "", lambda part: isinstance(part, Effect))
        _exporting.append(self)
        try:
            with kept_expressions([p for _, p in params]):
                self._functions(spec, params, effects)
        finally:
            _exporting.pop()
        mod = self.builder.get()
        assert_well_formed(mod)
        return mod, params, self.extern_mods

    def _functions(self, spec: specs.ModuleSpec, params: Named, effects: Named) -> None:
        if effects:
            self._initialize(effects)
        for name, method in zip(spec.method_names, spec.method_specs, strict=True):
            states = {"plain": len(effects), "packed": 1, "none": 0}[method.effect_mode]
            attrs = {"num_input": len(method.arg_specs) + states}
            with self.builder.function(name, attrs=attrs):
                with self.builder.dataflow():
                    output, inputs = _Method(self.builder, method, params, effects).emit()
                self.builder.emit_func_output(output, inputs)

    def _initialize(self, effects: Named) -> None:
        """`_initialize_effect()`: the first state of every effect."""
        builder = self.builder
        with builder.function("_initialize_effect"):
            with builder.dataflow():
                states = [s for name, effect in effects for s in effect.emit_init(name, builder)]
                output = builder.emit_output(builder.emit(Tuple(tuple(states))))
            builder.emit_func_output(output, [])


class _Method:
    """One method on its way to be a function: its sizes by name, its inputs."""

    def __init__(
        self, builder: BlockBuilder, spec: specs.MethodSpec, params: Named, effects: Named
    ) -> None:
        self.builder = builder
        self.spec = spec
        self.params = params
        self.effects = effects
        self.sizes: dict[str, SizeVar] = {}

    def emit(self) -> tuple[Any, list[Var]]:
        """Call the method; its output and the function's parameters."""
        pairs = list(zip(self.spec.arg_names, self.spec.arg_specs, strict=True))
        inputs = [self._input(name, spec) for name, spec in pairs]
        states, weights = self._states(), self._weights()
        triples = zip(pairs, inputs, strict=True)
        args = {name: self._argument(spec, var, name) for (name, spec), var in triples}
        result = _result(self.spec.method(**args))
        after = [state for _, effect in self.effects for state in effect.finalize()]
        if after and self.spec.effect_mode != "none":
            result = Tuple((result, Tuple(tuple(after))))
        return self.builder.emit_output(result), [*inputs, *states, *weights]

    def _size(self, name: str) -> SizeVar:
        return self.sizes.setdefault(name, SizeVar(name, as_dtype("int64")))

    def _input(self, name: str, spec: Any) -> Var:
        return Var(name, self._info(name, spec))

    def _info(self, name: str, spec: Any) -> Any:
        if isinstance(spec, specs.Int):
            return ShapeStructInfo((self._size(name),), 1)
        if isinstance(spec, specs.Tensor):
            return self._tensor_info(Tensor.placeholder(spec.shape, spec.dtype))
        if isinstance(spec, specs.Object):
            return ObjectStructInfo()
        fields = (self._info(f"{name}_{i}", e) for i, e in enumerate(spec.elements))
        return TupleStructInfo(tuple(fields))

    def _tensor_info(self, x: Tensor) -> Any:
        """Its struct info, where equal names are one size of this function."""
        info = x._expr.struct_info
        return substitute(info, {v: self._size(v.name) for v in symbolic_vars(info)})

    def _argument(self, spec: Any, var: Any, name: str) -> Any:
        """What the method gets: a Tensor, a size, an Object, a tuple or list of them."""
        if isinstance(spec, specs.Int):
            return self._size(name)
        if isinstance(spec, specs.Tensor):
            return Tensor(_expr=var)
        if isinstance(spec, specs.Object):
            return spec.object_type(_expr=var, _name=name)
        fields = [(f"{name}_{i}", e) for i, e in enumerate(spec.elements)]
        got = (
            self._argument(e, self.builder.emit(TupleGetItem(var, i), n), n)
            for i, (n, e) in enumerate(fields)
        )
        return type(spec.elements)(got)

    def _states(self) -> list[Var]:
        each = [(effect, effect.create(name)) for name, effect in self.effects]
        states = [state for _, own in each for state in own]
        packed = self._passed("packed_effects", states, self.spec.effect_mode)
        fields = iter(self._fields(packed, states, self.spec.effect_mode))
        for effect, own in each:
            effect.set_state([next(fields) for _ in own])
        return packed

    def _weights(self) -> list[Var]:
        weights = [Var(name, self._tensor_info(p)) for name, p in self.params]
        packed = self._passed("packed_params", weights, self.spec.param_mode)
        fields = self._fields(packed, weights, self.spec.param_mode)
        for (_, parameter), var in zip(self.params, fields, strict=True):
            parameter._expr = var
        return packed

    def _passed(self, name: str, each: list[Var], mode: str) -> list[Var]:
        """The function's parameters for these values: each, a tuple of them, or none."""
        if mode == "packed":
            fields: Any = tuple(v.struct_info for v in each)
            return [Var(name, TupleStructInfo(fields))]
        return each if mode == "plain" else []

    def _fields(self, packed: list[Var], each: list[Var], mode: str) -> list[Any]:
        """The values, out of the tuple where there is one."""
        if mode != "packed":
            return each
        items = ((TupleGetItem(packed[0], i), v.name_hint) for i, v in enumerate(each))
        return [self.builder.emit(item, name) for item, name in items]


def _result(value: Any) -> Any:
    if isinstance(value, Tensor | Object):
        return value._expr
    if isinstance(value, list | tuple):
        return Tuple(tuple(map(_result, value)))
    if isinstance(value, Expr) and not isinstance(value, PrimExpr):
        return value
    raise ArgumentError(
        f"Unsupported return type: {type(value).__name__}",
        hint="a method returns Tensors, Objects, or tuples and lists of them",
    )
