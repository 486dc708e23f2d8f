"""IOEffect and KVCache: states that go through the exported functions.

def forward(x, _io, cache):          cache.append(x)     cache1 = append(cache, x)
    …                                cache.view(n)       lv = view(cache1, (n, …))
    return result, (_io1, cache1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.ir.prim_ops import const
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Call, Op, PrimValue, Var, call_pure_packed, shape_expr
from mlcnb.relax.frontend.nn.tensor import Effect, Tensor, builder, get_default_dtype
from mlcnb.relax.operator import NULL
from mlcnb.relax.struct_info import ObjectStructInfo, TensorStructInfo


class IOEffect(Effect):
    """What is printed, in order: each `op.print_` takes the state and gives the next."""

    def __init__(self) -> None:
        self.effect: Any = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Any]:
        """Nothing is needed to begin with."""
        return [builder.emit(NULL, f"{name_hint}_io")]

    def create(self, name_hint: str) -> list[Any]:
        """One object."""
        return [Var(f"{name_hint}_io", ObjectStructInfo())]

    def set_state(self, state_vars: list[Any]) -> None:
        """Take the state."""
        (self.effect,) = state_vars

    def finalize(self) -> list[Any]:
        """Give the state, and forget it."""
        state, self.effect = self.effect, None
        return [state]


class KVCache(Effect):
    """Rows of one shape that grow from call to call: keys or values of earlier tokens.

    Args:
        init_seq_len: rows that there is room for at first.
        unit_shape: shape of one row.
        dtype: of the rows; `get_default_dtype()` if None.
    """

    def __init__(
        self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None
    ) -> None:
        self.init_seq_len = init_seq_len
        self.unit_shape = [int(i) for i in unit_shape]
        self.dtype = dtype or get_default_dtype()
        self.cache: Any = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Any]:
        """An empty cache with room for `init_seq_len` rows."""
        from mlcnb.relax import op

        shape = shape_expr([self.init_seq_len, *self.unit_shape])
        rows = builder.emit(op.zeros(shape, self.dtype))
        zero = PrimValue(const(0, "int64"))
        name = "vm.builtin.attention_kv_cache_create"
        made = call_pure_packed(name, rows, shape, zero, sinfo_args=[ObjectStructInfo()])
        return [builder.emit(made, name_hint)]

    def create(self, name_hint: str) -> list[Any]:
        """One object."""
        return [Var(name_hint, ObjectStructInfo())]

    def set_state(self, state_vars: list[Any]) -> None:
        """Take the cache."""
        (self.cache,) = state_vars

    def finalize(self) -> list[Any]:
        """Give the cache, and forget it."""
        state, self.cache = self.cache, None
        return [state]

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the rows."""
        self.dtype = dtype or self.dtype

    def view(self, seq_len: Any) -> Tensor:
        """The first `seq_len` rows (an int or a size): shape (seq_len, *unit_shape)."""
        shape = shape_expr([seq_len, *self.unit_shape])
        info = TensorStructInfo(shape, as_dtype(self.dtype))
        name = "vm.builtin.attention_kv_cache_view"
        call = call_pure_packed(name, self._state("view"), shape, sinfo_args=(info,))
        return Tensor(_expr=builder("KVCache.view").emit(call))

    def append(self, new_element: Tensor) -> None:
        """Put rows at the end: a Tensor of shape (n, *unit_shape), or of one row.

        Raises:
            ArgumentError: another dtype than the cache's.
        """
        if new_element.dtype != self.dtype:
            raise ArgumentError(
                f'KVCache has been set to use dtype "{self.dtype}", but got "{new_element.dtype}"'
            )
        name = "vm.builtin.attention_kv_cache_append"
        call = call_pure_packed(
            name, self._state("append"), new_element._expr, sinfo_args=ObjectStructInfo()
        )
        inplace = FrozenDict(inplace_indices=(0,))
        op = Op("relax.call_inplace_packed")
        made = Call(op, call.args, inplace, call.sinfo_args, call.struct_info)
        self.cache = builder("KVCache.append").emit(made)

    def _state(self, what: str) -> Any:
        builder(f"KVCache.{what}")
        if self.cache is None:
            raise ArgumentError(
                f"KVCache.{what}: the cache is no part of the module that is exported",
                hint="keep it as an attribute of the module: self.cache = nn.KVCache(…)",
            )
        return self.cache
