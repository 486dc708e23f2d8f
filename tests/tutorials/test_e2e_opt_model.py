"""End-to-end optimisation of a model from torch; what needs a GPU is left out."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import meta_schedule, relax

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
TOTAL_TRIALS = 8000


@pytest.fixture(scope="module")
def imported():
    from torch.export import export

    from mlcnb.relax.frontend.torch import from_exported_program
    from tests.frontend.torch_models import ResNet

    torch.manual_seed(0)
    torch_model = ResNet().eval()
    example_args = (torch.randn(1, 3, 32, 32, dtype=torch.float32),)
    with torch.no_grad():
        exported_program = export(torch_model, example_args)
        mod = from_exported_program(exported_program, keep_params_as_input=True)
        expected = torch_model(*example_args).numpy()
    mod, params = relax.frontend.detach_params(mod)
    return mod, params, example_args[0].numpy(), expected


def test_the_model_becomes_a_module(imported, capsys):
    mod, params, _, _ = imported
    mod.show()
    text = capsys.readouterr().out
    assert text.count("R.nn.conv2d(") == 6
    assert "R.matmul(" in text
    assert len(params["main"]) == len(mod["main"].params) - 1
    assert mod["main"].attrs["num_input"] == 1


def test_a_search_for_a_gpu_is_refused(imported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mod, _, _, _ = imported
    target = tvm.target.Target("nvidia/geforce-rtx-3090-ti")
    with pytest.raises(tvm.MLCError, match="schedules for cuda .* are not searched yet"):
        relax.get_pipeline("static_shape_tuning", target=target, total_trials=TOTAL_TRIALS)(mod)
    assert not list(tmp_path.iterdir())


def test_the_tuning_pipeline_searches(tmp_path):
    """Of a smaller network, with few trials: each loop function is tried, and scheduled."""
    from torch.export import export

    from mlcnb.relax.frontend.torch import from_exported_program

    net = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 5)).eval()
    x = torch.randn(3, 12)
    with torch.no_grad():
        mod = from_exported_program(export(net, (x,)), keep_params_as_input=True)
        expected = net(x).numpy()
    mod, params = relax.frontend.detach_params(mod)
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    pipeline = relax.get_pipeline(
        "static_shape_tuning", target=target, total_trials=4, work_dir=str(tmp_path)
    )
    tuned = pipeline(mod)
    loops = [f for f in tuned.functions.values() if isinstance(f, tvm.tir.PrimFunc)]
    assert loops and all(f.attrs["tir.is_scheduled"] for f in loops)
    assert len(meta_schedule.JSONDatabase(work_dir=str(tmp_path))) >= len(loops)
    vm = relax.VirtualMachine(tvm.compile(tuned, target=target), tvm.cpu())
    (found,) = vm["main"](tvm.runtime.tensor(x.numpy()), *params["main"])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_optimised_model_is_built_and_run(imported):
    mod, params, image, expected = imported
    with meta_schedule.MemoryDatabase():
        mod = relax.get_pipeline("static_shape_tuning", target="llvm")(mod)
    assert "R.nn.conv2d" not in mod["main"].script()
    ex = relax.build(mod, target="llvm")
    dev = tvm.device("cpu", 0)
    vm = relax.VirtualMachine(ex, dev)
    cpu_data = tvm.nd.array(image, dev)
    cpu_params = [tvm.nd.array(p, dev) for p in params["main"]]
    cpu_out = vm["main"](cpu_data, *cpu_params)[0].numpy()
    assert cpu_out.shape == expected.shape
    np.testing.assert_allclose(cpu_out, expected, rtol=1e-4, atol=1e-4)
