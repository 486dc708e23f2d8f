"""One module made three ways, looked at, transformed and run."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.relax.frontend import nn
from mlcnb.script import ir as I
from mlcnb.script import relax as R


def from_torch():
    torch = pytest.importorskip("torch")
    from mlcnb.relax.frontend.torch import from_exported_program

    class TorchModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = torch.nn.Linear(20, 16)
            self.relu1 = torch.nn.ReLU()
            self.fc2 = torch.nn.Linear(16, 5)

        def forward(self, x):
            x = self.fc1(x)
            x = self.relu1(x)
            x = self.fc2(x)
            return x

    model = TorchModel().eval()
    example_args = (torch.randn(1, 20, dtype=torch.float32),)
    with torch.no_grad():
        exported_program = torch.export.export(model, example_args)
        mod_from_torch = from_exported_program(
            exported_program, keep_params_as_input=True, unwrap_unit_return_tuple=True
        )
    return model, relax.frontend.detach_params(mod_from_torch)


class RelaxModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 16)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(16, 5)

    def forward(self, x):
        x = self.fc1(x)
        x = self.relu1(x)
        x = self.fc2(x)
        return x


@I.ir_module
class TVMScriptModule:
    @R.function
    def main(
        x: R.Tensor((1, 20), dtype="float32"),
        fc1_weight: R.Tensor((16, 20), dtype="float32"),
        fc1_bias: R.Tensor((16,), dtype="float32"),
        fc2_weight: R.Tensor((5, 16), dtype="float32"),
        fc2_bias: R.Tensor((5,), dtype="float32"),
    ) -> R.Tensor((1, 5), dtype="float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            permute_dims = R.permute_dims(fc1_weight, axes=None)
            matmul = R.matmul(x, permute_dims, out_dtype="void")
            add = R.add(matmul, fc1_bias)
            relu = R.nn.relu(add)
            permute_dims1 = R.permute_dims(fc2_weight, axes=None)
            matmul1 = R.matmul(relu, permute_dims1, out_dtype="void")
            add1 = R.add(matmul1, fc2_bias)
            gv = add1
            R.output(gv)
        return gv


def test_from_layers_and_from_text(capsys):
    mod_from_relax, params_from_relax = RelaxModel().export_tvm(
        {"forward": {"x": nn.spec.Tensor((1, 20), "float32")}}
    )
    mod_from_relax.show()
    TVMScriptModule.show()
    said = capsys.readouterr().out
    assert "def forward" in said and "def main" in said
    assert len(params_from_relax) == 4


def test_from_torch_through_a_pipeline_to_a_result():
    model, (mod, params) = from_torch()
    (gv,) = mod.get_global_vars()
    assert mod[gv] == mod["main"] and gv.name_hint == "main"
    mod = relax.transform.LegalizeOps()(mod)
    assert len(mod.get_global_vars()) > 1
    mod = relax.get_pipeline("zero")(mod)
    exec = tvm.compile(mod, target="llvm")
    dev = tvm.cpu()
    vm = relax.VirtualMachine(exec, dev)
    raw_data = np.random.rand(1, 20).astype("float32")
    data = tvm.nd.array(raw_data, dev)
    cpu_out = vm["main"](data, *params["main"]).numpy()
    import torch

    with torch.no_grad():
        expected = model(torch.from_numpy(raw_data)).numpy()
    np.testing.assert_allclose(cpu_out, expected, rtol=1e-4, atol=1e-5)
