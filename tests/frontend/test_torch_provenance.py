"""A line of the user's model is known by the graph call, the kernel's blocks and its assembly."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.codegen.llvm.linked import Linked
from mlcnb.core import display
from mlcnb.core.node import walk
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call
from mlcnb.tir.stmt import Block

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

from mlcnb.relax.frontend.torch import dynamo_capture_subgraphs, from_fx  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Net(nn.Module):
    """One kernel of two lines, and one of a third."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 32)

    def forward(self, x):
        y = self.fc(x)
        y = torch.relu(y)
        return y.softmax(-1)


def place(offset):
    return f"test_torch_provenance.py:{Net.forward.__code__.co_firstlineno + offset}"


LINEAR, RELU, SOFTMAX = (
    f"{name} at {place(i + 1)}" for i, name in enumerate(("linear", "relu", "softmax"))
)


@pytest.fixture(scope="module")
def imported():
    torch.manual_seed(0)
    return mlc.from_torch(Net().eval(), torch.randn(20, 64))


@pytest.fixture(scope="module")
def kernels(imported):
    return mlc.compile(imported, target="llvm -mcpu=x86-64-v3").kernels


def test_the_graph_call(imported):
    values = [b.value for b in bindings_of(imported["main"])]
    told = [(v.op.name, v.span.name) for v in values if isinstance(v, Call)]
    assert told == [
        ("relax.matmul", LINEAR),
        ("relax.add", LINEAR),
        ("relax.nn.relu", RELU),
        ("relax.nn.softmax", SOFTMAX),
    ]


def blocks_of(kernels):
    """The blocks of the fused kernel that know where they come from."""
    (fused,) = (k for k in kernels.values() if "matmul" in k.name)
    blocks = [n for n in walk(fused.scheduled.body) if isinstance(n, Block) and n.span is not None]
    return {(b.name_hint.partition("_")[0], b.span.name) for b in blocks}


def test_the_blocks_of_the_kernel(kernels):
    assert blocks_of(kernels) == {("matmul", LINEAR), ("relu", RELU)}


def test_a_graph_of_symbolic_trace_knows_the_lines_that_its_tracer_recorded():
    """PyTorch's tracer keeps no lines unless it is told to: then the operator's name is known."""
    for records in (True, False):
        tracer, model = torch.fx.Tracer(), Net().eval()
        tracer.record_stack_traces = records
        graph = torch.fx.GraphModule(model, tracer.trace(model))
        mod = from_fx(graph, [((20, 64), "float32")])
        kernels = mlc.compile(mod, target="llvm -mcpu=x86-64-v3").kernels
        names = (LINEAR, RELU) if records else ("linear", "relu")
        assert blocks_of(kernels) == {("matmul", names[0]), ("relu", names[1])}


def test_under_torch_compile():
    """The graph that the backend gets, down to the assembly."""
    torch._dynamo.reset()
    mod = dynamo_capture_subgraphs(Net().eval(), torch.randn(20, 64))
    kernels = mlc.compile(mod, target="llvm -mcpu=x86-64-v3").kernels
    product = f"addmm at {place(1)}"
    assert {span for _, span in blocks_of(kernels)} == {product, RELU}
    (fused,) = (k for k in kernels.values() if "matmul" in k.name)
    found = Linked(fused)
    assert found.model.texts == [f"{product} (addmm)", f"{RELU} (relu)"]
    assembly = found.code().assembly
    code = [n for n, is_code in enumerate(assembly.code) if is_code and assembly.places[n]]
    assert any(assembly.places[n][0] in found.model.links[0] for n in code)


def test_the_assembly_of_a_fused_kernel(kernels):
    (fused,) = (k for k in kernels.values() if "matmul" in k.name)
    found = Linked(fused)
    names = [f"{LINEAR} (linear)", f"{RELU} (relu)"]
    assert found.model.texts == names
    assembly = found.code().assembly
    rows = [
        {assembly.lines[row].split()[0] for line in lines for row in assembly.at(line)}
        for lines in found.model.links
    ]
    linear, relu = rows
    assert any(m.startswith("vfmadd") for m in linear)
    assert any(m.startswith(("vmax", "vcmp")) for m in relu)
    assert not any(m.startswith("vfmadd") for m in relu)
    assert not any(m.startswith(("vmax", "vcmp")) for m in linear)
    assert place(1) in display.text(found) and place(2) in display.text(found)


def test_the_assembly_of_a_kernel_of_one_node(kernels):
    (softmax,) = (k for k in kernels.values() if k.name == "softmax")
    found = Linked(softmax)
    assert found.model.texts == [f"{SOFTMAX} (softmax)"]
    assembly = found.code().assembly
    code = [n for n, is_code in enumerate(assembly.code) if is_code and assembly.places[n]]
    assert code and all(assembly.places[n][0] in found.model.links[0] for n in code)
