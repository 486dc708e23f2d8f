"""The parameters of main: the model's inputs, with the shapes and dtypes that the caller wants.

    x: float32["batch", 3, 224, 224]        x: R.Tensor(("batch", 3, 224, 224), "float32")
      shape={"x": (1, 3, 224, 224)}    ->   x: R.Tensor((1, 3, 224, 224), "float32")

Dimensions of one name are one variable; those without a name get one each, and so do those whose
name is no identifier ("?", "None", "-1"): exporters write such where they know nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, NoReturn

import numpy as np

from mlcnb.core.errors import ModelError, UnsupportedError
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr, SizeVar
from mlcnb.ir.span import Span
from mlcnb.relax.emitter import Names
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.frontend.onnx.load import Source
from mlcnb.relax.frontend.onnx.tensors import dtype_of
from mlcnb.relax.frontend.shared.limits import MAX_PRODUCT
from mlcnb.relax.frontend.shared.names import parameter_names, plain
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo

_KINDS = {"sequence_type": "a sequence", "map_type": "a map", "optional_type": "an optional value",
          "sparse_tensor_type": "a sparse tensor", "opaque_type": "an opaque value"}  # fmt: skip


class Inputs:
    """Makes parameters.

    Args:
        values: the ValueInfoProtos of the inputs that are no initializers.
        source: where the model came from.
        shape: shapes by input name; one shape where there is one input.
        kind: dtypes by input name, or one for all inputs of floats.
        freeze: values by input name.

    Raises:
        ModelError: shape, dtype or freeze name an input that the model does not have.
    """

    def __init__(
        self,
        values: Sequence[Any],
        source: Source,
        shape: Any,
        kind: Any,
        freeze: Mapping[str, Any],
    ) -> None:
        self.values = {v.name: v for v in values}
        self.source = source
        self.names = parameter_names(self.values)
        self.dims: dict[Any, SizeVar] = {}
        self.dim_names = Names()
        self.shapes = self._by_name("shape", self._as_mapping(shape))
        self.frozen = self._by_name("freeze", freeze)
        self.kinds = self._by_name("dtype", kind if isinstance(kind, Mapping) else {})
        self.float_kind = None if kind is None or isinstance(kind, Mapping) else dtype(kind)

    def _as_mapping(self, shape: Any) -> Mapping[str, Any]:
        if shape is None or isinstance(shape, Mapping):
            return shape or {}
        if len(self.values) != 1:
            self.refuse(f"shape= is one shape, but there are {len(self.values)} inputs")
        return {next(iter(self.values)): shape}

    def _by_name(self, what: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` by the model's own names; the names of the parameters do as well."""
        back = {p: n for n, p in self.names.items()}
        unknown = [n for n in given if n not in self.values and n not in back]
        if unknown:
            known = ", ".join(map(repr, self.values)) or "none"
            self.refuse(f"{what}= names {unknown[0]!r}, which is no input", f"inputs: {known}")
        return {n if n in self.values else back[n]: v for n, v in given.items()}

    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise a ModelError that names the file."""
        raise ModelError(
            f"{self.source.name}: {what}", hint=hint or 'e.g. shape={"x": (1, 3, 224, 224)}'
        )

    def parameter(self, name: str) -> tuple[Var, DType]:
        """The parameter of an input, and the dtype that the model wants there."""
        place = f"{self.source.name}: input {name!r}"
        given = self.type_of(name)
        kind = given.WhichOneof("value")
        if kind == "sequence_type":
            return self.sequence(name, given.sequence_type.elem_type.tensor_type)
        if kind != "tensor_type":
            raise UnsupportedError(
                f"{place} is {_KINDS.get(kind, 'of no type')}, not a tensor",
                hint="mlcnb runs graphs of tensors",
            )
        wanted = dtype_of(given.tensor_type.elem_type, place)
        dims = self.shape(name, given.tensor_type)
        info = TensorStructInfo(None, wanted) if dims is None else tensor_info(dims, wanted)
        other = self.kinds.get(name, self.float_kind if wanted.is_float else None)
        if other is not None:
            info = TensorStructInfo(info.shape, dtype(other), ndim=info.ndim)
        return Var(self.names[name], info, Span("onnx", name, kind="input")), wanted

    def type_of(self, name: str) -> Any:
        """The TypeProto of an input, of what an optional one holds."""
        found = self.values[name].type
        optional = found.WhichOneof("value") == "optional_type"
        return found.optional_type.elem_type if optional else found

    def is_absent(self, name: str) -> bool:
        """True for an optional input that `freeze` says holds nothing."""
        optional = self.values[name].type.WhichOneof("value") == "optional_type"
        return optional and name in self.frozen and self.frozen[name] is None

    def sequence(self, name: str, tensor: Any) -> tuple[Var, DType]:
        """The parameter of a sequence: a tuple of as many tensors as `shape` gives shapes."""
        place = f"{self.source.name}: input {name!r}"
        shapes = self.shapes.get(name)
        if not isinstance(shapes, list) or not all(isinstance(s, tuple | list) for s in shapes):
            raise UnsupportedError(
                f"{place} is a sequence, whose length is not known",
                hint=f'shape={{"{name}": [(2, 3), (4, 3)]}}: a list of shapes, one a tensor',
            )
        wanted = dtype_of(tensor.elem_type, place)
        infos = [
            tensor_info([self.given(d, f"{name}_{i}", a, None) for a, d in enumerate(s)], wanted)
            for i, s in enumerate(shapes)
        ]
        info = TupleStructInfo(tuple(infos))
        return Var(self.names[name], info, Span("onnx", name, kind="input")), wanted

    def value(self, name: str) -> np.ndarray | None:
        """The value of an input that is frozen, in the dtype of the model; None for the others."""
        if name not in self.frozen:
            return None
        tensor = self.values[name].type.tensor_type
        kind = dtype_of(tensor.elem_type, f"{self.source.name}: input {name!r}")
        given = np.asarray(self.frozen[name])
        if tensor.HasField("shape") and given.ndim != len(tensor.shape.dim):
            self.refuse(
                f"freeze= gives {given.ndim} dimensions for input {name!r}, which has "
                f"{len(tensor.shape.dim)}"
            )
        return np.array(given, kind.numpy)

    def shape(self, name: str, tensor: Any) -> list[Any] | None:
        """The dimensions of an input; None where not even their number is known."""
        declared = list(tensor.shape.dim) if tensor.HasField("shape") else None
        if name not in self.shapes:
            if declared is None:
                return None
            return [self.declared(d, name, i) for i, d in enumerate(declared)]
        given = self.shapes[name]
        if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str | bytes):
            self.refuse(f"shape= gives {given!r} for input {name!r}, which is no shape")
        if declared is not None and len(given) != len(declared):
            self.refuse(
                f"shape= gives {len(given)} dimensions for input {name!r}, which has "
                f"{len(declared)}"
            )
        return [self.given(d, name, i, declared and declared[i]) for i, d in enumerate(given)]

    def declared(self, dim: Any, name: str, axis: int) -> Any:
        """A dimension as the model has it: a number, or a variable."""
        if dim is not None and dim.HasField("dim_value") and dim.dim_value >= 0:
            return dim.dim_value
        label = getattr(dim, "dim_param", "")
        if label.isidentifier() and not iskeyword(label):
            return self.variable(label)
        return self.variable(f"{name}_dim{axis}", (name, axis))

    def given(self, dim: Any, name: str, axis: int, declared: Any) -> Any:
        """A dimension as the caller wants it: a number, a name, None or -1 for the model's own."""
        if dim is None or (isinstance(dim, int | np.integer) and dim == -1):
            return self.declared(declared, name, axis)
        if isinstance(dim, str):
            return self.variable(dim)
        if isinstance(dim, PrimExpr):
            return dim
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
            self.refuse(f"shape= gives {dim!r} for dimension {axis} of input {name!r}")
        if not 0 <= dim <= MAX_PRODUCT:
            self.refuse(f"shape= gives {dim} for dimension {axis} of input {name!r}")
        return int(dim)

    def variable(self, label: str, key: Any = None) -> SizeVar:
        """The variable of a named dimension, one for each name (or key)."""
        found = self.dims.get(key or label)
        if found is None:
            found = SizeVar(self.dim_names.fresh(plain(label)), dtype("int64"))
            self.dims[key or label] = found
        return found
