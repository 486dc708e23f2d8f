"""What a module is exported for: its methods, their arguments, which sizes are open.

{
    "prefill": {"tokens": nn.spec.Tensor([1, "seq_len"], "int32"), "total_len": int},
    "decode": {"tokens": nn.spec.Tensor([1, 1], "int32"), "total_len": int, "$": {…modes…}},
}

A name in a shape is an open size; equal names in one method are one size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.text import suggestion
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.relax.frontend.nn.tensor import Object as GraphObject
from mlcnb.relax.frontend.nn.tensor import size_of

#: how a method takes its parameters or effects: each by itself, in one tuple, not at all
MODES = ("plain", "packed", "none")


class Int:
    """An integer, which is a size of the graph (int64)."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """A tensor: shape (integers, symbolic sizes, names of open sizes) and dtype.

    Raises:
        ArgumentError: something in the shape is no dimension.
    """

    def __init__(self, shape: Sequence[Any], dtype: str) -> None:
        for dim in shape:
            size_of(dim)
        self.shape = list(shape)
        self.dtype = str(as_dtype(dtype))

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Object:
    """A value that is no tensor.

    object_type: the class that wraps it, `nn.Object` or one that derives from it.
    """

    def __init__(self, object_type: type = GraphObject) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return "object"


class Tuple:
    """A tuple or list of arguments.

    name: what its elements' names begin with.
    elements: a tuple or list of specs.
    """

    def __init__(self, name: str, elements: Any) -> None:
        if not isinstance(elements, list | tuple):
            raise ArgumentError(f"spec.Tuple {name}: {type(elements).__name__} is no list or tuple")
        self.name = name
        self.elements = elements

    def __repr__(self) -> str:
        return repr(self.elements)


class MethodSpec:
    """A method and what it is called with.

    Args:
        method: the bound method.
        arg_names: arguments that are given.
        arg_specs: what each of them is.
        param_mode: how parameters are passed, one of MODES.
        effect_mode: how effects are passed, one of MODES.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        arg_names: Sequence[str],
        arg_specs: Sequence[Any],
        param_mode: str = "plain",
        effect_mode: str = "plain",
    ) -> None:
        for what, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if mode not in MODES:
                raise ArgumentError(f"Invalid {what}: {mode}", hint=f"one of {', '.join(MODES)}")
        self.method = method
        self.arg_names = list(arg_names)
        self.arg_specs = list(arg_specs)
        self.param_mode = param_mode
        self.effect_mode = effect_mode

    def described(self, name: str) -> str:
        """`name(x: Tensor([1, n], 'float32'))`."""
        pairs = zip(self.arg_names, self.arg_specs, strict=True)
        return f"{name}({', '.join(f'{n}: {s!r}' for n, s in pairs)})"

    def __repr__(self) -> str:
        return self.described("MethodSpec")

    @staticmethod
    def from_raw(spec: Any, method: Callable[..., Any]) -> MethodSpec:
        """From a dict: argument -> spec; "$" -> {"param_mode": …, "effect_mode": …}.

        Raises:
            ArgumentError: an argument that the method does not have, one that it needs and that is
                missing, or something that is no spec.
        """
        if isinstance(spec, MethodSpec):
            return spec
        modes = spec.get("$", {})
        given = {name: s for name, s in spec.items() if name != "$"}
        _check_names(getattr(method, "__name__", "method"), inspect.signature(method), given)
        order = [n for n in inspect.signature(method).parameters if n in given]
        names = order + [n for n in given if n not in order]
        specs = [as_spec(given[n], n) for n in names]
        return MethodSpec(method, names, specs, **modes)

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """From example arguments: tensors (with `shape` and `dtype`) and integers."""
        names = list(inspect.signature(method).parameters)[: len(args)]
        specs = [_of_example(name, arg) for name, arg in zip(names, args, strict=True)]
        return MethodSpec(method, names, specs)


def as_spec(given: Any, name: str) -> Any:
    """One argument's spec in its own form.

    Raises:
        ArgumentError: it is none.
    """
    if given is int or given is Int or given == "int":
        return Int()
    if isinstance(given, Int | Tensor | Object):
        return given
    elements = given.elements if isinstance(given, Tuple) else given
    if isinstance(elements, list | tuple):
        fields = (as_spec(e, f"{name}_{i}") for i, e in enumerate(elements))
        return Tuple(name, type(elements)(fields))
    raise ArgumentError(
        f"Invalid spec for argument {name}: {given!r}",
        hint="nn.spec.Tensor(shape, dtype), int, nn.spec.Object(…), or a tuple of them",
    )


def _check_names(method: str, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    known = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for name in given:
        if name not in known and not takes_any:
            near = suggestion(name, known)
            raise ArgumentError(
                f"spec: {method}{signature} has no argument {name!r}{f': {near}' if near else ''}"
            )
    for name, p in known.items():
        needed = p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if needed and name not in given:
            raise ArgumentError(
                f"spec: {method} needs the argument {name!r}",
                hint=f'{{"{method}": {{"{name}": nn.spec.Tensor(shape, dtype), …}}}}',
            )


def _of_example(name: str, arg: Any) -> Any:
    if isinstance(arg, int):
        return Int()
    if hasattr(arg, "shape") and hasattr(arg, "dtype"):
        return Tensor([int(d) for d in arg.shape], str(arg.dtype).removeprefix("torch."))
    raise ArgumentError(f"Invalid example for argument {name}: {arg!r}", hint="a tensor or an int")


class ModuleSpec:
    """A module and the methods that are exported of it."""

    def __init__(
        self, module: Any, method_names: Sequence[str], method_specs: Sequence[MethodSpec]
    ) -> None:
        self.module = module
        self.method_names = list(method_names)
        self.method_specs = list(method_specs)

    @staticmethod
    def from_raw(spec: Any, module: Any) -> ModuleSpec:
        """From a dict: method -> argument -> spec.

        Raises:
            ArgumentError: the module has no such method, or a method's spec does not fit.
        """
        if isinstance(spec, ModuleSpec):
            return spec
        if not isinstance(spec, Mapping) or not spec:
            raise ArgumentError(
                f"spec: {spec!r} names no method",
                hint='{"forward": {"x": nn.spec.Tensor((1, 784), "float32")}}',
            )
        specs = [MethodSpec.from_raw(s, _method(module, name)) for name, s in spec.items()]
        return ModuleSpec(module, list(spec), specs)

    def __getitem__(self, name: str) -> MethodSpec:
        if name not in self.method_names:
            known = ", ".join(self.method_names)
            raise ArgumentError(f"no method {name!r} was exported", hint=f"there are {known}")
        return self.method_specs[self.method_names.index(name)]

    def __repr__(self) -> str:
        pairs = zip(self.method_names, self.method_specs, strict=True)
        return "ModuleSpec:\n" + "\n".join(f"  {spec.described(name)}" for name, spec in pairs)


def _method(module: Any, name: str) -> Any:
    found = getattr(module, name, None)
    if callable(found):
        return found
    methods = [n for n in dir(type(module)) if not n.startswith("_")]
    near = suggestion(name, methods)
    raise ArgumentError(
        f"spec: {type(module).__name__} has no method {name!r}{f': {near}' if near else ''}"
    )
