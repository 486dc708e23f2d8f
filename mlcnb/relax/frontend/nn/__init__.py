"""nn: models written as classes, as in PyTorch, that become graph functions.

    from mlcnb.relax.frontend import nn

    class MLP(nn.Module):
        def __init__(self):
            self.fc1 = nn.Linear(784, 256)
            self.fc2 = nn.Linear(256, 10)

        def forward(self, x):
            return self.fc2(nn.relu(self.fc1(x)))

    mod, params = MLP().export_tvm({"forward": {"x": nn.spec.Tensor(("n", 784), "float32")}})

Names and forms are those of TVM's `relax.frontend.nn`; the operators are here and in `nn.op`.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach
from mlcnb.relax.frontend.nn import modules, op

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.nn.exporter": "Exporter add_extern",
        "mlcnb.relax.frontend.nn.extern": "ExternModule ObjectModule SourceModule",
        "mlcnb.relax.frontend.nn.subroutine": "SubroutineMixin",
        "mlcnb.relax.frontend.nn.tensor": (
            "Effect Object Parameter Tensor get_default_dtype set_default_dtype"
        ),
        "mlcnb.relax.frontend.nn.visitor": "Mutator",
        "mlcnb.relax.frontend.nn.op": " ".join(op.__all__),
        "mlcnb.relax.frontend.nn.modules": " ".join(modules.__all__),
    },
    submodules=("core", "modules", "op", "spec"),
)
