"""BlockBuilder: writes graph functions from Python, binding by binding.

    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((n, 4), "float32"))        @R.function
    with bb.function("main", [x]):                         def main(x: R.Tensor(("n", 4), …)):
        with bb.dataflow():                                    with R.dataflow():
            lv = bb.emit(relax.op.nn.relu(x))        ->            lv = R.nn.relu(x)
            gv = bb.emit_output(relax.op.add(lv, x))               gv = R.add(lv, x)
        bb.emit_func_output(gv)                                    R.output(gv)
    mod = bb.get()                                             return gv

What is emitted is normalized: nested calls are made flat, struct infos inferred, names unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.relax import expr as rx
from mlcnb.relax.emitter import Emitter, FunctionFrame, Names, variables
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.struct_info import FuncStructInfo, StructInfo
from mlcnb.relax.te_call import call_te

_builders: list[BlockBuilder] = []


class BlockBuilder:
    """Builds a module of graph functions; as TVM's class of that name.

    Args:
        mod: a module to add to.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = mod or IRModule()
        self._table = FunctionTable(self._mod.functions)
        self._frames: list[FunctionFrame] = []
        self._emitters = [Emitter(self._table.functions, Names())]
        self._values: dict[rx.Var, Any] = {}
        #: variables of dataflow blocks, and those under which `emit_output` lets them be seen
        self._seen_as: dict[rx.Var, rx.Var] = {}

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose `function` block is open, or None."""
        return _builders[-1] if _builders else None

    # functions -----------------------------------------------------------------------------------

    @contextmanager
    def function(
        self,
        name: str,
        params: rx.Var | Sequence[rx.Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Iterator[BlockBuilder]:
        """Build a function inside the `with` block, which ends with `emit_func_output`.

        Args:
            name: its name in the module.
            params: its parameters; may be given to `emit_func_output` in their place.
            attrs: its attributes.
            pure: whether it has no effects.
            private: leave the attribute `global_symbol` out: only this module calls it.

        Raises:
            MLCError: a parameter is no Var, or the block ended without `emit_func_output`.
        """
        given = {} if private else {"global_symbol": name}
        frame = FunctionFrame(name, variables(params), {**given, **(attrs or {})}, pure)
        names = Names(p.name_hint for p in frame.params or ())
        self._frames.append(frame)
        self._emitters.append(Emitter(self._table.functions, names))
        _builders.append(self)
        try:
            yield self
            if frame.result is None:
                raise MLCError(
                    f"function {name!r} has no result",
                    hint="end the `with bb.function` block with bb.emit_func_output(value)",
                )
        finally:
            _builders.pop()
            self._emitters.pop()
            self._frames.pop()
        self._add_built(frame, frame.result)

    def _add_built(self, frame: FunctionFrame, result: rx.Function) -> None:
        key = GlobalVar(frame.name)
        known = self._table.functions.get(key)
        if known is not None and "declared" not in known.attrs:
            raise MLCError(
                f"the module has a function {frame.name!r} already",
                hint="bb.get_unique_name(name), or bb.update_func(global_var, func)",
            )
        self._table.set(key, result)

    @contextmanager
    def dataflow(self) -> Iterator[BlockBuilder]:
        """Bindings inside the `with` block form a dataflow block: pure, without control flow."""
        emitter = self._emitter("dataflow")
        if emitter.dataflow:
            raise MLCError("a dataflow block is open already", hint="dataflow blocks do not nest")
        self._close_block()
        emitter.dataflow = True
        yield self
        self._close_block()
        emitter.dataflow = False

    @contextmanager
    def testing_scope(self, def_vars: Sequence[Any] = ()) -> Iterator[BlockBuilder]:
        """A scope outside of any function, to try `emit` and `normalize`; what it binds is lost."""
        self._emitters.append(Emitter(self._table.functions, Names()))
        try:
            yield self
        finally:
            self._emitters.pop()

    @contextmanager
    def scope_of(self, names: Sequence[str]) -> Iterator[BlockBuilder]:
        """A scope for rewriting a function whose variables have these names: new ones differ.

        Inside of another one it is a part of that, and its names are its own too.
        """
        if len(self._emitters) > 1:
            for name in names:
                self._emitters[-1].names.reserve(name)
            yield self
            return
        self._emitters.append(Emitter(self._table.functions, Names(names)))
        try:
            yield self
        finally:
            self._emitters.pop()

    @property
    def emitter(self) -> Emitter:
        """What bindings go to now.

        Raises:
            MLCError: no function is being built.
        """
        return self._emitter("emitter")

    @contextmanager
    def origin(self, span: Span | None) -> Iterator[BlockBuilder]:
        """Calls emitted inside the `with` block come from `span`, unless they have their own."""
        emitter = self._emitter("origin")
        before, emitter.origin = emitter.origin, span
        try:
            yield self
        finally:
            emitter.origin = before

    def _close_block(self) -> None:
        emitter = self._emitters[-1]
        if emitter.bindings:
            kind = rx.DataflowBlock if emitter.dataflow else rx.BindingBlock
            if self._frames:
                self._frames[-1].blocks.append(kind(tuple(emitter.bindings)))
            emitter.bindings = []

    def _emitter(self, what: str) -> Emitter:
        if len(self._emitters) == 1:
            raise MLCError(
                f"BlockBuilder.{what}: no function is being built",
                hint='call it inside `with bb.function("main", params):`',
            )
        return self._emitters[-1]

    # bindings ------------------------------------------------------------------------------------

    def emit(self, expr: Any, name_hint: str = "") -> rx.Var:
        """Bind an expression to a new variable.

        Args:
            expr: the expression; nested calls become bindings before it.
            name_hint: the variable's name (lv, or gv outside of dataflow blocks, if empty).

        Raises:
            TypeInferError: the arguments of an operator do not fit.
        """
        return self._bound(self._emitter("emit").emit(_as_expr(expr), name_hint))

    def match_cast(self, value: Any, struct_info: StructInfo, name_hint: str = "") -> rx.Var:
        """Bind a value that is checked at run time to be of `struct_info`."""
        return self._bound(
            self._emitter("match_cast").match_cast(_as_expr(value), struct_info, name_hint)
        )

    def emit_output(self, output: Any, name_hint: str = "") -> rx.Var:
        """Bind a value that is seen outside of the dataflow block.

        Raises:
            MLCError: no dataflow block is open.
        """
        emitter = self._emitter("emit_output")
        if not emitter.dataflow:
            raise MLCError(
                "emit_output: no dataflow block is open",
                hint="call it inside `with bb.dataflow():`, or use emit",
            )
        given = _as_expr(output)
        made = self._bound(emitter.emit(given, name_hint, output=True))
        if isinstance(given, rx.DataflowVar):
            self._seen_as[given] = made
        return made

    def emit_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> rx.Var:
        """Bind the call of a PrimFunc made from a tensor expression.

        Args:
            func: from te tensors to a te tensor (or several).
            args: graph values become placeholders; anything else is handed on.
            primfunc_name_hint: the PrimFunc's name (the Python function's if None).
            primfunc_attrs: more attributes of the PrimFunc.
            kwargs: as args, by name.
        """
        named = {"primfunc_name_hint": primfunc_name_hint, "primfunc_attrs": primfunc_attrs}
        return self.emit(self.call_te(func, *args, **named, **kwargs))

    def call_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> rx.Call:
        """The call that `emit_te` binds; the PrimFunc is added to the module."""
        return call_te(self._emitter("call_te"), self._table, func, args, kwargs)

    def emit_te_with_grad(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> rx.Var:
        """As emit_te; arguments as of `call_te_with_grad`."""
        return self.emit(self.call_te_with_grad(func, *args, **kwargs))

    def call_te_with_grad(
        self,
        func: Callable[..., Any],
        *args: Any,
        te_grad_name: str,
        te_grad_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> rx.Call:
        """As call_te, with the name of its gradient: a `call_tir_with_grad`.

        te_grad_name: as `relax.training.utils.register_te_gradient` was told; te_grad_kwargs: what
        that function is called with besides tensors.
        """
        call = self.call_te(func, *args, **kwargs)
        given: list[Any] = [*call.args, None]
        key, tensors, scalars = given[:3]
        infos = list(call.sinfo_args)
        return rx.call_tir_with_grad(key, tensors, infos, scalars, te_grad_name, te_grad_kwargs)

    def normalize(self, expr: Any) -> Any:
        """`expr` with its parts made leaves (bound where an emitting scope is open) and struct
        info.

        Raises:
            TypeInferError: the arguments of an operator do not fit.
        """
        return self._emitters[-1].value(_as_expr(expr))

    def emit_normalized(self, binding: Any) -> None:
        """Append a binding as it is."""
        emitter = self._emitter("emit_normalized")
        emitter.bindings.append(binding)
        emitter.names.reserve(binding.var.name_hint)
        self._values[binding.var] = binding.value

    def lookup_binding(self, var: rx.Var) -> Any:
        """What a variable was bound to here, or None."""
        return self._values.get(var)

    def _bound(self, var: rx.Var) -> rx.Var:
        self._values[var] = self._emitters[-1].bindings[-1].value  # type: ignore[attr-defined]
        return var

    def emit_func_output(
        self, output: Any, params: rx.Var | Sequence[rx.Var] | None = None
    ) -> None:
        """End the function with its result: an expression, or a list or tuple of them.

        Raises:
            MLCError: it was called before, parameters were given twice or not at all, or the
                result is local to a dataflow block.
        """
        emitter = self._emitter("emit_func_output")
        if not self._frames:
            raise MLCError("emit_func_output: no function is being built")
        if emitter.dataflow:
            raise MLCError(
                "emit_func_output: the dataflow block is still open",
                hint="leave `with bb.dataflow()` first, with bb.emit_output(value)",
            )
        frame = self._frames[-1]
        if frame.result is not None:
            raise MLCError(f"function {frame.name!r} has its result already")
        if (frame.params is None) == (params is None):
            when = "nowhere" if params is None else "twice"
            raise MLCError(f"function {frame.name!r}: parameters are given {when}")
        if frame.params is None:
            frame.params = variables(params) or []
        body = emitter.leaf(self._seen(_as_expr(output)))
        frame.check(body)
        self._close_block()
        frame.finish(body)

    def _seen(self, expr: Any) -> Any:
        """A result with the outputs of dataflow blocks in the place of what they were made of."""
        if isinstance(expr, rx.Tuple):
            return rx.Tuple(tuple(map(self._seen, expr.fields)))
        return self._seen_as.get(expr, expr) if isinstance(expr, rx.DataflowVar) else expr

    # the module ----------------------------------------------------------------------------------

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function; the name is made unique, an equal PrimFunc that is there is shared."""
        if isinstance(func, rx.Function):
            return self._table.add(func, func_name)
        return self._table.add_shared(func, func_name)

    def update_func(self, gv: GlobalVar, updated_func: BaseFunc) -> None:
        """Put a function in place of the one that `gv` names."""
        self._table.set(gv, updated_func)

    def remove_func(self, gv: GlobalVar) -> None:
        """Take a function out of the module; its name is free again."""
        self._table.remove([gv])

    def get_unique_global_name(self, name_prefix: str) -> str:
        """A function name that is free in the module."""
        return self._table.free_name(name_prefix)

    def current_block_is_dataflow(self) -> bool:
        """True inside `with bb.dataflow()`."""
        return self._emitters[-1].dataflow

    def declare(self, name: str, struct_info: FuncStructInfo) -> GlobalVar:
        """The GlobalVar of a function that will be built: what recursion calls."""
        key = GlobalVar(name)
        self._table.set(key, _declared(struct_info))
        return key

    def get_unique_name(self, name_prefix: str) -> str:
        """A variable name that is free in the function being built."""
        return self._emitters[-1].names.fresh(name_prefix)

    def get(self) -> IRModule:
        """The module as built so far."""
        return self._table.module(self._mod)

    def finalize(self) -> IRModule:
        """The module; TVM's spelling for the end of building."""
        return self.get()


def _declared(info: FuncStructInfo) -> rx.Function:
    params = tuple(rx.Var(f"p{i}", p) for i, p in enumerate(info.params or ()))
    attrs = FrozenDict({"declared": True})
    return rx.Function(params, rx.SeqExpr((), rx.Tuple(())), info.ret, info.purity, attrs)


def _as_expr(value: Any) -> Any:
    return rx.Tuple(tuple(map(_as_expr, value))) if isinstance(value, list | tuple) else value
