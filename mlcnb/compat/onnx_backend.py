"""mlcnb as a backend of ONNX: what `onnx.backend.base` and ONNX's own test suite ask for.

    rep = mlcnb.onnx_backend.prepare(model)        (outputs,) = rep.run([x])

Some operators take as inputs what a compiler has to know beforehand: axes, shapes, pads, k. Where
an import stops because such a value is not known, the model is compiled when it first runs, for the
values that were given: the inputs that it asked for (vectors and scalars only) become constants,
and if shapes are what is missing, so do the shapes of all inputs. Each set of values is compiled
once and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from mlcnb import driver
from mlcnb.core.errors import RuntimeInputError, UnsupportedError
from mlcnb.relax.frontend.onnx.entry import from_onnx
from mlcnb.relax.frontend.shared.errors import UnknownValueError

#: inputs of at most this many elements, in one dimension or none, may become constants
MAX_FROZEN = 256
#: how many sets of values are kept compiled
MAX_FORMS = 16


class MlcnbBackendRep(BackendRep):
    """A model, compiled for as many sets of values as were met.

    Args:
        model: the ModelProto.
        target: what `mlcnb.compile` takes.
    """

    def __init__(self, model: Any, target: Any = "llvm") -> None:
        self.model = model
        self.target = target
        stored = {t.name for t in model.graph.initializer}
        self.inputs = [i.name for i in model.graph.input if i.name not in stored]
        self.frozen: list[str] = []
        kinds = {i.name: i.type.WhichOneof("value") for i in model.graph.input}
        #: inputs that hold something, or not
        self.optional = {n for n in self.inputs if kinds[n] == "optional_type"}
        has_parts = bool(self.optional) or "sequence_type" in kinds.values()
        self.fixed = has_parts  # how many tensors there are is a part of the form
        self._forms: dict[Any, Any] = {}
        if has_parts:
            return
        try:
            self._forms[self._key({})] = self._build({})
        except UnknownValueError as error:
            if not error.inputs:
                raise

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Args:
            inputs: values in the order of the model's inputs, or by name.
            kwargs: nothing that matters here.

        Returns:
            The outputs, in the order of the model.

        Raises:
            RuntimeInputError: wrong number or names of inputs.
            MLCError: what the model does is not supported, or it stopped.
        """
        values = self._values(inputs)
        executable = self._executable(values)
        result = executable(*(v for n, v in values.items() if not self._is_frozen(n, v)))
        return result if len(self.model.graph.output) > 1 else (result,)

    def _is_frozen(self, name: str, value: Any) -> bool:
        return value is None or name in self.frozen

    def _values(self, inputs: Any) -> dict[str, Any]:
        """Inputs by name, as arrays."""
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        elif isinstance(inputs, Sequence) and len(inputs) <= len(self.inputs):
            given = dict(zip(self.inputs, inputs, strict=False))
        else:
            given = {self.inputs[0]: inputs} if len(self.inputs) == 1 else {}
        if set(given) != set(self.inputs):
            raise RuntimeInputError(
                f"the model takes {len(self.inputs)} inputs, {len(given)} of them are given",
                hint=f"inputs: {', '.join(self.inputs)}",
            )
        return {name: self._value(given[name], name) for name in self.inputs}

    def _value(self, value: Any, name: str) -> Any:
        """An array, a tuple of arrays, or None for an optional input that holds nothing."""
        if value is None and name in self.optional:
            return None
        if isinstance(value, list | tuple) and self.fixed:
            return tuple(_array(v, name) for v in value)
        return _array(value, name)

    def _executable(self, values: dict[str, np.ndarray]) -> Any:
        """The executable for these values, compiled where it is new."""
        while True:
            key = self._key(values)
            if key in self._forms:
                return self._forms[key]
            try:
                made = self._build(values)
            except UnknownValueError as error:
                if not self._narrow(error, values):
                    raise
            else:
                if len(self._forms) >= MAX_FORMS:
                    del self._forms[next(iter(self._forms))]
                self._forms[key] = made
                return made

    def _narrow(self, error: UnknownValueError, values: dict[str, np.ndarray]) -> bool:
        """Make constants of what the import asked for; False where that cannot help."""
        wanted = [n for n in error.inputs if n not in self.frozen]
        if any(not isinstance(values[n], np.ndarray) for n in wanted):
            return False
        if wanted and all(values[n].ndim <= 1 and values[n].size <= MAX_FROZEN for n in wanted):
            self.frozen.extend(wanted)
            return True
        if not self.fixed:
            self.fixed = True
            return True
        return False

    def _key(self, values: Mapping[str, np.ndarray]) -> Any:
        """What an executable depends on."""
        frozen = tuple((n, values[n].shape, values[n].tobytes()) for n in self.frozen)
        if not self.fixed:
            return frozen, ()
        shapes = {n: _shape(v) for n, v in values.items()}
        return frozen, tuple((n, tuple(s) if isinstance(s, list) else s) for n, s in shapes.items())

    def _build(self, values: Mapping[str, np.ndarray]) -> Any:
        shapes = {n: _shape(v) for n, v in values.items() if not self._is_frozen(n, v)}
        absent = {n: None for n, v in values.items() if v is None}
        mod = from_onnx(
            self.model,
            shape=shapes if self.fixed else None,
            freeze={n: values[n] for n in self.frozen} | absent,
        )
        return driver.compile(mod, self.target)


