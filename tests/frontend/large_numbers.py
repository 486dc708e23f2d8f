"""Models of one node whose numbers are drawn near the ends of 32 and 64 bits, run in a process of
their own: `answer(case)` says what became of one.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import MLCError

IMAGE = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
KERNEL = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
LONGS = np.array([5, -7, 3], np.int64)


@dataclass(frozen=True)
class Case:
    """A node: operator, attributes, constant inputs after the first (None: left out)."""

    op: str
    attrs: dict[str, Any] = field(default_factory=dict)
    rest: tuple[Any, ...] = ()
    x: str = "IMAGE"

    def model(self) -> onnx.ModelProto:
        """The model of this one node."""
        x = globals()[self.x]
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        named = [(f"c{n}" if c is not None else "", c) for n, c in enumerate(self.rest)]
        node = helper.make_node(
            self.op, ["x", *(n for n, _ in named)], ["y"], name="n", **self.attrs
        )
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", kind, x.shape)],
            [helper.make_tensor_value_info("y", kind, None)],
            [numpy_helper.from_array(np.array(c), n) for n, c in named if n],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def limited() -> None:
    """For a new process: what would take all memory is an error in it."""
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


def answer(case: Case) -> str:
    """ "same" as the reference, "refused: …" with a typed error; anything else is a fault."""
    model, x = case.model(), globals()[case.x]
    try:
        found = np.asarray(mlc.compile(mlc.from_onnx(model), target="llvm")(x))
    except MLCError as error:
        return f"refused: {type(error).__name__}: {error.message}"
    except Exception as error:  # noqa: BLE001 (which is what this looks for)
        return f"untyped: {type(error).__name__}: {error}"
    try:
        wanted = reference(case, model, x)
    except Exception:  # noqa: BLE001 (it has exceptions of its own)
        return "it alone refuses"
    same = found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-4)
    return "same" if same else f"differs: {found.ravel()[:4]} and {wanted.ravel()[:4]}"


def told_of(model: bytes, inputs: list[Any]) -> str:
    """What became of a model of one node `n`: "ran", "named: …" with a typed error that says which
    node (or which part of it, `n/Reshape`), "unnamed: …" with one that does not; anything else is
    a fault.
    """
    try:
        mlc.compile(mlc.from_onnx(onnx.load_from_string(model)), target="llvm")(*inputs)
    except MLCError as error:
        is_named = any(x in error.message for x in ("'n'", "'n/", "node n", "Name: n "))
        kind = "named" if is_named else "unnamed"
        return f"{kind}: {type(error).__name__}: {error.message}"
    except Exception as error:  # noqa: BLE001 (which is what this looks for)
        return f"untyped: {type(error).__name__}: {error}"
    return "ran"


# ONNX Runtime 1.31 compares int64 in 32 bits where it has AVX-512, and takes an end of 2^63 - 1 for
# "all of it" where it steps backwards, too (the standard, and NumPy, end where they start).
INTEGERS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Mod": np.mod}


def sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any = (1,)) -> np.ndarray:
    """A slice along one axis."""
    at = [slice(None)] * x.ndim
    at[int(axes[0])] = slice(int(starts[0]), int(ends[0]), int(steps[0]))
    return x[tuple(at)]


def reference(case: Case, model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What ONNX Runtime makes of a model, NumPy of whole numbers and slices."""
    if case.op in INTEGERS:
        return INTEGERS[case.op](x, *case.rest)
    if case.op == "Slice":
        return sliced(x, *case.rest)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": x})[0]
