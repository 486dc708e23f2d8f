"""from_onnx: load, check, import.

load        bytes to a ModelProto                     `load`
check       hostile and damaged models are refused    `check`, `operators`
import      node by node                              `importer`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.garbage import collected_between
from mlcnb.core.means import within_means
from mlcnb.ir.module import IRModule
from mlcnb.relax.frontend.onnx.check import check_model, check_text
from mlcnb.relax.frontend.onnx.choices import Choices
from mlcnb.relax.frontend.onnx.importer import Importer
from mlcnb.relax.frontend.onnx.inputs import Inputs
from mlcnb.relax.frontend.onnx.load import load
from mlcnb.relax.frontend.onnx.operators import check_operators
from mlcnb.relax.frontend.onnx.protos import opsets_of


def from_onnx(
    model: Any,
    shape: Any = None,
    dtype: Any = None,
    keep_params_in_input: bool = False,
    *,
    freeze: Mapping[str, Any] | None = None,
    opset: int | None = None,
    shape_dict: Mapping[str, Any] | None = None,
    dtype_dict: Any = None,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Import an ONNX model.

    Args:
        model: a path, the bytes of a file, or a ModelProto. External data are read from the folder
            of the path, and from nowhere else.
        shape: shapes by input name (or one shape for one input): numbers fix a dimension, None and
            -1 leave it as the model has it, a string names it. What stays open is symbolic.
        dtype: dtypes by input name, or one for all inputs of floats; inputs of another dtype than
            the model's are cast to it.
        keep_params_in_input: initializers become parameters of main, after the inputs, in place of
            constants; `relax.frontend.detach_params` gives their values.
        freeze: values by input name: these inputs become constants (axes, shapes, pads …).
        opset: read the model as one of this opset.
        shape_dict: TVM's name for `shape`.
        dtype_dict: TVM's name for `dtype`.
        sanitize_input_names: as in TVM; parameters always have names that are identifiers.

    Returns:
        A module whose function main takes the model's inputs, in one dataflow block where there is
        no branch that is chosen as it runs, and returns its output (a tuple of several).

    Raises:
        ModelError: a file that is damaged, hostile, or contradicts itself.
        UnsupportedOpError: operators that are not imported, all of them named.
        UnsupportedDtypeError: tensors of strings, complex numbers …
    """
    if (shape is not None and shape_dict is not None) or (
        dtype is not None and dtype_dict is not None
    ):
        raise MLCError("from_onnx: shape or dtype is given twice", hint="shape_dict is TVM's name")
    display.load("mlcnb.op:load_all")()  # type: ignore[call-arg]
    with within_means("the model", ModelError):
        proto, source = load(model)
    with within_means(source.name, ModelError), collected_between():
        check_text(proto, source.name)
        opsets = opsets_of(proto.opset_import) or {"": 1}
        opsets |= {} if opset is None else {"": opset}
        check_operators(proto, source.name, opsets)
        check_model(proto, source, opsets)
        stored = {t.name for t in proto.graph.initializer}
        stored |= {s.values.name for s in proto.graph.sparse_initializer}
        values = [i for i in proto.graph.input if i.name not in stored]
        shapes = shape if shape_dict is None else shape_dict
        kinds = dtype if dtype_dict is None else dtype_dict

        def walked(choices: Choices) -> IRModule:
            inputs = Inputs(values, source, shapes, kinds, freeze or {})
            return Importer(proto, source, opsets, inputs, keep_params_in_input, choices).module()

        return decided(walked)


def decided(walked: Callable[[Choices], IRModule]) -> IRModule:
    """What an import makes, with branches assumed where it stops without.

    Raises:
        MLCError: of the import without assumptions, where none helps.
    """
    choices = Choices()
    first: MLCError | None = None
    while True:
        try:
            return walked(choices)
        except MLCError as error:
            first = first or error
            if not choices.another():
                raise first from None
