"""Graphs for a GPU: planned, compiled, saved without one; run by the text of their kernels."""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.cuda.gpu import runs_on
from mlcnb.core.errors import DeviceError, MissingDependencyError, ModelError
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.runtime.device_graph import DevicePlans
from tests.codegen.test_cuda_on_cpu import HEADER

op = relax.op
needs_nvrtc = pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


def network(batch: int = 2) -> mlc.IRModule:
    """A product with constant weights, a softmax, a view of an input: two results."""
    rng = np.random.default_rng(0)
    weights = relax.const(rng.standard_normal((24, 40)).astype("float32"))
    x = relax.Var("x", TensorStructInfo((batch, 24), "float32"))
    y = relax.Var("y", TensorStructInfo((batch, 40), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            hidden = bb.emit(op.nn.relu(op.matmul(x, weights)))
            shares = bb.emit(op.nn.softmax(op.multiply(hidden, y), axis=-1))
            both = bb.emit(op.matmul(shares, op.permute_dims(shares)))
            out = bb.emit_output(relax.Tuple([both, shares, op.reshape(y, (batch * 40,))]))
        bb.emit_func_output(out)
    return bb.get()


def inputs(batch: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = (batch, 24), (batch, 40)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


class ByText:
    """A device whose kernels are their CUDA C++, compiled by g++; its memory is NumPy's."""

    arch = "sm_90"

    def __init__(self, folder: Path, limit: int = 1 << 30) -> None:
        self.folder, self.limit, self.taken = folder, limit, 0
        self.launched: list[str] = []
        self.recorded = 0

    def allocate(self, kind, shape):
        self.taken += int(np.prod(shape)) * kind.itemsize
        if self.taken > self.limit:
            raise DeviceError("out of memory on a test")
        raw = np.full(int(np.prod(shape)) * kind.itemsize, 0xFF, "uint8")
        return raw.view(kind).reshape(shape)

    def upload(self, array, name):
        return np.array(array, order="C")

    def download(self, source, target):
        target[...] = source.reshape(target.shape)

    def copy(self, source):
        return source.copy()

    def part(self, memory, offset, kind, shape):
        count = int(np.prod(shape)) * kind.itemsize
        return memory.reshape(-1).view("uint8")[offset : offset + count].view(kind).reshape(shape)

    def load(self, kernel):
        entries = [self._entry(name, source) for name, source in kernel.sources.items()]
        text = f'#include "{HEADER}"\n{kernel.source}\n' + "\n".join(entries)
        made = self.folder / hashlib.sha256(text.encode()).hexdigest()
        made.with_suffix(".cpp").write_text(text)
        command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread"]
        subprocess.run([*command, str(made.with_suffix(".cpp")), "-o", f"{made}.so"], check=True,
                       timeout=240)  # fmt: skip
        return ctypes.CDLL(f"{made}.so")

    @staticmethod
    def _entry(name, source):
        params = source.text[source.text.index(f"{name}(") + len(name) + 1 :]
        params = params[: params.index(") {")].replace("__restrict__", "").split(",")
        kinds = [p.strip().rpartition(" ")[0] for p in params]
        given = [
            f"({kind})args[{i}]" if "*" in kind else f"*({kind}*)args[{i}]"
            for i, kind in enumerate(kinds)
        ]
        return (
            f'extern "C" void run_{name}(void** args, int* sizes) {{ launch_({{sizes[0], sizes[1], '
            f"sizes[2]}}, {{sizes[3], sizes[4], sizes[5]}}, [&] {{ {name}({', '.join(given)}); "
            "}); }"
        )

    def record(self, launches):
        self.recorded += 1
        return launches

    def mark(self):
        return "done"

    def wait(self, mark):
        assert mark == "done"

    def assign(self, target, source):
        target[...] = source

    def launch(self, module, name, args, grid, block, shared):
        self.launched.append(name)
        held = [np.asarray(a) for a in args]
        pointers = (ctypes.c_void_p * len(held))(*(a.ctypes.data for a in held))
        getattr(module, f"run_{name}")(pointers, (ctypes.c_int * 6)(*grid, *block))


def on(ex, device) -> None:
    """Run the graph of an executable on a device."""
    ex._plans["main"] = DevicePlans(ex.mod["main"], ex.kernels, ex.mod.functions, lambda: device)


def test_launches_and_memory_are_planned_without_a_gpu():
    ex = mlc.compile(network(), target="cuda")
    plans = ex.plans()
    launches = plans.launches()
    assert [x.kernel for x in launches] == [c.kernel for c in plans.layout().calls]
    for launch in launches:
        kernel = ex.kernels[launch.kernel]
        assert "__global__" in kernel.source and launch.symbol in kernel.sources
        assert all(n >= 1 for n in (*launch.grid, *launch.block))
        assert launch.block[0] * launch.block[1] <= 1024
    kinds = {a.storage.kind for x in launches for a in x.args}
    assert kinds == {"input", "output", "constant", "arena"}
    ends = [a.storage.offset + a.storage.size for x in launches for a in x.args
            if a.storage.kind == "arena"]  # fmt: skip
    assert max(ends) <= plans.plan().arena_bytes
    assert str(launches[0]).startswith(f"{launches[0].binding}: {launches[0].symbol}<<<(")


@pytest.mark.slow
@needs_compiler
def test_a_graph_on_a_device(tmp_path):
    ex, device = mlc.compile(network(), target="cuda"), ByText(tmp_path)
    on(ex, device)
    args = inputs()
    expected = mlc.compile(network(), target="llvm")(*args)
    for _ in range(2):  # the second call finds its memory dirty
        found = ex(*args)
        for x, y in zip(found, expected, strict=True):
            assert isinstance(x, np.ndarray) and x.flags.owndata
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    assert device.launched == [x.symbol for x in ex.plans().launches()] * 2


@pytest.mark.slow
@needs_compiler
def test_launches_are_recorded_once(tmp_path):
    with mlc.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        ex = mlc.compile(network(), target="cuda")
    assert ex.replays and not mlc.compile(network(), target="cuda").replays
    device = ByText(tmp_path)
    given = ex.mod["main"], ex.kernels, ex.mod.functions
    ex._plans["main"] = DevicePlans(*given, lambda: device, replays=True)
    made = mlc.compile(network(), target="llvm")
    kept = []
    for n in range(4):
        args = [x + n for x in inputs()]
        found, expected = ex(*args), made(*args)
        kept.append((found, expected))
        assert device.recorded == min(n, 1)
    for found, expected in kept:  # no result is in memory that a later call writes
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@needs_compiler
def test_open_sizes_are_planned_one_by_one(tmp_path):
    n = mlc.tir.Var("n", "int64")
    x = relax.Var("x", TensorStructInfo((n, 8), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.softmax(op.exp(x), axis=-1))
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get(), target="cuda")
    on(ex, ByText(tmp_path))
    for rows in (3, 1, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 8)).astype("float32")
        e = np.exp(np.exp(given))
        np.testing.assert_allclose(ex(given), e / e.sum(-1, keepdims=True), rtol=1e-5)


@needs_compiler
def test_a_device_without_enough_memory(tmp_path):
    ex = mlc.compile(network(), target="cuda")
    on(ex, ByText(tmp_path, limit=8))
    with pytest.raises(DeviceError, match="out of memory"):
        ex(*inputs())


@pytest.mark.skipif(mlc.cuda(0).exist, reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    ex = mlc.compile(network(), target="cuda")
    for what in (lambda: ex(*inputs()), lambda: mlc.nd.array(inputs()[0], mlc.cuda(0))):
        with pytest.raises((DeviceError, MissingDependencyError)) as caught:
            what()
        assert "can be read without a GPU" in caught.value.hint


@needs_nvrtc
def test_an_artifact_keeps_machine_code(tmp_path, monkeypatch):
    ex = mlc.compile(network(), target="cuda -arch=sm_90")
    path = ex.export_library(tmp_path / "model.tar")
    with tarfile.open(path) as tar:
        names = tar.getnames()
    assert {n.rpartition(".")[2] for n in names if "kernels/" in n} == {"cu", "cubin", "ptx"}

    def refused(*_):
        raise AssertionError("a compiler was asked")

    monkeypatch.setattr(nvrtc, "_library", refused)
    again = mlc.load_module(path)
    for name, kernel in ex.kernels.items():
        assert again.kernels[name].image("sm_90") == ("cubin", kernel.cubin)
        assert again.kernels[name].image("sm_100")[0] == "ptx"
        assert again.kernels[name].resources == kernel.resources
        with pytest.raises(DeviceError, match="was compiled for sm_90, and this GPU is sm_80"):
            again.kernels[name].image("sm_80")
    assert [*map(str, again.plans().launches())] == [*map(str, ex.plans().launches())]


@needs_nvrtc
def test_an_artifact_of_a_kernel_that_needed_launch_bounds(tmp_path, monkeypatch):
    """What was compiled to keep it from spilling is not the text that its kernel has."""

    def bounded(made):
        text = re.sub(r"__launch_bounds__\((\d+)\)", r"__launch_bounds__(\1, 2)", made.source)
        return nvrtc._machine_code(text, made.arch)

    monkeypatch.setattr(nvrtc, "_without_spills", bounded)
    monkeypatch.setattr(nvrtc.disk, "user_store", lambda: None)
    nvrtc._compiled.cache_clear()
    ex = mlc.compile(network(), target="cuda -arch=sm_90")
    assert all(", 2)" in k.binary.source and ", 2)" not in k.source for k in ex.kernels.values())
    again = mlc.load_module(ex.export_library(tmp_path / "model.tar")).kernels
    assert again.keys() == ex.kernels.keys()
    for name, kernel in ex.kernels.items():
        assert (again[name].cubin, again[name].source) == (kernel.cubin, kernel.source)
    nvrtc._compiled.cache_clear()


@needs_nvrtc
def test_an_artifact_of_other_kernels_is_refused(tmp_path, monkeypatch):
    ex = mlc.compile(network(), target="cuda -arch=sm_90")
    path = ex.export_library(tmp_path / "model.tar")
    kind = type(ex.kernels[0])
    plain = kind.source.fget
    monkeypatch.setattr(kind, "source", property(lambda self: plain(self) + "// newer\n"))
    with pytest.raises(ModelError, match="another version of mlcnb"):
        mlc.load_module(path)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_every_kernel_of_a_graph_has_machine_code(arch):
    ex = mlc.compile(network(), target=f"cuda -arch={arch}")
    for kernel in ex.kernels.values():
        assert (
            kernel.image(arch.rstrip("a")) == ("cubin", kernel.cubin)
            and kernel.cubin[:4] == b"\x7fELF"
        )
        assert all(r.spill_stores == r.spill_loads == 0 for r in kernel.resources.values())


def test_which_code_runs_where():
    assert runs_on("sm_80", "sm_86") and runs_on("sm_90", "sm_90") and runs_on("sm_90a", "sm_90")
    assert not runs_on("sm_86", "sm_80") and not runs_on("sm_80", "sm_90")
    assert not runs_on("sm_90a", "sm_100") and not runs_on("sm_90", "sm_120")
