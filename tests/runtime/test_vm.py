"""The virtual machine: branches, casts, packed functions, operators without loops, stepping."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.core import registry
from mlcnb.core.errors import ExecutionError, MLCError, RuntimeInputError
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax import expr as rx
from mlcnb.relax.transform import LegalizeOps
from mlcnb.runtime.device import cpu
from mlcnb.runtime.vm import Frame, VirtualMachine
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from tests.runtime.programs import HEAD, chain, compiled, module, random

X, Y = random(2, 3), random(3, seed=1)
TARGETS = ["llvm", "interp"]


@pytest.fixture
def packed():
    """The packed functions of the program `packed`, registered for one test."""
    kept = dict(registry._functions)
    mlc.register_func("tests.double", lambda a: a * 2)

    @mlc.register_func("tests.add_into")
    def add_into(a, b, out):
        np.add(a, b, out=out)

    yield
    registry._functions.clear()
    registry._functions.update(kept)


@pytest.mark.parametrize("target", TARGETS)
def test_same_values_as_the_native_run(target):
    ex = compiled("chain", target)
    vm = mlc.relax.VirtualMachine(ex, mlc.cpu(), native=False)
    x = random(5, 64)
    np.testing.assert_array_equal(vm["main"](x), compiled("chain", target)(x))
    np.testing.assert_allclose(vm["main"](x), chain(x), rtol=1e-4, atol=1e-5)


def test_a_straight_function_is_one_native_call(monkeypatch):
    """Calls take no steps in Python; `steps` does, and so does a machine that is not native."""
    ex, x = compiled("chain", "llvm"), random(5, 64)
    monkeypatch.setattr(Frame, "steps", lambda frame: pytest.fail("stepped"))
    np.testing.assert_allclose(
        mlc.relax.VirtualMachine(ex)["main"](x), chain(x), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(pytest.fail.Exception, match="stepped"):
        mlc.relax.VirtualMachine(ex, native=False)["main"](x)


@pytest.mark.parametrize("target", TARGETS)
def test_steps_give_every_binding(target):
    ex = compiled("chain", target)
    x = random(3, 64)
    steps = list(ex.steps(x=x))
    bound = [b.var.name_hint for b in ex.mod["main"].body.bindings]
    assert [step.name for step in steps] == bound
    values = {step.name: step.value for step in steps}
    np.testing.assert_allclose(values["a"], x.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(values[bound[-1]], ex(x))
    assert {step.kernel for step in steps if step.kernel} == set(ex.kernels)
    assert all(step.seconds > 0 for step in steps)


def test_stepping_can_stop_halfway():
    steps = compiled("chain").steps(random(3, 64))
    first = next(steps)
    assert (first.name, first.kernel) == ("a", "sum")
    steps.close()


@pytest.mark.parametrize("target", TARGETS)
def test_branches(target):
    ex = compiled("branch", target)
    for condition in (True, np.array(True), mlc.nd.array(np.array(True))):
        np.testing.assert_allclose(ex(condition, Y), np.exp(Y) + Y, rtol=1e-6)
    np.testing.assert_array_equal(ex(False, Y), -Y * Y)
    with pytest.raises(RuntimeInputError) as caught:
        ex(np.array([True]), Y)
    assert str(caught.value) == "input 'c': expected 0 dimensions (), got shape (1,)"


@pytest.mark.parametrize("target", TARGETS)
def test_match_cast(target):
    ex = compiled("match_cast", target)
    for n in (0, 1, 5):
        np.testing.assert_array_equal(ex(random(n, 4)), 2 * random(n, 4))
    with pytest.raises(ExecutionError) as caught:
        ex(random(2, 3))
    assert str(caught.value) == (
        "match_cast of y: dimension 1 is 3, expected 4 (shape (2, 3) against (n, 4))"
    )
    with pytest.raises(RuntimeInputError) as caught:
        ex(random(3))
    assert str(caught.value) == "input 'x': expected 2 dimensions, got shape (3,)"


@pytest.mark.parametrize("target", TARGETS)
def test_operators_whose_result_depends_on_data(target):
    x = np.array([3, 1, 1, 2, 2, 3], np.float32)
    np.testing.assert_allclose(compiled("unique", target)(x), np.exp([1, 2, 3]), rtol=1e-6)
    found = compiled("nonzero", target)(np.array([[1, 0, 2], [0, 0, 3]], np.float32))
    np.testing.assert_array_equal(found, [[0, 0, 1], [0, 2, 2]])
    assert found.dtype == np.int64
    names = [step.kernel for step in compiled("unique", target).steps(x) if step.kernel]
    read = "numpy: relax.tensor_to_shape"
    assert names == ["unique_shape_func", read, "unique", "tir_exp"]


@pytest.mark.parametrize("target", TARGETS)
def test_packed_functions(packed, target):
    ex = mlc.compile(module("packed"), target=target)
    np.testing.assert_allclose(ex(Y), 3 * Y, rtol=1e-6)
    assert [s.kernel for s in ex.steps(Y) if s.kernel] == [
        "python: tests.double",
        "python: tests.add_into",
    ]


def test_a_packed_function_that_is_not_there():
    with pytest.raises(MLCError) as caught:
        compiled("packed")(Y)
    assert str(caught.value) == (
        "no global function 'tests.double'\nhint: register it with mlcnb.register_func"
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda a: a[:2],
            "the result of tests.double: dimension 0 is 2, expected 3 (shape (2,) against (3))",
        ),
        (
            lambda a: a.astype("f8"),
            "the result of tests.double: expected dtype float32, got float64",
        ),
        (lambda a: None, "the result of tests.double: expected a tensor, got NoneType"),
    ],
    ids=["shape", "dtype", "nothing"],
)
def test_packed_functions_that_break_their_promise(packed, function, message):
    mlc.register_func("tests.double", function, override=True)
    with pytest.raises(ExecutionError) as caught:
        compiled("packed")(Y)
    assert str(caught.value) == message


def test_an_error_of_a_packed_function_passes_through(packed):
    def broken(a):
        raise LookupError("mine")

    mlc.register_func("tests.double", broken, override=True)
    with pytest.raises(LookupError, match="mine"):
        compiled("packed")(Y)


@pytest.mark.parametrize("target", TARGETS)
def test_functions_that_call_functions(target):
    ex = compiled("calls_another", target)
    np.testing.assert_allclose(ex(Y), Y**4, rtol=1e-5)
    np.testing.assert_allclose(ex["square"](Y), Y**2, rtol=1e-6)


RECURSION = """
    @R.function
    def halve(n: R.Tensor((), "int64"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        done = R.less_equal(n, R.const(0, "int64"))
        if done:
            r = x
        else:
            m = R.subtract(n, R.const(1, "int64"))
            h = R.multiply(x, R.const(0.5, "float32"))
            r = cls.halve(m, h)
        return r
"""


@pytest.mark.parametrize("target", TARGETS)
def test_recursion(target):
    ex = mlc.compile(mlc.script.parse(HEAD + RECURSION), target=target)
    for n in (0, 1, 5):
        result = ex["halve"](np.array(n), Y)
        np.testing.assert_array_equal(result, Y * np.float32(0.5**n))
        assert not np.shares_memory(result, Y)


def test_a_program_before_it_is_lowered():
    """Operators run by their NumPy meaning, so a module runs at every stage."""
    ex = mlc.compile(module("chain"), relax_pipeline=None)
    x = random(4, 64)
    np.testing.assert_allclose(ex(x), chain(x), rtol=1e-5, atol=1e-6)
    assert {step.kernel.partition(":")[0] for step in ex.steps(x)} == {"numpy"}


def test_kernels_are_not_called_through_the_machine():
    with pytest.raises(RuntimeInputError) as caught:
        mlc.relax.VirtualMachine(compiled("matmul_kernel"))["matmul"]
    assert str(caught.value) == "'matmul' is no graph function\nhint: call ex[...] for kernels"


def test_packed_functions_cannot_write_to_constants(packed):
    text = """
    @R.function(pure=False)
    def main():
        c = R.const([1.0, 2.0, 3.0], "float32")
        a = R.call_packed("tests.spoil", c, sinfo_args=R.Tensor((3,), "float32"))
        return a
"""

    @mlc.register_func("tests.spoil")
    def spoil(a):
        a += 1
        return a

    ex = mlc.compile(mlc.script.parse(HEAD + text))
    with pytest.raises(ValueError, match="read-only"):
        ex()


def test_a_constant_whose_elements_lie_apart():
    weight = random(4, 3).T
    x = rx.Var("x", rx.tensor_info((2, 3), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.matmul(x, rx.Constant(weight))))
    ex = mlc.compile(bb.get(), relax_pipeline=LegalizeOps())
    assert not ex.mod["main"].body.bindings[0].value.args[1].fields[1].data.flags.c_contiguous
    (step,) = ex.steps(X)
    np.testing.assert_allclose(step.value, X @ weight, rtol=1e-5, atol=1e-6)


def test_python_functions_get_the_kind_of_array_that_the_caller_gave():
    seen = []

    def joined(a, b):
        seen.append((type(a), type(b)))
        return mlc.runtime.tensor(np.asarray(a) + np.asarray(b))

    def doubled(a, out):
        seen.append((type(a), type(out)))
        np.asarray(out)[...] = 2 * np.asarray(a)

    mlc.register_func("test_vm.joined", joined, override=True)
    mlc.register_func("test_vm.doubled", doubled, override=True)

    @I.ir_module
    class Module:
        @R.function
        def inner(x: R.Tensor((3,), "float32")):
            y = R.call_dps_packed("test_vm.doubled", (x,), out_sinfo=R.Tensor((3,), "float32"))
            return y

        @R.function
        def main(x: R.Tensor((3,), "float32")):
            cls = Module
            y = cls.inner(x)
            z = R.call_pure_packed("test_vm.joined", x, y, sinfo_args=R.Tensor((3,), "float32"))
            return z

    x = np.arange(3, dtype="float32")
    ex = mlc.compile(Module)
    for machine in (ex, relax.VirtualMachine(ex, mlc.cpu(), native=False)["main"]):
        for kind, given in ((np.ndarray, x), (mlc.runtime.Tensor, mlc.runtime.tensor(x))):
            seen.clear()
            result = machine(given)
            assert seen == [(kind, kind)] * 2
            assert type(result) is kind
            np.testing.assert_array_equal(np.asarray(result), 3 * x)


def test_the_stateful_way_gives_tensors_whatever_came_in():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            y = (x, R.add(x, x))
            return y

    x = np.arange(3, dtype="float32")
    vm = relax.VirtualMachine(mlc.compile(Module), mlc.cpu())
    vm.set_input("main", x)
    vm.invoke_stateful("main")
    first, second = vm.get_outputs("main")
    np.testing.assert_array_equal(first.numpy(), x)
    np.testing.assert_array_equal(second.numpy(), 2 * x)


@I.ir_module
class TwoKernels:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.sum(y)
            R.output(z)
        return z


def test_who_looks_on_sees_every_kernel():
    vm = VirtualMachine(relax.build(TwoKernels, "llvm"), cpu(), profile=True)
    x, w = np.ones((2, 3), "float32"), np.full((3, 2), 2, "float32")
    seen = []

    def look(kernel, name, before_run, ret_value, *args):
        seen.append((name, before_run, [a.shape for a in args], float(args[-1].numpy().sum())))
        return relax.VMInstrumentReturnKind.NO_OP

    vm.set_instrument(look)
    assert vm["main"](x, w) == 24
    names = [name for name, before, _, _ in seen if before]
    assert [name for name, before, _, _ in seen if not before] == names and len(names) == 2
    assert seen[1][2:] == ([(2, 3), (3, 2), (2, 2)], 24.0)

    def skip(kernel, name, before_run, ret_value, *args):
        args[-1].numpy()[...] = 5
        return relax.VMInstrumentReturnKind.SKIP_RUN

    vm.set_instrument(skip)
    assert vm["main"](x, w) == 5
    vm.set_instrument(None)
    assert vm["main"](x, w) == 24 and vm.native


def test_a_function_is_profiled_by_name():
    vm = VirtualMachine(relax.build(TwoKernels, "llvm"), cpu(), profile=True)
    found = vm.profile("main", np.ones((2, 3), "float32"), np.ones((3, 2), "float32"))
    rows = found.rows
    head, *lines = found.csv().splitlines()
    assert head == "name,kernel,seconds,share,flops,nbytes"
    calls = json.loads(found.json())["calls"]
    assert [line.split(",")[1] for line in lines] == [call["kernel"] for call in calls]
    assert [call["seconds"] for call in calls] == [row.seconds for row in rows]
    assert len(rows) == 2 and all(row.seconds > 0 for row in rows)
    with pytest.raises(MLCError):
        vm.profile("other", np.ones(3, "float32"))
