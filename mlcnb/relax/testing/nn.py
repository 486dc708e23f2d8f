"""Modules that write themselves into the current BlockBuilder, as TVM's `relax.testing.nn`.

    with bb.function("main"):
        x = nn.Placeholder((2, 4), name="data")
        y = nn.Linear(4, 3)(x)
        bb.emit_func_output(y, params=[x, *model.parameters()])

`relax.frontend.nn` is the way to write models; this one is for tests of the graph level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb.compat import topi
from mlcnb.core.errors import MLCError, OperatorArgumentError
from mlcnb.relax.analysis.struct_info import static_shape
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.runtime.tensor import tensor


def emit(expr: Any, name_hint: str = "") -> Var:
    """Bind an expression in the current builder."""
    return _builder().emit(expr, name_hint=name_hint)


def emit_te(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
    """Bind the call of a tensor expression in the current builder."""
    return _builder().emit_te(func, *args, **kwargs)


def _builder() -> BlockBuilder:
    builder = BlockBuilder.current()
    if builder is None:
        raise MLCError("no BlockBuilder is building a function", hint="with bb.function(name):")
    return builder


def _variable(shape: Sequence[Any], dtype: str, name: str) -> Var:
    if not isinstance(shape, list | tuple):
        raise OperatorArgumentError(f"the shape of {name} is a list or a tuple, not {shape!r}")
    builder = BlockBuilder.current()
    unique = name if builder is None else builder.get_unique_name(name)
    return Var(unique, tensor_info(shape, dtype))


def Placeholder(shape: Sequence[Any], dtype: str = "float32", name: str = "data") -> Var:
    """A variable for an input."""
    return _variable(shape, dtype, name)


#: variables that `Parameter` made
_parameters: set[Var] = set()


def Parameter(shape: Sequence[Any], dtype: str = "float32", name: str = "param") -> Var:
    """A variable for a weight, which its module knows of."""
    made = _variable(shape, dtype, name)
    _parameters.add(made)
    return made


class Module:
    """Base of modules: a subclass defines `forward`."""

    def parameters(self) -> list[Var]:
        """The weights of the module and of those in it."""
        return _weights(self.__dict__)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module does."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`forward`"""
        return self.forward(*args, **kwargs)


def _weights(value: Any) -> list[Var]:
    if isinstance(value, Var):
        return [value] if value in _parameters else []
    if isinstance(value, Module):
        return value.parameters()
    if isinstance(value, dict):
        return [w for v in value.values() for w in _weights(v)]
    if isinstance(value, list | tuple):
        return [w for v in value for w in _weights(v)]
    return []


def init_params(mod: Any) -> list[Any]:
    """Zeros for all parameters of main whose names do not begin with `data`.

    Raises:
        OperatorArgumentError: the shape of one is not known.
    """
    made = []
    for param in mod["main"].params:
        if param.name_hint.startswith("data"):
            continue
        shape = static_shape(param.struct_info)
        if shape is None:
            raise OperatorArgumentError(f"the shape of {param.name_hint} is not known")
        made.append(tensor(np.zeros(shape, np.float32)))
    return made


class Sequential(Module):
    """Modules one after the other."""

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def forward(self, input: Any) -> Any:
        """Each on what the one before gave."""
        for module in self.modules:
            input = module(input)
        return input


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, input: Any) -> Var:
        """Element by element."""
        return emit_te(topi.nn.relu, input)


class LogSoftmax(Module):
    """log(softmax(x)) along the last axis."""

    def forward(self, input: Any) -> Var:
        """Along the last axis."""
        return emit_te(topi.nn.log_softmax, input)


class Linear(Module):
    """x @ weight + bias; weight: (in_features, out_features)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input: Any) -> Var:
        """A product of matrices."""
        y = emit_te(topi.matmul, input, self.weight)
        return y if self.bias is None else emit_te(topi.add, y, self.bias)
