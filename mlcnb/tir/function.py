"""PrimFunc: one loop function, called with its outputs as the last arguments."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from mlcnb.core import above
from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import EMPTY, FrozenDict, Node, binder, hidden, node, replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.span import Span
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import Stmt


@node
class PrimFunc(BaseFunc):
    """A function over buffers and scalars.

    params: handles (one for each buffer, mapped by `buffer_map`) and scalars; ret_type: dtype of
    the returned scalar or None. Outputs are parameters: the call is in destination-passing style.
    """

    params: tuple[Var, ...] = binder()
    body: Stmt
    ret_type: str | None = None
    buffer_map: FrozenDict = binder(default=EMPTY)
    attrs: FrozenDict = EMPTY
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        if self.ret_type is not None and type(self.ret_type) is not str:  # an `ir.PrimType`
            kind = getattr(self.ret_type, "dtype", self.ret_type)
            object.__setattr__(self, "ret_type", str(kind))
        for name in ("buffer_map", "attrs"):
            value = getattr(self, name)
            if type(value) is not FrozenDict:
                object.__setattr__(self, name, FrozenDict(value or {}))
        if type(self.params) is not tuple or not all(isinstance(x, Var) for x in self.params):
            _name_parameters(self)

    @property
    def __name__(self) -> str:
        """The name by which it is known outside; "main" of one that has none."""
        return str(self.attrs.get("global_symbol", "main"))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of the parameters, in order (scalars left out)."""
        return tuple(self.buffer_map[p] for p in self.params if p in self.buffer_map)

    @property
    def struct_info(self) -> Any:
        """What a graph program sees of it, a `relax.FuncStructInfo`."""
        return above.ask("signature")(self)

    def gpu_report(self, device: str = "A100") -> Any:
        """What a GPU would make of it, where it is bound to threads: `mlcnb.observe.gpu_report`.

        Raises:
            MLCError: it is not, or its shapes are open.
        """
        return above.ask("gpu_report")(self, device)

    def with_body(self, body: Stmt) -> PrimFunc:
        """This function with another body."""
        return replace(self, body=body)


def _name_parameters(func: PrimFunc) -> None:
    """Parameters as they are written by hand: of a buffer a handle, of a pointer its variable."""
    params: list[Var] = []
    buffers = dict(func.buffer_map)
    for given in func.params:
        if isinstance(given, Buffer):
            params.append(Var(given.name, dtype("handle")))
            buffers[params[-1]] = given
        else:
            params.append(given if isinstance(given, Var) else given.as_prim_expr())
    object.__setattr__(func, "params", tuple(params))
    object.__setattr__(func, "buffer_map", FrozenDict(buffers))


@node
class TensorIntrin(Node):
    """A hardware instruction: `desc` says what it computes, `impl` how it is called."""

    desc: PrimFunc
    impl: PrimFunc

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Keep an intrinsic under a name, for `Schedule.tensorize`.

        Raises:
            ArgumentError: the name is taken and `override` is False.
        """
        if name in _intrinsics and not override:
            raise ArgumentError(
                f"tensor intrinsic {name!r} is registered already", hint="pass override=True"
            )
        _intrinsics[name] = TensorIntrin(desc, impl)
        return _intrinsics[name]

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic of that name; those of `mlcnb.tir.tensor_intrin` are there by themselves.

        Raises:
            MLCError: there is none and `allow_missing` is False.
        """
        instead = above.ask("load intrinsic")(name) if name not in _intrinsics else None
        if name not in _intrinsics and not allow_missing:
            near = get_close_matches(str(name), _intrinsics, n=3)
            listed = f"did you mean {', '.join(near)}?" if near else ", ".join(sorted(_intrinsics))
            raise ArgumentError(f"no tensor intrinsic {name!r}", hint=instead or listed)
        return _intrinsics.get(name)

    @staticmethod
    def registered(name: str) -> TensorIntrin | None:
        """The intrinsic of that name if it was registered by now."""
        return _intrinsics.get(name)

    @staticmethod
    def names() -> list[str]:
        """The names of all that are registered."""
        return sorted(_intrinsics)


_intrinsics: dict[str, Any] = {}
