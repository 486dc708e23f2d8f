"""The quantised forms of EfficientNet-Lite0, made with ONNX Runtime's quantiser from the assets.

qdq         QuantizeLinear and DequantizeLinear around operators on floats
qoperator   QLinearConv, QLinearAdd, QLinearGlobalAveragePool, QGemm

Activations are uint8, weights int8, one scale for a weight ("tensor") or one an output channel
("channel"). Calibrated on the three photos of the assets; the same files give the same model. The
models lie in a temporary folder (18 MB in, 5 MB out) and are made once for each version of it all.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mlcnb.observe import image

ASSETS = Path(__file__).parents[2] / "notebooks" / "assets"
SOURCE = ASSETS / "efficientnet_lite0.onnx"
PHOTOS = tuple(ASSETS / name for name in ("chelsea.png", "coffee.png", "rocket.jpg"))
FORMS = ("qdq", "qoperator")
SCALES = ("tensor", "channel")


def photos() -> list[np.ndarray]:
    """The photos as inputs of the model."""
    return [image.load(file) for file in PHOTOS]


class _Photos:
    """What the quantiser calls a calibration data reader."""

    def __init__(self) -> None:
        self.feeds: Iterator[dict[str, np.ndarray]] = iter([{"x": photo} for photo in photos()])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next photo, None after the last."""
        return next(self.feeds, None)


def quantized_model(form: str, scales: str) -> Path:
    """The file of a quantised EfficientNet-Lite0, made if it is not there.

    Args:
        form: "qdq" or "qoperator".
        scales: "tensor" or "channel".
    """
    assert form in FORMS and scales in SCALES, (form, scales)
    path = _folder() / f"efficientnet_lite0_{form}_{scales}.onnx"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as work:
            made = Path(work) / path.name
            _quantize(made, Path(work) / "prepared.onnx", form, scales == "channel")
            os.replace(made, path)
    return path


def _folder() -> Path:
    """Where the models lie: a folder for these sources and this version of the quantiser."""
    import onnxruntime

    content = hashlib.sha256(onnxruntime.__version__.encode())
    for file in (Path(__file__), SOURCE, *PHOTOS):
        content.update(file.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"mlcnb-quantized-{content.hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    return folder


def _quantize(target: Path, prepared: Path, form: str, per_channel: bool) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(SOURCE, prepared, skip_symbolic_shape=True)
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # the quantiser tells of every removed node
    quantize_static(
        prepared,
        target,
        _Photos(),
        quant_format=QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator,
        per_channel=per_channel,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    logging.root.setLevel(level)