def _shape(value: Any) -> Any:
    """The shape of an array, those of a tuple of arrays as a list."""
    if isinstance(value, tuple):
        return [v.shape for v in value]
    return None if value is None else value.shape


def _array(value: Any, name: str) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return np.asarray(onnx.numpy_helper.to_array(value))
    if value is None or isinstance(value, list | tuple | dict | str):
        raise UnsupportedError(
            f"input {name!r} is {'left out' if value is None else type(value).__name__}, no tensor",
            hint="mlcnb runs graphs of tensors",
        )
    return np.asarray(value)


class MlcnbBackend(Backend):
    """The class that `onnx.backend.test.BackendTest` takes."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be imported (its inputs of values still unknown set aside)."""
        try:
            from_onnx(model)
        except UnknownValueError as error:
            return bool(error.inputs)
        except UnsupportedError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> MlcnbBackendRep:
        """Compile a model.

        Args:
            model: the ModelProto.
            device: "CPU".
            kwargs: target, as `mlcnb.compile` takes it.

        Raises:
            MLCError: it is damaged, or has what is not supported.
        """
        if not cls.supports_device(device):
            raise UnsupportedError(f"no device {device!r}", hint='device="CPU"')
        return MlcnbBackendRep(model, kwargs.get("target", "llvm"))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node.

        Args:
            node: the NodeProto.
            inputs: an array for each input that is not left out.
            device: "CPU".
            outputs_info: dtype and shape of each output; found by ONNX's inference if None.
            kwargs: opset_version (default: the newest), target.
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        arrays = [_array(x, n) for n, x in zip(names, inputs, strict=True)]
        types = {n: _type(x.dtype, x.shape) for n, x in zip(names, arrays, strict=True)}
        if outputs_info is None:
            made = _inferred(node, types, opset)
        else:
            made = [_type(np.dtype(kind), shape) for kind, shape in outputs_info]
        graph = onnx.helper.make_graph(
            [node],
            node.op_type,
            [onnx.helper.make_value_info(n, t) for n, t in types.items()],
            [
                onnx.helper.make_value_info(n, t)
                for n, t in zip(filter(None, node.output), made, strict=True)
            ],
        )
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU."""
        return device.partition(":")[0] == "CPU"


def _type(kind: np.dtype, shape: Any) -> Any:
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(kind), shape)


def _inferred(node: Any, types: dict[str, Any], opset: int) -> list[Any]:
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    found = onnx.shape_inference.infer_node_outputs(schema, node, types)
    return [found[name] for name in node.output if name]


is_compatible = MlcnbBackend.is_compatible
prepare = MlcnbBackend.prepare
run_model = MlcnbBackend.run_model
run_node = MlcnbBackend.run_node
supports_device = MlcnbBackend.supports_device
