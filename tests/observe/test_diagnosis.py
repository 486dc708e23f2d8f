"""The doctor: what it finds, and what it says about what is missing."""

from __future__ import annotations

import ctypes
from importlib import metadata

import pytest

from mlcnb.observe import diagnosis
from mlcnb.observe.diagnosis import Diagnosis, Finding, doctor, find_gpu, find_package


class FakeDriver:
    """The few entries of the NVIDIA driver library that are asked for."""

    def __init__(self, start: int = 0, devices: int = 1, version: int = 13000) -> None:
        self.cuInit = lambda flags: start
        self.devices = devices
        self.version = version

    def cuDriverGetVersion(self, out):
        return put(out, ctypes.c_int, self.version)

    def cuDeviceGetCount(self, out):
        return put(out, ctypes.c_int, self.devices)

    def cuDeviceGet(self, out, index):
        return put(out, ctypes.c_int, index)

    def cuDeviceGetName(self, buffer, size, device):
        buffer.value = b"NVIDIA H100"

    def cuDeviceGetAttribute(self, out, which, device):
        return put(out, ctypes.c_int, {75: 9, 76: 0}[which])

    def cuDeviceTotalMem_v2(self, out, device):
        return put(out, ctypes.c_size_t, 80 << 30)


def put(out, kind, value):
    ctypes.cast(out, ctypes.POINTER(kind))[0] = value
    return 0


def no_driver(name):
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.parametrize(
    ("load", "value"),
    [
        (no_driver, "none: no NVIDIA driver (libcuda.so.1 was not found)"),
        (
            lambda _: FakeDriver(100),
            "none: the NVIDIA driver refused to start (cuInit returned 100)",
        ),
        (lambda _: FakeDriver(devices=0), "none: the NVIDIA driver sees no device"),
        (lambda _: FakeDriver(), "NVIDIA H100 (sm_90, 80 GB); driver for CUDA 13.0"),
        (
            lambda _: FakeDriver(version=12040),
            "NVIDIA H100 (sm_90, 80 GB); driver for CUDA 12.4, but the cuda extra needs 13.0: "
            "update the NVIDIA driver",
        ),
    ],
)
def test_gpu(load, value, monkeypatch):
    monkeypatch.setattr(diagnosis.sys, "platform", "linux")
    assert find_gpu(load).value == value


def test_package_that_is_there_missing_or_too_old(monkeypatch):
    versions = {"numpy": "2.4.6", "onnx": "1.20.1"}

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    assert find_package("numpy", ">=2.0", "pip install x").value == "2.4.6"
    old = find_package("onnx", ">=1.21", "pip install x")
    assert (old.value, old.ok) == ("1.20.1, but mlcnb needs >=1.21", False)
    assert old.remedy == "pip install x --upgrade"
    gone = find_package("cupy-cuda13x", ">=14", 'pip install "mlcnb[cuda]"')
    assert (gone.value, gone.remedy) == ("missing", 'pip install "mlcnb[cuda]"')


def test_text_names_each_remedy_once():
    missing = [Finding(name, "missing", False, "pip install x") for name in ("a", "b")]
    text = str(Diagnosis({"base": (Finding("numpy", "2.4.6"),), "cuda": tuple(missing)}))
    assert text == (
        "base\n"
        "  numpy                2.4.6\n"
        "\n"
        "cuda\n"
        "  a                    missing\n"
        "  b                    missing\n"
        "  to install: pip install x"
    )


def test_this_machine():
    found = doctor()
    assert found.is_healthy
    machine = found.as_dict()["machine"]
    assert machine["CPU"]["vector_bits"] in (0, 128, 256, 512)
    assert machine["cores"]["usable"] >= 1
    assert machine["LLVM"]["ok"]
    assert machine["graph pictures"]["engine"]
    assert {"base", "lab", "cuda", "torch", "bench", "dev"} <= set(found.sections)
    assert all(finding.ok or finding.remedy for finding in found.sections["cuda"])


def test_the_remedy_names_this_interpreter_and_the_extra(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diagnosis.sys, "executable", str(tmp_path / ".venv/bin/python"))
    assert diagnosis.install_command("cuda") == '.venv/bin/python -m pip install "mlcnb[cuda]"'
    assert diagnosis.install_command() == '.venv/bin/python -m pip install "mlcnb"'
