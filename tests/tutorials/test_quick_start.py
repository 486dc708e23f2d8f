"""A model from layers, a pipeline, a build, a run."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb import relax
from mlcnb.relax.frontend import nn


class MLPModel(nn.Module):
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


def test_from_layers_to_a_result(capsys):
    mod, param_spec = MLPModel().export_tvm(
        spec={"forward": {"x": nn.spec.Tensor((1, 20), "float32")}}
    )
    mod.show()
    assert "def forward" in capsys.readouterr().out
    mod = relax.get_pipeline("zero")(mod)
    target = tvm.target.Target("llvm")
    ex = relax.build(mod, target)
    device = tvm.cpu()
    vm = relax.VirtualMachine(ex, device)
    data = np.random.rand(1, 20).astype("float32")
    tvm_data = tvm.nd.array(data, device=device)
    arrays = [np.random.rand(*param.shape).astype("float32") for _, param in param_spec]
    params = [tvm.nd.array(param, device=device) for param in arrays]
    out = vm["forward"](tvm_data, *params).numpy()
    w0, b0, w1, b1 = arrays
    np.testing.assert_allclose(out, np.maximum(data @ w0.T + b0, 0) @ w1.T + b1, rtol=1e-4)
