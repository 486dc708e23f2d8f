"""Optimizers: graph functions from parameters, gradients and a state to new ones.

opt = SGD(0.1).init([w, b])          @R.function
opt.get_function()                   def SGD(params, gradients, optim_states):
                                         …
                                         return (params_new, optim_states_new)

opt.state holds the first state: the number of steps (int64), then what the optimizer keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import ArgumentError
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import static_shape
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Expr, Function, Tuple, TupleGetItem, Var, const, tensor_info
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.runtime.tensor import tensor


class Optimizer:
    """Base of optimizers: `init` says for which parameters, `get_function` gives the step.

    All parameters have one float dtype and static shapes; the numbers of an optimizer, its learning
    rate among them, are constants of the function.
    """

    #: how many scalars the state has after the number of steps
    _scalars = 0
    #: how many tensors it has for each parameter
    _moments = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.param_list: list[Var] = []
        self.state: Any = None
        self.dtype = ""

    def init(self, params: Any) -> Optimizer:
        """Say which parameters, a variable or a list of them; the state begins anew.

        Raises:
            ArgumentError: a parameter is no tensor of static shape and float dtype, is there twice,
                or is of another dtype than the first.
        """
        given = [params] if isinstance(params, Var) else list(params)
        self.param_list, self.dtype = given, _common_dtype(self.name, given)
        self.state = self._first_state()
        return self

    def get_function(self) -> Function:
        """The step: tuples (parameters, gradients, state) to (parameters, state).

        Raises:
            ArgumentError: `init` was not called.
        """
        if self.state is None:
            raise ArgumentError(f"{self.name} knows no parameters yet", hint="init(params) first")
        infos = TupleStructInfo(tuple(p.struct_info for p in self.param_list))  # type: ignore[misc]
        held = TupleStructInfo(tuple(tensor_info(s.shape, str(s.dtype)) for s in self.state))
        names = ("params", "gradients", "optim_states")
        params, gradients, states = map(Var, names, (infos, infos, held))
        bb = BlockBuilder()
        with bb.function(self.name, [params, gradients, states]):
            with bb.dataflow():
                made = self._step(bb, params, gradients, states)
                results = [
                    bb.emit_output(Tuple(tuple(part)), f"{name}_new")
                    for part, name in zip(made, ("params", "optim_states"), strict=True)
                ]
            bb.emit_func_output(results)
        found: Any = bb.get()[self.name]
        return found

    def _first_state(self) -> tuple[Any, ...]:
        arrays = [np.zeros((), "int64"), *(np.ones((), self.dtype) for _ in range(self._scalars))]
        for _ in range(self._moments):
            shapes: list[Any] = [static_shape(p.struct_info) for p in self.param_list]
            arrays += [np.zeros(shape, self.dtype) for shape in shapes]
        return tuple(map(tensor, arrays))

    def _step(
        self, bb: BlockBuilder, params: Var, gradients: Var, states: Var
    ) -> tuple[list[Expr], list[Expr]]:
        """The new parameters, and the new state."""
        steps = bb.emit(op.add(_item(bb, states, 0), const(1, "int64")), "num_steps_new")
        scalars = [bb.emit(self._scalar(i, _item(bb, states, 1 + i))) for i in range(self._scalars)]
        made: list[Expr] = []
        count, first = len(self.param_list), 1 + self._scalars
        moments: list[list[Expr]] = [[] for _ in range(self._moments)]
        for at, param in enumerate(self.param_list):
            p, g = _item(bb, params, at, param.name_hint), _item(bb, gradients, at)
            kept = [_item(bb, states, first + count * i + at) for i in range(self._moments)]
            new, held = self._update(bb, p, g, kept, scalars)
            made.append(bb.emit(new, f"{param.name_hint}_new"))
            for each, value in zip(moments, held, strict=True):
                each.append(value)
        return made, [steps, *scalars, *(m for each in moments for m in each)]

    def _scalar(self, number: int, old: Expr) -> Expr:
        """The new value of a scalar of the state."""
        raise NotImplementedError

    def _update(
        self, bb: BlockBuilder, p: Expr, g: Expr, kept: list[Var], scalars: list[Var]
    ) -> tuple[Expr, list[Expr]]:
        """The new parameter, and what is kept for it."""
        raise NotImplementedError

    def _times(self, bb: BlockBuilder, number: float, x: Expr) -> Expr:
        return x if number == 1 else bb.emit(op.multiply(const(number, self.dtype), x))

    def _decayed(self, bb: BlockBuilder, p: Expr, g: Expr, decay: float) -> Expr:
        """The gradient of the loss and of decay / 2 * p * p."""
        return bb.emit(op.add(self._times(bb, decay, p), g)) if decay else g


def _item(bb: BlockBuilder, whole: Var, index: int, name: str = "") -> Var:
    return bb.emit(TupleGetItem(whole, index), name)


def _common_dtype(name: str, params: list[Any]) -> str:
    if not params:
        raise ArgumentError(f"{name}: there are no parameters", hint="init([w, b])")
    for number, param in enumerate(params):
        info = getattr(param, "struct_info", None)
        if not isinstance(param, Var) or not isinstance(info, TensorStructInfo):
            raise ArgumentError(f"{name}: {param!r} is no tensor variable")
        if any(param is other for other in params[:number]):
            raise ArgumentError(f"{name}: parameter {param.name_hint} is there twice")
        if static_shape(info) is None or info.dtype is None or not info.dtype.is_float:
            raise ArgumentError(
                f"{name}: parameter {param.name_hint} is {info}",
                hint="a static shape and a float dtype are needed",
            )
        if info.dtype != params[0].struct_info.dtype:
            raise ArgumentError(
                f"{name}: parameter {param.name_hint} is of {info.dtype}, "
                f"{params[0].name_hint} is of {params[0].struct_info.dtype}",
                hint="one dtype for all",
            )
    return str(params[0].struct_info.dtype)


def _in_range(name: str, **numbers: float) -> None:
    for word, number in numbers.items():
        if number < 0:
            raise ArgumentError(f"{name}: {word} is {number}", hint="0 or more")


class SGD(Optimizer):
    """p - lr * (g + weight_decay * p)

    Raises:
        ArgumentError: a number is negative.
    """

    def __init__(self, lr: float, weight_decay: float = 0) -> None:
        super().__init__("SGD")
        _in_range(self.name, lr=lr, weight_decay=weight_decay)
        self.lr, self.weight_decay = float(lr), float(weight_decay)

    def _update(
        self, bb: BlockBuilder, p: Expr, g: Expr, kept: list[Var], scalars: list[Var]
    ) -> tuple[Expr, list[Expr]]:
        g = self._decayed(bb, p, g, self.weight_decay)
        return op.subtract(p, self._times(bb, self.lr, g)), []


class MomentumSGD(Optimizer):
    """v = momentum * v + (1 - dampening) * g; then p - lr * v, or by Nesterov, who looks ahead:
    p - lr * (g + momentum * v). g has the weight decay in it, the first v is 0.

    Source: Sutskever et al. 2013, "On the importance of initialization and momentum".

    Raises:
        ArgumentError: a number is negative, or Nesterov's goes without momentum or with dampening.
    """

    _moments = 1

    def __init__(
        self,
        lr: float,
        momentum: float,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__("MomentumSGD")
        _in_range(self.name, lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum == 0 or dampening != 0):
            raise ArgumentError(
                f"{self.name}: nesterov with momentum {momentum} and dampening {dampening}",
                hint="it needs a momentum, and no dampening",
            )
        self.lr, self.momentum = float(lr), float(momentum)
        self.dampening, self.weight_decay = float(dampening), float(weight_decay)
        self.nesterov = nesterov

    def _update(
        self, bb: BlockBuilder, p: Expr, g: Expr, kept: list[Var], scalars: list[Var]
    ) -> tuple[Expr, list[Expr]]:
        g = self._decayed(bb, p, g, self.weight_decay)
        old = self._times(bb, self.momentum, kept[0])
        v = bb.emit(op.add(old, self._times(bb, 1 - self.dampening, g)))
        ahead = bb.emit(op.add(g, self._times(bb, self.momentum, v))) if self.nesterov else v
        return op.subtract(p, self._times(bb, self.lr, ahead)), [v]


class Adam(Optimizer):
    """p - lr * m^ / (sqrt(v^) + eps): m and v follow g and g * g by the two betas, m^ and v^ are
    they without their first zeros. The state: steps, powers of the betas, all m, all v.

    Source: Kingma and Ba 2015, arXiv 1412.6980. g has the weight decay in it.

    Raises:
        ArgumentError: a number is negative, or a beta is not below 1.
    """

    _scalars = _moments = 2

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
    ) -> None:
        super().__init__("Adam")
        _in_range(self.name, lr=lr, beta1=betas[0], beta2=betas[1], eps=eps, decay=weight_decay)
        if max(betas) >= 1:
            raise ArgumentError(f"{self.name}: betas are {tuple(betas)}", hint="below 1")
        self.lr, self.eps, self.weight_decay = float(lr), float(eps), float(weight_decay)
        self.beta1, self.beta2 = map(float, betas)

    def _scalar(self, number: int, old: Expr) -> Expr:
        return op.multiply(old, const((self.beta1, self.beta2)[number], self.dtype))

    def _update(
        self, bb: BlockBuilder, p: Expr, g: Expr, kept: list[Var], scalars: list[Var]
    ) -> tuple[Expr, list[Expr]]:
        g = self._decayed(bb, p, g, self.weight_decay)
        squares = bb.emit(op.multiply(g, g))
        moments, hats = [], []
        pairs = zip(kept, (g, squares), (self.beta1, self.beta2), scalars, strict=True)
        for old, new, beta, power in pairs:
            m = bb.emit(op.add(self._times(bb, beta, old), self._times(bb, 1 - beta, new)))
            rest = bb.emit(op.subtract(const(1.0, self.dtype), power))
            moments.append(m)
            hats.append(bb.emit(op.divide(m, rest)))
        root = bb.emit(op.add(bb.emit(op.sqrt(hats[1])), const(self.eps, self.dtype)))
        step = bb.emit(op.divide(self._times(bb, self.lr, hats[0]), root))
        return op.subtract(p, step), list(moments)
