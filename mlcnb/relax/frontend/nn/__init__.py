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

from mlcnb.relax.frontend.nn import core, modules, op, spec
from mlcnb.relax.frontend.nn.exporter import Exporter, add_extern
from mlcnb.relax.frontend.nn.extern import ExternModule, ObjectModule, SourceModule
from mlcnb.relax.frontend.nn.module import Module, ModuleDict, ModuleList, Sequential
from mlcnb.relax.frontend.nn.modules import *
from mlcnb.relax.frontend.nn.op import *
from mlcnb.relax.frontend.nn.subroutine import SubroutineMixin
from mlcnb.relax.frontend.nn.tensor import (
    Effect,
    Object,
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
)
from mlcnb.relax.frontend.nn.visitor import Mutator

__all__ = [name for name in list(globals()) if name[0] != "_"]
