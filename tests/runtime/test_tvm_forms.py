"""What TVM's callers expect of executables: Tensors back, timers, sources, parameters as bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as tvm
from mlcnb import relax, te
from mlcnb.script import ir as I
from mlcnb.script import relax as R

X = np.arange(6, dtype="float32").reshape(2, 3) - 2


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            y = R.nn.relu(x)
            z = (y, R.negative(x))
            R.output(z)
        return z


def test_what_comes_back_is_what_went_in():
    ex = tvm.compile(Module)
    vm = relax.VirtualMachine(ex, tvm.cpu())
    for run in (ex, ex["main"], vm["main"], vm.get_function("main")):
        for x, kind in ((X, np.ndarray), (tvm.nd.array(X), tvm.nd.NDArray)):
            for _ in range(3):
                y, z = run(x)
                assert type(y) is kind and type(z) is kind
                np.testing.assert_array_equal(np.asarray(y), np.maximum(X, 0))
                np.testing.assert_array_equal(np.asarray(z), -X)


def test_a_timer():
    ex = tvm.compile(Module)
    calls = []

    def call(x):
        calls.append(x)

    timer = tvm.runtime.evaluator.evaluator(call, number=3, repeat=4)
    found = timer(1)
    assert len(calls) == 1 + 3 * 4 and len(found.results) == 4
    assert found.min <= found.median <= found.max and found.min <= found.mean <= found.max
    assert found.std >= 0 and "4 repeats" in repr(found)
    known = tvm.runtime.BenchmarkResult((1.0, 2.0, 6.0))
    assert (known.mean, known.median, known.min, known.max) == (3.0, 2.0, 1.0, 6.0)
    assert known.std == pytest.approx(np.std([1, 2, 6]))
    for owner in (ex, relax.VirtualMachine(ex, tvm.cpu())):
        assert owner.time_evaluator("main", tvm.cpu(), number=2)(X).mean > 0
    slow = ex.time_evaluator(ex.entry_name, tvm.cpu(), number=1, min_repeat_ms=2)(X)
    assert slow.mean < 2e-3
    with pytest.raises(tvm.MLCError, match="time_evaluator: number=0, repeat=1: both from 1 on"):
        ex.time_evaluator("main", number=0)


def test_inputs_kept_and_calls_saved():
    vm = relax.VirtualMachine(tvm.compile(Module), tvm.cpu())
    with pytest.raises(tvm.MLCError, match="main: no inputs are set"):
        vm.invoke_stateful("main")
    vm.set_input("main", x=X)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main")[1], -X)
    vm.save_function("main", "main_of_x", X)
    np.testing.assert_array_equal(vm["main_of_x"]()[1], -X)
    with pytest.raises(tvm.MLCError, match="main has no input 'q'\nhint: its inputs are x"):
        vm.set_input("main", q=X)


@I.ir_module
class Difference:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        z = R.subtract(x, y)
        return z


def test_arguments_by_the_names_of_parameters():
    vm = relax.VirtualMachine(tvm.compile(Difference), tvm.cpu())
    vm.save_function("main", "swapped", y=X, x=2 * X)
    vm.save_function("main", "mixed", X, y=3 * X)
    np.testing.assert_array_equal(vm["swapped"](), X)
    np.testing.assert_array_equal(vm["mixed"](), -2 * X)
    vm.set_input("main", 5 * X, y=X)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main"), 4 * X)
    with pytest.raises(tvm.MLCError, match="main wants an input 'x'\nhint: give all of its inputs"):
        vm.set_input("main", y=X)
    with pytest.raises(tvm.MLCError, match="main has no input 'x' that is left"):
        vm.save_function("main", "twice", X, x=X)


def test_what_runs_as_text():
    ex = tvm.compile(Module)
    assert ex.as_text() == str(ex.mod["main"])
    assert ex.as_text().count("R.call_tir(") == 2
    assert ex.stats() == str(ex) and "2 calls of 2 kernels" in ex.stats()


def loops(bound: bool) -> tvm.IRModule:
    A = te.placeholder((8,), "float32", name="A")
    B = te.compute((8,), lambda i: A[i] * 2, name="B")
    sch = tvm.tir.Schedule(te.create_prim_func([A, B]))
    if bound:
        i, j = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 4])
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")
    return sch.mod


def test_sources():
    lib = tvm.build(loops(False), target="llvm")
    assert isinstance(lib, tvm.runtime.Module)
    assert "define" in lib.get_source() and lib.get_source("ll") == lib.inspect_source()
    assert "ret" in lib.get_source("asm") and lib.imported_modules == []
    with pytest.raises(tvm.MLCError) as error:
        lib.get_source("cu")
    assert str(error.value) == "an executable for llvm has no source 'cu'\nhint: it has 'll', 'asm'"
    gpu = tvm.tir.build(loops(True), target="cuda")
    (part,) = gpu.imported_modules
    assert "__global__" in part.get_source() and part.type_key == "cuda"
    assert part.get_source("cuda") == part.inspect_source() == gpu.get_source()


PARAMS = {"w": X, "b": np.array([1, -2], "int64"), "t": np.array(True), "h": X.astype("float16")}


def test_parameters_as_bytes(tmp_path):
    data = tvm.runtime.save_param_dict({k: tvm.nd.array(v) for k, v in PARAMS.items()})
    found = tvm.runtime.load_param_dict(data)
    assert list(found) == list(PARAMS)
    for name, value in PARAMS.items():
        assert found[name].dtype == value.dtype.name
        np.testing.assert_array_equal(found[name].numpy(), value)
    tvm.runtime.save_param_dict_to_file(PARAMS, tmp_path / "p.bin")
    again = tvm.runtime.load_param_dict_from_file(tmp_path / "p.bin")
    assert tvm.runtime.save_param_dict(again) == data


def test_the_bytes_are_those_of_tvm():
    # what TVM 0.27 writes for {"b": int64 [1, -2]}
    data = bytes.fromhex(
        "b79c04054f8de5f70000000000000000010000000000000001000000000000006201000000000000003fa1b496"
        "f0405edd0000000000000000010000000000000001000000004001000200000000000000100000000000000001"
        "00000000000000feffffffffffffff"
    )
    assert tvm.runtime.save_param_dict({"b": PARAMS["b"]}) == data
    np.testing.assert_array_equal(tvm.runtime.load_param_dict(data)["b"].numpy(), [1, -2])


@given(st.integers(0, 200), st.integers(1, 255), st.booleans())
def test_damaged_bytes_are_refused_or_read(place, change, cut):
    data = bytearray(tvm.runtime.save_param_dict(PARAMS))
    if cut:
        del data[place:]
    else:
        data[place] ^= change
    try:
        found = tvm.runtime.load_param_dict(bytes(data))
    except tvm.MLCError:
        return
    assert len(found) == len(PARAMS)


def test_a_count_that_no_file_can_hold():
    data = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, 1 << 60)
    with pytest.raises(tvm.MLCError, match="load_param_dict: damaged, the bytes end too early"):
        tvm.runtime.load_param_dict(data)


def test_targets_by_device_and_attribute():
    gpu = tvm.target.Target("nvidia/geforce-rtx-3090-ti")
    assert (gpu.kind.name, gpu.arch, gpu.max_num_threads) == ("cuda", "sm_86", 1024)
    assert tvm.target.Target("cuda").thread_warp_size == 32
    assert tvm.target.Target.from_device(tvm.cpu()) == tvm.target.Target("llvm")
    with pytest.raises(AttributeError, match="a Target has no 'colour'"):
        gpu.colour
    if not tvm.cuda(0).exist:
        with pytest.raises(tvm.MLCError) as error:
            tvm.target.Target.from_device(tvm.cuda(0))
        assert str(error.value) == (
            "no cuda(0) here to make a target of\n"
            'hint: name one: Target("nvidia/geforce-rtx-3090-ti"), or Target("llvm")'
        )


def test_tensors_between_devices():
    a = tvm.nd.array(X, tvm.cpu())
    b = tvm.nd.empty((2, 3))
    a.copyto(b)
    np.testing.assert_array_equal(b.asnumpy(), X)
    np.testing.assert_array_equal(a.copyto(tvm.cpu()).numpy(), X)
    np.testing.assert_array_equal(b.copyfrom(X * 2).numpy(), X * 2)
    assert (a.ndim, len(a), a.shape) == (2, 2, (2, 3))
