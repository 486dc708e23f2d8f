"""ONNX models as IRModules.

mod = from_onnx("model.onnx", shape={"x": (1, 3, 224, 224)})
coverage()          which operators of ONNX are imported, at which opsets
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.onnx.entry": "from_onnx",
        "mlcnb.relax.frontend.onnx.coverage": "coverage=table Coverage",
        "mlcnb.relax.frontend.shared.errors": "UnknownValueError SpellingError",
    },
)
