"""What an import knows of its tensors: how calls are bound, folded, measured and followed.

emit(call)      constants in, constant out; else a binding, within the limits of size
known(x)        the elements of a constant or of a small tensor made from shapes
needs(x)        which inputs of the model a value comes from
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import ModelError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import SizeVar
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.span import Span
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import return_info
from mlcnb.relax.analysis.variables import bindings_of, leaves, use_counts, value_uses
from mlcnb.relax.emitter import Emitter, Names
from mlcnb.relax.frontend.shared.fold import Folder, constant, is_operator
from mlcnb.relax.frontend.shared.limits import least_bytes, max_tensor_bytes, size_text
from mlcnb.relax.frontend.shared.names import plain
from mlcnb.relax.frontend.shared.symbols import Symbols
from mlcnb.relax.infer import Inference, is_pure_call
from mlcnb.relax.operand_infos import operand_infos
from mlcnb.relax.operator import NULL, attrs_of, declaration, is_null, make_call
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo, describe
from mlcnb.relax.transform.convert_to_dataflow import convert_to_dataflow


class Values:
    """The bindings that are being written, and what is known of them.

    Args:
        emitter: collects the bindings.
        dim_names: gives names of symbolic sizes.
    """

    def __init__(self, emitter: Emitter, dim_names: Names) -> None:
        self.emitter = emitter
        self.dim_names = dim_names
        #: sizes that only a run knows, in the order in which they were met
        self.found_at_run_time: list[SizeVar] = []
        self.folder = Folder()
        self.most_bytes = max_tensor_bytes()
        #: parameters whose values the model brings
        self.stored: dict[rx.Var, np.ndarray] = {}
        self.symbols = Symbols(self.stored)
        #: variable -> what it is bound to
        self.bound: dict[rx.Var, Any] = {}
        self.inference = Inference()
        #: struct infos of results that are not too large
        self.checked: set[Any] = set()

    def main(
        self,
        params: list[rx.Var],
        seq: rx.SeqExpr,
        result: Any,
        attrs: dict[str, Any],
        more: dict[str, Any] | None = None,
    ) -> rx.Function:
        """The function main: values that the model brings, and that it uses, are its last
        parameters; its bindings stand in dataflow blocks.

        attrs, more: its attributes before those values, and behind them.
        """
        if self.stored:
            used = use_counts(seq)
            stored = {v: data for v, data in self.stored.items() if v in used}
            params = [*params, *stored]
            given = tuple(constant(data, v.span) for v, data in stored.items())
            attrs = {**attrs, "params": given}
        info = return_info(tuple(params), result.struct_info)
        made = rx.Function(tuple(params), seq, info, True, FrozenDict({**attrs, **(more or {})}))
        names = numbered(made, self.emitter.bindings)
        return convert_to_dataflow(made, min_size=1, names=names)

    def brought(self, name: str, data: np.ndarray, span: Span, keep: bool) -> Any:
        """What stands for a tensor that the model brings: a constant, or a parameter to be kept."""
        if not keep:
            return constant(data, span)
        info = rx.tensor_info(data.shape, data.dtype.name)
        var = rx.Var(self.emitter.names.fresh(plain(name)), info, span)
        self.stored[var] = data
        return var

    def emit(self, value: Any) -> Any:
        """A leaf that has the value: bound to a variable, or a constant where that is known.

        Raises:
            TypeInferError: arguments of an operator do not fit.
            ModelError: a result is larger than may be.
        """
        if isinstance(value, rx.Call):
            return NULL if is_null(value) else self.call(value)
        if isinstance(value, rx.TupleGetItem):
            return self.item(value)
        if isinstance(value, rx.Tuple):
            return replace(value, fields=tuple(map(self.emit, value.fields)))
        return value

    def call(self, call: rx.Call) -> Any:
        """A call, folded or bound; nested calls come first."""
        args = tuple(map(self.emit, call.args))
        span = call.span or self.emitter.origin
        made = self.inference(call, args, span)
        info = made.struct_info
        if info not in self.checked:
            check_size(info, self.most_bytes)
            self.checked.add(info)
        folded = self.folder.fold(made) if is_operator(made) else None
        if folded is not None:
            return folded
        var = self.bind(made)
        self.symbols.follow(var, made)
        told = self.told(var) if var in self.symbols.values else None
        if told is not None:
            return told
        if _is_open(info) or (type(info) is TupleStructInfo and any(map(_is_open, info.fields))):
            return self.opened(var, attrs_of(made).partly(*operand_infos(made)))
        return var

    def told(self, var: rx.Var) -> rx.Constant | None:
        """A value that only known sizes made, of shapes with open ones too: it is a constant."""
        found, info = self.symbols.values[var], var.struct_info
        if not isinstance(found, np.ndarray) or not info.dtype.is_integer:  # type: ignore[union-attr]
            return None
        numbers = [as_int(x) for x in found.flat]
        if None in numbers or any(x in self.stored for x in self.needs(var)):
            return None
        kind = info.dtype.numpy  # type: ignore[union-attr]
        return rx.const(np.array(numbers, kind).reshape(found.shape))

    def item(self, item: rx.TupleGetItem) -> Any:
        """A field of a tuple: itself where the tuple is written out."""
        whole = self.emit(item.tuple_value)
        if isinstance(whole, rx.Tuple):
            return whole.fields[item.index]
        var = self.bind(rx.TupleGetItem(whole, item.index))
        fields = self.symbols.values.get(whole)
        if isinstance(fields, tuple):
            self.symbols.values[var] = fields[item.index]
        return var

    def opened(self, var: rx.Var, partly: Any = None) -> Any:
        """`var` with symbols for the dimensions of its tensors that only a run knows.

            lv = R.nonzero(x)                   lv: R.Tensor(dtype="int64", ndim=2)
            lv1 = R.match_cast(lv, R.Tensor((2, s), "int64"))

        partly: what is known of them, as `OpDecl.partly` says.
        """
        info: Any = var.struct_info
        if isinstance(info, TupleStructInfo) and any(map(_is_open, info.fields)):
            known = partly or [None] * len(info.fields)
            items = [self.bind(rx.TupleGetItem(var, i)) for i in range(len(info.fields))]
            return rx.Tuple(tuple(map(self.opened, items, known)))
        if not _is_open(info):
            return var
        dims = partly or [None] * info.ndim
        shape = [self.symbol() if d is None else d for d in dims]
        return self.cast(var, rx.tensor_info(shape, info.dtype))

    def cast(self, value: Any, info: Any) -> rx.Var:
        """A variable for what is checked, as the model runs, to be of this struct info."""
        var = self.emitter.match_cast(value, info, "lv")
        self.bound[var] = value
        return var

    def symbol(self) -> SizeVar:
        """A size that nobody knows before the model runs."""
        made = SizeVar(self.dim_names.fresh("s"), dtype("int64"))
        self.found_at_run_time.append(made)
        return made

    def lengths(self, x: Any, count: int) -> list[SizeVar]:
        """The `count` elements of an integer tensor of at most one dimension, as sizes."""
        if x.struct_info.dtype != "int64":
            x = self.emit(make_call(declaration("relax.astype"), x, dtype="int64"))
        if x.struct_info.ndim == 0:
            x = self.emit(make_call(declaration("relax.reshape"), x, (1,)))
        read = self.emit(make_call(declaration("relax.tensor_to_shape"), x))
        sizes = [self.symbol() for _ in range(count)]
        self.cast(read, ShapeStructInfo(tuple(sizes), count))
        return sizes

    def bind(self, value: Any) -> rx.Var:
        """A new variable for a value as it is: its parts are leaves, its struct info is known."""
        var = self.emitter.bind(value, "lv")
        self.bound[var] = value
        return var

    def known(self, x: Any) -> np.ndarray | None:
        """The elements of a tensor where they are known; objects where one is symbolic."""
        found = self.sizes(x)
        is_float = found is not None and found.dtype == object and x.struct_info.dtype.is_float
        return None if is_float else found

    def sizes(self, x: Any) -> np.ndarray | None:
        """As `known`, with floats that are computed from sizes."""
        if isinstance(x, rx.Constant):
            return x.data
        found = self.stored.get(x)
        return self.symbols.values.get(x) if found is None else found

    def needs(self, x: Any) -> tuple[rx.Var, ...]:
        """The parameters that a value is computed from."""
        found: dict[rx.Var, None] = {}
        seen: set[Any] = set()
        stack = [x]
        while stack:
            n = stack.pop()
            if isinstance(n, rx.Var) and n not in seen:
                seen.add(n)
                if n in self.bound:
                    stack.append(self.bound[n])
                else:
                    found[n] = None
            elif isinstance(n, rx.Call):
                stack.extend(n.args)
            elif isinstance(n, rx.Tuple):
                stack.extend(n.fields)
            elif isinstance(n, rx.TupleGetItem):
                stack.append(n.tuple_value)
        return tuple(found)


def _is_open(info: Any) -> bool:
    """True for a tensor of so many dimensions, whose sizes are not known."""
    return type(info) is TensorStructInfo and info.shape is None and info.ndim >= 0


def check_size(info: Any, most: int) -> None:
    """Refuse results that are larger than `most` bytes, the option max_tensor_bytes.

    Raises:
        ModelError: saying how large.
    """
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            check_size(field, most)
    elif isinstance(info, TensorStructInfo) and info.dims is not None and info.dtype is not None:
        size = least_bytes(info.dims, info.dtype)
        if size is None or size > most:
            many = "overflows" if size is None else f"takes {size_text(size)}"
            raise ModelError(
                f"a result of {describe(info)} {many}",
                hint=f"the option max_tensor_bytes allows {size_text(most)}",
            )


def sequence(bindings: Sequence[rx.Binding], body: Any) -> rx.SeqExpr:
    """Bindings and a result, without what the result does not need: computed shapes, above all.

    Casts stay: sizes that they name may be read anywhere below.
    """
    needed = set(leaves(body))
    kept: list[rx.Binding] = []
    for binding in reversed(bindings):
        value = binding.value
        acts = isinstance(value, rx.Call) and not is_pure_call(value)
        if binding.var in needed or acts or isinstance(binding, rx.MatchCast):
            kept.append(binding)
            needed.update(value_uses(value))
    return rx.SeqExpr((rx.BindingBlock(tuple(reversed(kept))),) if kept else (), body)


def numbered(func: rx.Function, bindings: Sequence[rx.Binding]) -> dict[rx.Var, str]:
    """Names for the function's variables lv, lv1, lv2, … counted anew where bindings are gone."""
    if sum(len(b.bindings) for b in func.body.blocks) == len(bindings):
        return {}
    names = Names(p.name_hint for p in func.params)
    bound = (b.var for b in bindings_of(func))
    return {v: names.fresh("lv") for v in bound if v.name_hint.startswith("lv")}
