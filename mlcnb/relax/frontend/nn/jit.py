"""jit: an nn.Module with numbers, compiled, that takes and gives arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core import above
from mlcnb.core.errors import ArgumentError
from mlcnb.relax.frontend.nn import spec as specs
from mlcnb.relax.frontend.nn.exporter import Exporter
from mlcnb.runtime.device import device as as_device
from mlcnb.runtime.tensor import as_array
from mlcnb.target import Target

FORMATS = ("torch", "numpy")


def jit(module: Any, spec: Any, device: Any, pipeline: Any, out_format: str, debug: bool) -> Jitted:
    """See `Module.jit`."""
    if out_format not in FORMATS:
        raise ArgumentError(f"Unknown out_format: {out_format}", hint='"torch" or "numpy"')
    target = _target(device)
    module_spec = specs.ModuleSpec.from_raw(spec, module)
    mod, params, externs = Exporter(debug).build(module_spec)
    missing = [name for name, p in params if p.data is None]
    if missing:
        raise ArgumentError(
            f"Parameters are not set to any concrete values: {', '.join(missing)}",
            hint="module.load_state_dict(state), or parameter.data = array",
        )
    for extern in externs:
        extern.load()
    named = "default" if pipeline in ("default_build", None) else pipeline
    executable = above.ask("compile")(mod, target, relax_pipeline=named)
    return Jitted(module_spec, executable, [p.data for _, p in params], out_format)


def _target(device: Any) -> Target | None:
    """What to compile for; None is the current target, or this CPU."""
    if isinstance(device, Target):
        return device
    if isinstance(device, str) and device.split()[0] == "cuda-sim":
        return Target(device)
    where = as_device(device)
    if where.index:
        raise ArgumentError(f"jit: graphs run on the first device, not on {where}")
    return None if where.kind == "cpu" else Target(where.kind)


class Jitted:
    """A compiled module: `jitted["forward"](x)`; `jitted(x)` is `jitted["forward"](x)`.

    Effects (a cache, what is printed) go on from call to call.
    """

    def __init__(self, spec: Any, executable: Any, params: list[Any], out_format: str) -> None:
        self.spec = spec
        self.executable = executable
        self.params = tuple(p.numpy() for p in params)
        self.out_format = out_format
        names = {key.name_hint for key in executable.mod.functions}
        has_effects = "_initialize_effect" in names
        self.effects = tuple(executable["_initialize_effect"]()) if has_effects else ()

    def __call__(self, *args: Any) -> Any:
        """`self["forward"](*args)`."""
        return self["forward"](*args)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The method of that name.

        Raises:
            ArgumentError: it was not exported.
        """
        method = self.spec[name]

        def run(*args: Any) -> Any:
            _check_count(name, method, args)
            pairs = zip(method.arg_names, method.arg_specs, args, strict=True)
            given = [_input(n, s, a) for n, s, a in pairs]
            states = _passed(self.effects, method.effect_mode)
            result = self.executable[name](
                *given, *states, *_passed(self.params, method.param_mode)
            )
            if self.effects and method.effect_mode != "none":
                result, self.effects = result
            return self._output(result)

        return run

    def _output(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(map(self._output, value))
        if self.out_format == "torch" and isinstance(value, np.ndarray):
            import torch

            return torch.from_numpy(value)
        if self.out_format == "torch" and hasattr(value, "__cuda_array_interface__"):
            import torch

            return torch.from_dlpack(value)
        return value


def _check_count(name: str, method: Any, args: tuple[Any, ...]) -> None:
    if len(args) != len(method.arg_specs):
        wanted = ", ".join(method.arg_names) or "none"
        raise ArgumentError(
            f"{name} takes {len(method.arg_specs)} arguments ({wanted}), got {len(args)}"
        )


def _passed(values: tuple[Any, ...], mode: str) -> tuple[Any, ...]:
    if mode == "packed":
        return (values,)
    return values if mode == "plain" else ()


def _input(name: str, spec: Any, value: Any) -> Any:
    """An argument as the executable takes it: arrays, (n,) for an integer, tuples."""
    if isinstance(spec, specs.Int):
        return (int(value),)
    if isinstance(spec, specs.Tensor):
        on_the_gpu = hasattr(value, "__cuda_array_interface__")
        return value if on_the_gpu else as_array(value, name)
    if isinstance(spec, specs.Tuple):
        pairs = enumerate(zip(spec.elements, value, strict=True))
        return tuple(_input(f"{name}_{i}", s, v) for i, (s, v) in pairs)
    return value
