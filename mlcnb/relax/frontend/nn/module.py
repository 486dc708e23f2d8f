"""Module: a part of a model, made of parameters, modules and effects as its attributes.

class MLP(nn.Module):
    def __init__(self):
        self.fc1 = nn.Linear(784, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        return self.fc2(nn.op.relu(self.fc1(x)))

mod, params = MLP().export_tvm({"forward": {"x": nn.spec.Tensor((1, 784), "float32")}})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.relax.frontend.nn.subroutine import SubroutineMixin
from mlcnb.relax.frontend.nn.tensor import Effect, Parameter


class Module(SubroutineMixin, display.Shown):
    """Base of every part of a model; as TVM's `nn.Module`. Parts are found among the attributes."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Path ("layers.0.weight") and parameter, in the order in which they were set."""
        yield from find(self, prefix, lambda part: isinstance(part, Parameter))

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of `named_parameters`."""
        for _, parameter in self.named_parameters():
            yield parameter

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:
        """Path -> parameter, put into `destination` where one is given."""
        state = {} if destination is None else destination
        state.update(self.named_parameters(prefix))
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Take numbers for the parameters; if anything is wrong, none is taken.

        Args:
            state_dict: path -> Parameter with numbers, array, or tensor (a `state_dict()` of torch
                will do).
            strict: refuse missing and unexpected paths.

        Returns:
            Missing and unexpected paths.

        Raises:
            ArgumentError: paths differ and `strict`; a Parameter without numbers; a wrong shape or
                dtype.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            raise ArgumentError(
                f"Missing keys: {missing}, Unexpected keys: {unexpected}",
                hint="load_state_dict(state, strict=False) takes what fits and gives back the rest",
            )
        before = {name: own[name].data for name in own}
        try:
            for name in own:
                if name in state_dict:
                    _take(name, own[name], state_dict[name])
        except MLCError:
            for name, parameter in own.items():
                parameter.data = before[name]
            raise
        return missing, unexpected

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`forward(*args, **kwargs)`."""
        forward = getattr(self, "forward", None)
        if forward is None:
            raise NotImplementedError(f"{type(self).__name__} has no method `forward`")
        return forward(*args, **kwargs)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of every parameter below; none may have numbers yet."""
        for _, part in parts_of(self):
            if isinstance(part, Module | Parameter | Effect):
                part.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def export_tvm(self, spec: Any, debug: bool = False, allow_extern: bool = False) -> Any:
        """The module as an IRModule, one graph function for each method of `spec`.

        Args:
            spec: method -> argument -> `nn.spec.Tensor`, `int`, …, or an `nn.spec.ModuleSpec`.
            debug: effects such as `op.print_` are allowed; `_initialize_effect` makes the first
                state, which each function takes after its inputs and returns beside its result.
            allow_extern: give the `ExternModule`s that were added too.

        Returns:
            The IRModule and a list of (path, Parameter): the functions' last parameters; and with
            `allow_extern` a list of ExternModules.

        Raises:
            ArgumentError: `spec` does not fit; ExternModules were added and are not allowed.
        """
        from mlcnb.relax.frontend.nn.exporter import Exporter
        from mlcnb.relax.frontend.nn.spec import ModuleSpec

        mod, params, externs = Exporter(debug).build(ModuleSpec.from_raw(spec, self))
        if allow_extern:
            return mod, params, externs
        if externs:
            raise ArgumentError(
                "`ExternModule`(s) exist when they are not allowed",
                hint="export_tvm(spec, allow_extern=True)",
            )
        return mod, params

    def jit(
        self,
        spec: Any,
        device: Any = "cpu",
        pipeline: Any = "default",
        out_format: str = "torch",
        debug: bool = False,
    ) -> Any:
        """Compile the module with its numbers; `jitted["forward"](x)` runs.

        Args:
            spec: as for `export_tvm`.
            device: "cpu", "cuda", "cuda-sim" (a GPU simulated on this CPU), a Device or a Target.
            pipeline: the name of a graph pipeline, or a pass ("default_build" is "default").
            out_format: "torch" or "numpy": what it takes and gives.
            debug: as for `export_tvm`.

        Raises:
            ArgumentError: parameters without numbers; an unknown format.
        """
        from mlcnb.relax.frontend.nn.jit import jit

        return jit(self, spec, device, pipeline, out_format, debug)


def _take(name: str, parameter: Parameter, value: Any) -> None:
    """Bind numbers; an error names the parameter."""
    if isinstance(value, Parameter) and value.data is None:
        raise ArgumentError(f"Parameter {name} is not set to any concrete tensor")
    try:
        parameter.data = value.data if isinstance(value, Parameter) else value
    except MLCError as error:
        raise ArgumentError(f"{name}: {error.message}", hint=error.hint) from None


def parts_of(module: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of what a module holds: its attributes, or the items of a container."""
    own = getattr(module, "named_items", None)
    yield from (own() if own is not None else module.__dict__.items())


