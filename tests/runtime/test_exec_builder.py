"""relax.ExecBuilder: programs of a register machine, written by hand, run and refused."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
import mlcnb.relax.testing.vm  # registers test.vm.…
from mlcnb import relax
from mlcnb.core.errors import ExecutionError, RuntimeInputError, WellFormedError


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape)


def run(program, name: str, *args):
    return relax.VirtualMachine(program, mlc.cpu())[name](*args)


def test_a_program_its_text_and_its_result() -> None:
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(100))
        ib.emit_call("test.vm.mul", args=[ib.r(1), ib.r(100)], dst=ib.r(50))
        ib.emit_ret(ib.r(50))
    program = ib.get()
    assert program.as_text() == (
        "@main:\n"
        "  call test.vm.add in: %0, %1 dst: %2\n"
        "  call test.vm.mul in: %1, %2 dst: %3\n"
        "  ret %3\n"
    )
    assert program.stats() == "1 function, 3 instructions, 0 constants"
    a, b = array(4), array(4, seed=1)
    np.testing.assert_allclose(run(program, "main", a, b), b * (a + b))
    given = mlc.runtime.tensor(a)
    assert isinstance(run(program, "main", given, given), mlc.runtime.Tensor)


def test_jumps_constants_and_functions_of_the_program() -> None:
    ib = relax.ExecBuilder()
    with ib.function("twice", num_inputs=1):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("main", num_inputs=2):
        ib.emit_if(ib.r(0), 3)
        ib.emit_call("twice", args=[ib.r(1)], dst=ib.r(2))
        ib.emit_goto(2)
        ib.emit_call("test.vm.mul", args=[ib.r(1), np.full(3, 5.0)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    program = ib.get()
    a = array(3)
    np.testing.assert_allclose(run(program, "main", 1, a), a + a)
    np.testing.assert_allclose(run(program, "main", np.asarray(0), a), a * 5.0)


def test_closures_storages_shapes_and_numbers() -> None:
    ib = relax.ExecBuilder()
    with ib.function("inner", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("closed", num_inputs=1):
        ib.emit_call("vm.builtin.make_closure", args=[ib.f("inner"), ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("memory", num_inputs=0):
        state, kind = ib.vm_state(), mlc.DataType("float32")
        storage = [state, (24,), ib.convert_constant(0), kind, ib.convert_constant("global")]
        ib.emit_call("vm.builtin.alloc_storage", args=storage, dst=ib.r(1))
        made = [ib.r(1), ib.imm(0), (4, 6), kind]
        ib.emit_call("vm.builtin.alloc_tensor", args=made, dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("shape", num_inputs=1):
        ib.emit_call("vm.builtin.shape_of", args=[ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("less", num_inputs=1):
        ib.emit_call("test.vm.add_scalar", args=[ib.imm(-3), ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    vm = relax.VirtualMachine(ib.get(), mlc.cpu())
    a, b = mlc.runtime.tensor(array(2, 3)), mlc.runtime.tensor(array(2, 3, seed=1))
    result = vm.invoke_closure(vm["closed"](a), b)
    np.testing.assert_allclose(result.numpy(), a.numpy() + b.numpy())
    assert (vm["memory"]().shape, vm["memory"]().device) == ((4, 6), mlc.cpu())
    assert vm["shape"](a) == (2, 3)
    assert vm["less"](1) == -2


def test_equal_constants_are_one() -> None:
    ib = relax.ExecBuilder()
    shape = mlc.runtime.ShapeTuple
    assert ib.convert_constant("a") == ib.convert_constant("a")
    assert ib.convert_constant(shape([1, 2])) == ib.convert_constant((1, 2))
    assert ib.convert_constant((1, 2)) != ib.convert_constant((1, 3))
    assert ib.convert_constant(np.arange(3)) == ib.convert_constant(np.arange(3))
    assert ib.convert_constant(np.arange(3)) != ib.convert_constant(np.arange(3.0))
    with pytest.raises(WellFormedError, match="a dict is no constant"):
        ib.convert_constant({})


def test_what_cannot_run_is_refused() -> None:
    def built(write) -> relax.ExecBuilder:
        ib = relax.ExecBuilder()
        with ib.function("main", num_inputs=1):
            write(ib)
        return ib

    unwritten = built(lambda ib: ib.emit_ret(ib.r(1)))
    with pytest.raises(WellFormedError, match="%1 is read before it is written"):
        unwritten.get()
    with pytest.raises(WellFormedError, match="there is no instruction 5"):
        built(lambda ib: ib.emit_goto(5)).get()
    with pytest.raises(WellFormedError, match="main does not end"):
        built(lambda ib: ib.emit_call("f", args=[])).get()
    with pytest.raises(WellFormedError, match="outside of a function"):
        unwritten.emit_goto(1)
    again = pytest.raises(WellFormedError, match="is there already")
    with again, unwritten.function("main"):
        pass

    def missing(ib) -> None:
        ib.emit_call("test.vm.missing", args=[ib.r(0)], dst=ib.r(0))
        ib.emit_ret(ib.r(0))

    program = built(missing).get()
    with pytest.raises(ExecutionError, match=r"call of 'test\.vm\.missing': no function"):
        run(program, "main", 1)
    with pytest.raises(RuntimeInputError, match="main takes 1 input, got 2"):
        run(program, "main", 1, 2)
    with pytest.raises(RuntimeInputError, match="there is no function 'other'"):
        run(program, "other")
