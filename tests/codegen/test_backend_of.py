"""A backend is a folder in `codegen`: found by its name, called by the driver and the runtime."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import codegen, target
from mlcnb.codegen.kernel import Kernel, backend_of
from mlcnb.core.errors import TargetError
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T

TOY = '''
"""Kernels that write down that they were called."""
from mlcnb.codegen.interp.program import run_prim_func
from mlcnb.codegen.kernel import Kernel, signature_of

CALLS = []

class ToyKernel(Kernel):
    def __init__(self, name, func):
        self.name, self.func, self.scheduled = name, func, func
        self.signature = signature_of(func, 0)

    def run(self, args, dims):
        CALLS.append((self.name, [a.shape for a in args]))
        return run_prim_func(self.func, list(args))

def build(funcs, target, schedule=None, progress=None, **host):
    return {name: ToyKernel(name, func) for name, func in funcs.items()}
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A folder `toy` beside the backends, and its kind of target."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("")
    (tmp_path / "toy" / "backend.py").write_text(TOY)
    monkeypatch.setattr(codegen, "__path__", [*codegen.__path__, str(tmp_path)])
    monkeypatch.setitem(target.KINDS, "toy", "a toy")
    yield
    for name in [name for name in sys.modules if name.startswith("mlcnb.codegen.toy")]:
        del sys.modules[name]


@I.ir_module
class Twice:
    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] + A[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Twice
        with R.dataflow():
            y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y


def test_a_folder_is_a_backend(toy):
    x = np.arange(4, dtype="float32")
    ex = mlc.compile(Twice, "toy", relax_pipeline="zero")
    np.testing.assert_array_equal(ex(x), 2 * x)
    (kernel,) = ex.kernels.values()
    assert sys.modules["mlcnb.codegen.toy.backend"].CALLS == [(kernel.name, [(4,), (4,)])]
    assert isinstance(kernel, Kernel) and not kernel.is_native


@pytest.mark.parametrize(("kind", "native"), [("llvm", True), ("interp", False)])
def test_kernels_say_the_same_of_themselves(kind, native):
    func = Twice["double"]
    (kernel,) = backend_of(kind).build({"double": func}, mlc.target.Target(kind)).values()
    assert isinstance(kernel, Kernel)
    assert (kernel.name, kernel.func, kernel.is_native) == ("double", func, native)
    assert [p.name for p in kernel.signature.params] == ["A", "B"]
    assert kernel.scheduled is func


def test_no_such_backend():
    with pytest.raises(TargetError) as error:
        backend_of("webgpu")
    assert str(error.value) == (
        "no backend compiles for 'webgpu'\nhint: there are cuda, cuda-sim, interp, llvm"
    )