def find(root: Module, prefix: str, wanted: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Path and value of everything below `root` that is wanted; a wanted thing is not entered."""
    for name, part in parts_of(root):
        if wanted(part):
            yield prefix + name, part
        elif isinstance(part, Module):
            yield from find(part, f"{prefix}{name}.", wanted)


class ModuleList(Module):
    """Modules in a row; called, each takes the result of the one before."""

    def __init__(self, modules: Any = ()) -> None:
        self.modules: list[Module] = list(modules)

    def named_items(self) -> Iterator[tuple[str, Module]]:
        """Number as text, and module."""
        return ((str(i), module) for i, module in enumerate(self.modules))

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, index: Any) -> Any:
        found = self.modules[index]
        return type(self)(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, module: Module) -> None:
        self.modules[index] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Put a module at the end."""
        self.modules.append(module)

    def forward(self, x: Any) -> Any:
        """x through all modules, one after another."""
        for module in self.modules:
            x = module(x)
        return x


class Sequential(ModuleList):
    """`Sequential(a, b, c)`, or of one list: modules one after another."""

    def __init__(self, *modules: Any) -> None:
        one = len(modules) == 1 and not isinstance(modules[0], Module)
        super().__init__(modules[0] if one else modules)

    def __getitem__(self, index: Any) -> Any:
        found = self.modules[index]
        return Sequential(*found) if isinstance(index, slice) else found


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.modules: dict[str, Module] = dict(modules or {})

    def named_items(self) -> Iterator[tuple[str, Module]]:
        """Name and module."""
        return iter(self.modules.items())

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def __getitem__(self, key: str) -> Module:
        return self.modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.modules[key] = module

    def __contains__(self, key: str) -> bool:
        return key in self.modules

    def __len__(self) -> int:
        return len(self.modules)

    def keys(self) -> Any:
        """The names."""
        return self.modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self.modules.values()

    def items(self) -> Any:
        """Pairs of name and module."""
        return self.modules.items()

    def get(self, key: str, default: Module | None = None) -> Module | None:
        """The module of that name, or `default`."""
        return self.modules.get(key, default)

    def update(self, modules: Mapping[str, Module]) -> None:
        """Take more modules."""
        self.modules.update(modules)

    def pop(self, key: str) -> Module:
        """Take a module out."""
        return self.modules.pop(key)

    def clear(self) -> None:
        """Take all modules out."""
        self.modules.clear()


class ParameterList(ModuleList):
    """Parameters in a row: `weights.0`, `weights.1`, …"""

    def __init__(self, parameters: Any = ()) -> None:
        super().__init__(parameters)

    def extend(self, parameters: Any) -> None:
        """Put parameters at the end."""
        self.modules.extend(parameters)

    def forward(self, x: Any) -> Any:
        """Not there: parameters are read, not called."""
        raise NotImplementedError("a ParameterList is not called", x)


class ParameterDict(ModuleDict):
    """Parameters by name: `weights.first`, `weights.second`, …"""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__(parameters)
