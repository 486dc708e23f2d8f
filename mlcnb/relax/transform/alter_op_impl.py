"""AlterOpImpl: loop functions of one's own, on layouts of their own, for those that are there.

lv = R.call_tir(cls.add, (x, y), R.Tensor((16,)))    add: {"operator_name": "relax.add"}
->
lv = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4))
lv1 = R.layout_transform(y, index_map=lambda i: (i // 4, i % 4))
lv2 = R.call_tir(cls.relax_add_replacement, (lv, lv1), R.Tensor((4, 4)))
lv3 = R.layout_transform(lv2, index_map=lambda i, j: (i * 4 + j,))

Changes of layout between two such calls undo each other: OptimizeLayoutTransform drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import MLCError, PassError
from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax import op
from mlcnb.relax.analysis.calls import callee_of
from mlcnb.relax.expr import Call, Tuple, TupleGetItem, Var, shape_expr
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo, parts_of
from mlcnb.relax.transform.written_out import Reader, TablePass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_map import IndexMap

#: the attribute of a loop function that says which operator it does
OPERATOR_NAME = "operator_name"

Layout = IndexMap | Callable[..., Any]
Separators = Sequence[int]


class AlterOpImpl(TablePass, says="calls of other loop functions", quiet=True):
    """Call other loop functions for operators, and bring their tensors to the layouts they want.

    All shapes have to be known, symbolic ones as far as the map is proved bijective on them; dtypes
    are those of the replacement.

    A function that says `operator_name` is replaced where `op_impl_map` has that name. Layouts are
    one index map for each of its buffers, results last (none: the layouts stay); each has to be
    bijective on the tensor it is for. Separators are kept on the changes of layout.

    Raises:
        PassError: a replacement has another number of buffers, or a layout is not bijective.
    """

    #: operator name -> the loop function that does it
    op_impl_map: Mapping[str, PrimFunc]
    #: operator name -> how its buffers lie
    op_buffer_transforms: Mapping[str, Sequence[Layout]]
    #: operator name -> for each buffer, where axes of physical memory begin
    op_buffer_axis_separators: Mapping[str, Sequence[Separators]] | None = None
    #: operator name -> the same of the tensors as they lie before
    op_buffer_input_axis_separators: Mapping[str, Sequence[Separators]] | None = None


class _Changer(Reader, of=AlterOpImpl):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        self.made: dict[str, GlobalVar] = {}

    def visit_call(self, call: Call, var: Var) -> Any:
        """The call of the replacement, between the changes of layout."""
        name = self.operator_of(call)
        if name is None:
            return None
        self.found += 1
        inputs: Any = call.args[1]
        infos = parts_of(call.sinfo_args[0])
        layouts = self.layouts(name, len(inputs.fields) + len(infos))
        key = self.replacement(name, len(inputs.fields) + len(infos))
        if not layouts:
            return replace(call, args=(key, *call.args[1:]))
        count = len(inputs.fields)
        pairs = zip(inputs.fields, layouts[:count], strict=True)
        given = [self.emit(self.changed(x, m, name, at)) for at, (x, m) in enumerate(pairs)]
        results = [_mapped(i, m) for i, m in zip(infos, layouts[count:], strict=True)]
        is_tuple = isinstance(call.sinfo_args[0], TupleStructInfo)
        info = TupleStructInfo(tuple(results)) if is_tuple else results[0]
        args: tuple[Any, ...] = (key, Tuple(tuple(given)), *call.args[2:])
        new = self.emit(Call(call.op, args, call.attrs, (info,), None, call.span))
        parts = [self.emit(TupleGetItem(new, i)) for i in range(len(infos))] if is_tuple else [new]
        back = [
            self.changed(part, _inverse(old, m, name), name, count + at)
            for at, (part, old, m) in enumerate(zip(parts, infos, layouts[count:], strict=True))
        ]
        return Tuple(tuple(map(self.emit, back))) if is_tuple else back[0]

    def operator_of(self, call: Call) -> str | None:
        """The operator that a call_tir does, where another function is to do it."""
        func = callee_of(call, self.functions)
        name = "" if func is None else str(func.attrs.get(OPERATOR_NAME, ""))
        return name if name in self.options.op_impl_map else None

    def replacement(self, name: str, count: int) -> GlobalVar:
        """The function that does the operator from now on."""
        if name not in self.made:
            func = self.options.op_impl_map[name]
            if len(func.params) != count:
                raise PassError(
                    f"AlterOpImpl: {name} is called with {count} buffers, its replacement takes "
                    f"{len(func.params)}"
                )
            marked = func.without_attr("global_symbol").with_attr(OPERATOR_NAME, name)
            self.made[name] = self.table.add(marked, f"{name.replace('.', '_')}_replacement")
        return self.made[name]

    def layouts(self, name: str, count: int) -> list[IndexMap]:
        """How each of the operator's buffers lies; none where that is not said."""
        given = list(self.options.op_buffer_transforms.get(name, ()))
        if given and len(given) != count:
            raise PassError(f"AlterOpImpl: {name} has {count} buffers, {len(given)} layouts given")
        return [m if isinstance(m, IndexMap) else IndexMap.from_func(m) for m in given]

    def changed(self, x: Any, index_map: IndexMap, name: str, at: int) -> Call:
        """A tensor brought to a layout."""
        _inverse(x.struct_info, index_map, name)
        options = self.options
        new, old = options.op_buffer_axis_separators, options.op_buffer_input_axis_separators
        return op.layout_transform(
            x,
            index_map=index_map,
            axis_separators=_separators(new, name, at),
            input_axis_separators=_separators(old, name, at),
        )


def _separators(given: Any, name: str, at: int) -> Separators:
    """Those of one buffer; none where nothing is said of the operator's."""
    listed = (given or {}).get(name) or ()
    if listed and at >= len(listed):
        raise PassError(
            f"AlterOpImpl: {name} has more than {len(listed)} buffers, for which separators are "
            "given",
            hint="a list for each buffer, or none at all",
        )
    return tuple(listed[at] or ()) if listed else ()


def _mapped(info: Any, index_map: IndexMap) -> TensorStructInfo:
    """The tensor in its new layout."""
    return replace(
        info, shape=shape_expr(index_map.map_shape(info.dims)), ndim=len(index_map.final_indices)
    )


def _inverse(info: Any, index_map: IndexMap, name: str) -> IndexMap:
    """The map back.

    Raises:
        PassError: the map is not bijective on the tensor.
    """
    if info.dims is None:
        raise PassError(f"AlterOpImpl: a tensor of {name} has dimensions that are not known")
    try:
        inverse, padding = index_map.non_surjective_inverse(info.dims)
        is_bijective = as_int(padding) == 0 and index_map.collision(info.dims) in ((), None)
    except MLCError:
        is_bijective = False
    if not is_bijective:
        raise PassError(
            f"AlterOpImpl: {name}: Non bijective transforms on input and output buffers are not "
            f"supported: {index_map!r}"
        )
    return replace(inverse, inverse_index_map=None)
