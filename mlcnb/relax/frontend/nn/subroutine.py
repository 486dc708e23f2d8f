"""SubroutineMixin: a class whose `forward` becomes a function of its own.

    class Block(nn.Module):                      def block(x, weight): …        (private)
        define_subroutine = True            ->
        def forward(self, x): …                  def forward(x, a_weight, b_weight):
                                                     block_output = block(x, a_weight)
    Block() twice in a model                         block_output1 = block(block_output, b_weight)

Functions that come out equal are kept once, so what differs between two objects (sizes, dtypes,
options) makes two functions.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from mlcnb.core.errors import ArgumentError
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as SizeVar
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.struct_info import substitute, symbolic_vars
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Call, Expr, Tuple, Var
from mlcnb.relax.frontend.nn import tensor as values

#: what each builder has been given so far: its subroutines
_made: WeakKeyDictionary[BlockBuilder, list[GlobalVar]] = WeakKeyDictionary()


class SubroutineMixin:
    """Makes `forward` a function of its own in classes that set `define_subroutine`."""

    define_subroutine: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        forward = cls.__dict__.get("forward")
        if forward is not None and not getattr(forward, "_dispatches", False):
            cls.forward = _dispatching(forward)  # type: ignore[attr-defined]


def _dispatching(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def dispatch(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.define_subroutine:
            return forward(self, *args, **kwargs)
        bound = inspect.signature(forward).bind(self, *args, **kwargs)
        given = dict(list(bound.arguments.items())[1:])
        return _call_subroutine(self, forward, given)

    dispatch._dispatches = True  # type: ignore[attr-defined]
    return dispatch


def _call_subroutine(module: Any, forward: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Emit the call of the function that `forward` makes of these arguments."""
    builder = values.builder(type(module).__name__)
    name = _snake_case(type(module).__name__)
    exprs = [_expression(name, n, v) for n, v in given.items()]
    params = [p._expr for p in module.parameters()]
    key, is_tensor = _define(builder, name, module, forward, given)
    made = builder.emit(Call(key, (*exprs, *params)), f"{name}_output")
    return values.Tensor(_expr=made) if is_tensor else values.wrap_nested(made, f"{name}_output")


def _expression(name: str, arg: str, value: Any) -> Any:
    found = values.unwrap(value)
    made = Tuple(tuple(found)) if isinstance(found, list | tuple) else found
    if isinstance(made, Expr) and made.struct_info is not None:
        return made
    raise ArgumentError(
        f"{name}: a subroutine takes tensors, and {arg} is {value!r}",
        hint="make it an attribute of the module, or leave define_subroutine out",
    )


def _define(
    builder: BlockBuilder,
    name: str,
    module: Any,
    forward: Callable[..., Any],
    given: Mapping[str, Any],
) -> tuple[GlobalVar, bool]:
    """The function's name in the module, and whether it returns one Tensor."""
    sizes: dict[SizeVar, SizeVar] = {}
    args = [_fresh(n, _expression(name, n, v).struct_info, sizes) for n, v in given.items()]
    named = list(module.named_parameters())
    weights = [_fresh(n, p._expr.struct_info, sizes) for n, p in named]
    key = GlobalVar(builder.get_unique_global_name(name))
    is_dataflow = builder.current_block_is_dataflow()
    with (
        builder.function(key.name_hint, [*args, *weights], private=True),
        values.kept_expressions([p for _, p in named]),
    ):
        for (_, parameter), variable in zip(named, weights, strict=True):
            parameter._expr = variable
        with builder.dataflow() if is_dataflow else nullcontext():
            pairs = zip(args, given.values(), strict=True)
            out = forward(module, *(_like(var, value) for var, value in pairs))
            result = values.unwrap(out)
            result = builder.emit_output(result) if is_dataflow else result
        builder.emit_func_output(result)
    return _kept_once(builder, key), isinstance(out, values.Tensor)


def _fresh(name: str, info: Any, sizes: dict[SizeVar, SizeVar]) -> Var:
    """A parameter of the subroutine, its symbolic sizes its own."""
    for var in symbolic_vars(info):
        sizes.setdefault(var, SizeVar(var.name, var.dtype))
    return Var(name, substitute(info, sizes))


def _like(var: Any, value: Any) -> Any:
    """What stands for `value` inside: the same class around the parameter."""
    if isinstance(value, values.Tensor):
        return values.Tensor(_expr=var)
    if isinstance(value, values.Object):
        return type(value)(_expr=var, _name=var.name_hint)
    if isinstance(value, list | tuple):
        return type(value)(values.wrap_nested(var, var.name_hint))
    return var


def _kept_once(builder: BlockBuilder, key: GlobalVar) -> GlobalVar:
    """`key`, or an equal function that was there before it."""
    functions = builder.get().functions
    known = _made.setdefault(builder, [])
    for other in known:
        if other in functions and structural_equal(functions[other], functions[key]):
            builder.remove_func(key)
            return other
    known.append(key)
    return key


def _snake_case(name: str) -> str:
    """CamelCase as snake_case; a run of capitals is one word: `MLPBlock` -> `mlp_block`."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+", name)
    return "_".join(words).lower() or name.lower()
