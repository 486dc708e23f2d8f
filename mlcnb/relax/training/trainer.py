"""Trainer: runs what SetupTrainer made, and keeps the parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.analysis.struct_info import static_shape
from mlcnb.relax.expr import Var
from mlcnb.relax.training.utils import ADJOINT, BACKBONE, STEP
from mlcnb.runtime.tensor import Tensor, tensor


class Trainer:
    """Parameters and states of a model, and steps that train them.

    train_mod: what SetupTrainer gave; vm: a VirtualMachine of it, built; device: where the arrays
    lie. zero_init_param_state: begin with zeros, else `load_params` and `load_states` come first.
    """

    def __init__(
        self, train_mod: IRModule, vm: Any, device: Any = None, zero_init_param_state: bool = True
    ) -> None:
        func: Any = train_mod[BACKBONE]
        names = ("input_num", "param_num", "state_num")
        numbers = [as_int(train_mod.attrs.get(name)) for name in names]
        if None in numbers or "optim_state" not in train_mod.attrs:
            raise RuntimeInputError("Trainer: this module does not train", hint="SetupTrainer(…)")
        inputs, params, states = (int(n) for n in numbers if n is not None)
        self.mod, self.vm, self.device = train_mod, vm, device
        self._inputs = inputs
        self._param_vars: Sequence[Var] = func.params[inputs : inputs + params]
        self._state_vars: Sequence[Var] = func.params[inputs + params : inputs + params + states]
        self._optim_states: Any = tuple(train_mod.attrs["optim_state"])
        self._params: list[Any] | None = None
        self._states: list[Any] | None = None if states else []
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    def xaiver_uniform_init_params(self) -> None:
        """Parameters between -a and a, a = sqrt(6 / (fan in + fan out)); vectors are zeros.

        Source: Glorot and Bengio 2010. The spelling is TVM's. Draws from NumPy's default generator.
        """
        rng = np.random.default_rng()
        self._params = [self._tensor(_glorot(rng, v)) for v in self._param_vars]

    xavier_uniform_init_params = xaiver_uniform_init_params

    def zero_init_params(self) -> None:
        """All parameters are zeros."""
        self._params = [self._tensor(_zeros(v)) for v in self._param_vars]

    def zero_init_states(self) -> None:
        """All states are zeros."""
        self._states = [self._tensor(_zeros(v)) for v in self._state_vars]

    def load_params(self, params: Any) -> None:
        """Parameters in order, or by name.

        Raises:
            RuntimeInputError: one is missing, or of another shape or dtype.
        """
        self._params = self._loaded(params, self._param_vars, "parameter")

    def load_states(self, states: Any) -> None:
        """States in order, or by name; refused as `load_params`."""
        self._states = self._loaded(states, self._state_vars, "state")

    def export_params(self) -> dict[str, Any]:
        """The parameters as they are now, by name."""
        return _named(self._param_vars, self._ready(self._params, "parameters"))

    def export_states(self) -> dict[str, Any]:
        """The states as they are now, by name."""
        return _named(self._state_vars, self._ready(self._states, "states"))

    def predict(self, *input_instances: Any) -> Any:
        """What the model gives for inputs, without its states."""
        result = self.vm[BACKBONE](*input_instances, *self._held())
        if not self._state_vars:
            return result
        rest = tuple(result)[: len(result) - len(self._state_vars)]
        return rest[0] if len(rest) == 1 else rest

    def update(self, input_instances: Any, targets: Any) -> Any:
        """One step on a batch: a list of inputs and a list of targets, or one of each.

        Returns the loss before the step, an array of shape ().
        """
        args = (*_listed(input_instances), *self._held(), *_listed(targets))
        result, gradients = self.vm[ADJOINT](*args)
        count = len(self._state_vars)
        loss, new = (result[0], list(result[-count:])) if count else (_first(result), [])
        params = tuple(self._ready(self._params, "parameters"))
        made = self.vm[STEP](params, tuple(gradients), self._optim_states)
        self._params, self._optim_states = list(made[0]), tuple(made[1])
        self._states = new
        return loss

    def profile_adjoint(self, input_instances: Any, targets: Any) -> Any:
        """The time of each kernel on the way there and back (`mlcnb.profile`)."""
        args = (*_listed(input_instances), *self._held(), *_listed(targets))
        return self.vm.profile(ADJOINT, *args)

    def _held(self) -> list[Any]:
        return [*self._ready(self._params, "parameters"), *self._ready(self._states, "states")]

    def _ready(self, values: list[Any] | None, what: str) -> list[Any]:
        if values is None:
            raise RuntimeInputError(
                f"Trainer: there are no {what} yet", hint=f"load_{what[:5]}s(…) or zero_init_…"
            )
        return values

    def _loaded(self, given: Any, names: Sequence[Var], word: str) -> list[Any]:
        if isinstance(given, Mapping):
            missing = next((v.name_hint for v in names if v.name_hint not in given), None)
            if missing is not None:
                raise RuntimeInputError(f"Trainer: {word} {missing} is missing")
            given = [given[v.name_hint] for v in names]
        if len(given) != len(names):
            raise RuntimeInputError(f"Trainer: {len(given)} {word}s are given, not {len(names)}")
        for value, var in zip(given, names, strict=True):
            info: Any = var.struct_info
            if tuple(value.shape) != static_shape(info) or str(value.dtype) != str(info.dtype):
                raise RuntimeInputError(
                    f"Trainer: {word} {var.name_hint} is {info}, not {value.dtype} of shape "
                    f"{tuple(value.shape)}"
                )
        return [v if isinstance(v, Tensor) else self._tensor(v) for v in given]

    def _tensor(self, array: Any) -> Any:
        return tensor(array, self.device)


def _listed(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list | tuple) else result


def _named(names: Sequence[Var], values: Sequence[Any]) -> dict[str, Any]:
    return {v.name_hint: value for v, value in zip(names, values, strict=True)}


def _zeros(var: Var) -> np.ndarray:
    info: Any = var.struct_info
    shape: Any = static_shape(info)
    return np.zeros(shape, info.dtype.numpy)


def _glorot(rng: np.random.Generator, var: Var) -> np.ndarray:
    found = _zeros(var)
    if found.ndim < 2:
        return found
    field = math.prod(found.shape[2:])
    bound = math.sqrt(6 / ((found.shape[0] + found.shape[1]) * field))
    return rng.uniform(-bound, bound, found.shape).astype(found.dtype)
