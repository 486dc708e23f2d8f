"""A library's function run call by call: its own calls by the library, the rest as they mean.

The function is a `Codegen` function of RunCodegen: calls of local functions, which hold calls of
operators. What it makes is called with arrays, the results last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlcnb.relax import expr as rx
from mlcnb.relax.operator import attrs_of, call_arguments
from mlcnb.runtime.shapes import Dims, evaluate, match

#: operator -> (attributes, arrays) -> result
Calls = Mapping[str, Callable[..., Any]]


def by_calls(func: rx.Function, calls: Calls) -> Callable[..., None]:
    """A function of arrays, its results last, that runs `func`."""

    def run(*arrays: Any) -> None:
        count = len(func.params)
        result = _Frame(calls).call(func, arrays[:count])
        results = result if isinstance(result, tuple) else (result,)
        for out, made in zip(arrays[count:], results, strict=True):
            out[...] = made

    return run


class _Frame:
    """One run: values of variables, and sizes."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.values: dict[rx.Var, Any] = {}
        self.dims: Dims = {}

    def call(self, func: rx.Function, args: Any) -> Any:
        """The result of a function."""
        inner = _Frame(self.calls)
        for param, value in zip(func.params, args, strict=True):
            match(value, param.struct_info, inner.dims, param.name_hint)
            inner.values[param] = value
        for binding in func.body.bindings:
            inner.values[binding.var] = inner.value(binding.value)
        return inner.value(func.body.body)

    def value(self, x: Any) -> Any:
        """The value of an expression."""
        if isinstance(x, rx.Var):
            return self.values[x]
        if isinstance(x, rx.Constant):
            return x.data
        if isinstance(x, rx.Tuple):
            return tuple(map(self.value, x.fields))
        if isinstance(x, rx.TupleGetItem):
            return self.value(x.tuple_value)[x.index]
        if isinstance(x, rx.ShapeExpr):
            return tuple(evaluate(d, self.dims) for d in x.values)
        if isinstance(x, rx.PrimValue):
            return x.value.value  # type: ignore[attr-defined]
        return self.applied(x) if isinstance(x, rx.Call) else x

    def applied(self, x: rx.Call) -> Any:
        """The result of a call: the library's, or what the operator means."""
        if isinstance(x.op, rx.Var):
            return self.call(self.values[x.op], [self.value(a) for a in x.args])
        assert isinstance(x.op, rx.Op)
        args = [None if a is None else self.value(a) for a in call_arguments(x)]
        own = self.calls.get(x.op.name)
        made = attrs_of(x).numpy(*args) if own is None else own(attrs_of(x), *args)
        return np.asarray(made) if isinstance(made, np.generic) else made
