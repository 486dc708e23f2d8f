"""Weights under torch.compile: constants without gradients, and never older than the model's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

import mlcnb.driver  # noqa: E402
import mlcnb.relax.frontend.torch  # noqa: E402 (registers the backend)
from mlcnb.core import above  # noqa: E402
from mlcnb.relax.frontend.torch.weights import PATIENCE, Bound  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(autouse=True)
def anew():
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compiled(monkeypatch):
    """How many inputs main has, of each module that is compiled."""
    found, compile_module = [], mlcnb.driver.compile

    def spy(mod, *args, **options):
        found.append(len(mod["main"].params))
        return compile_module(mod, *args, **options)

    ask = above.ask
    monkeypatch.setattr(above, "ask", lambda word: spy if word == "compile" else ask(word))
    return found


def net():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(27, 4))


def pair():
    """A model in eval mode, compiled; the model; an input."""
    model = net().eval()
    return torch.compile(model, backend="mlcnb"), model, torch.randn(2, 2, 5, 5)


def replace_parameter(model):
    model[3].weight = nn.Parameter(torch.randn(4, 27))


def train_a_step(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    with torch.enable_grad():
        model.train()(torch.randn(3, 2, 5, 5)).pow(2).sum().backward()
    optimizer.step()
    model.eval()


def write_through_numpy(model):
    model[3].bias.detach().numpy()[1] = 5


WRITES = {
    "in place": lambda m: m[3].weight.mul_(2),
    "by a view": lambda m: m[3].weight.view(-1)[5:6].fill_(9),
    "of a buffer": lambda m: m[1].running_var.fill_(4),
    "of a state dict": lambda m: m.load_state_dict(net().state_dict()),
    "past the counter of versions": lambda m: m[3].weight.data.mul_(2),
    "through NumPy": write_through_numpy,
    "of one element past the counter": lambda m: m[3].weight.data.view(-1)[40:41].fill_(7),
    "of a mask, as pruning does": lambda m: m[3].weight.data.mul_(torch.eye(4, 27)),
    "of .data": lambda m: setattr(m[0].weight, "data", torch.randn(3, 2, 3, 3)),
    "of a parameter": replace_parameter,
    "of an optimizer": train_a_step,
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_is_seen(name, compiled):
    run, model, x = pair()
    with torch.no_grad():
        before = run(x)
        torch.testing.assert_close(before, model(x))
        run(x)
        assert compiled == [1]
        WRITES[name](model)
        torch.testing.assert_close(run(x), model(x))
        assert not torch.allclose(run(x), before)
        run(x)
    assert set(compiled) == {1} and len(compiled) == 2


def test_the_same_memory_with_other_weights():
    run, model, x = pair()
    with torch.inference_mode():
        torch.testing.assert_close(run(x), model(x))
        model[3].weight.add_(1)
        torch.testing.assert_close(run(x), model(x))


def test_weights_made_in_inference_mode_are_inputs(compiled):
    with torch.inference_mode():
        model, x = net().eval(), torch.randn(2, 2, 5, 5)
        run = torch.compile(model, backend="mlcnb")
        run(x)
        model[3].weight.mul_(2)
        torch.testing.assert_close(run(x), model(x))
    assert len(compiled) == 1 and compiled[0] > 1


def test_weights_that_lie_in_another_order():
    model, x = net().eval().to(memory_format=torch.channels_last), torch.randn(2, 2, 5, 5)
    run = torch.compile(model, backend="mlcnb")
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        model[0].weight.data.neg_()
        torch.testing.assert_close(run(x), model(x))


def test_weights_are_inputs_where_gradients_are_wanted(compiled):
    run, model, x = pair()
    run(x).sum().backward()
    assert compiled == [9, 9] and model[0].weight.grad is not None  # forward, and backward


def test_weights_are_inputs_where_one_says_so(compiled):
    model, x = net().eval(), torch.randn(2, 2, 5, 5)
    run = torch.compile(model, backend="mlcnb", options={"constant_weights": False})
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
    assert compiled == [9]


def test_versions_alone_are_asked_where_one_says_so(compiled):
    model, x = net().eval(), torch.randn(2, 2, 5, 5)
    run = torch.compile(model, backend="mlcnb", options={"constant_weights": "versions"})
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        model[3].weight.mul_(2)
        torch.testing.assert_close(run(x), model(x))
    assert compiled == [1, 1]


def test_another_word_is_refused():
    run = torch.compile(net().eval(), backend="mlcnb", options={"constant_weights": "always"})
    with torch.no_grad(), pytest.raises(Exception, match="constant_weights='always'"):
        run(torch.randn(2, 2, 5, 5))


def test_a_weight_that_changes_again_and_again_becomes_an_input(compiled):
    run, model, x = pair()
    with torch.no_grad():
        for _ in range(PATIENCE + 3):
            model[3].bias.add_(1)
            torch.testing.assert_close(run(x), model(x))
    assert compiled == [1] * PATIENCE + [2]


def test_a_buffer_that_the_model_writes_is_an_input(compiled):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return self.fc(x) * self.calls

    model, x = Counter().eval(), torch.randn(2, 3)
    run = torch.compile(model, backend="mlcnb")
    with torch.no_grad():
        for n in range(1, 4):
            torch.testing.assert_close(run(x), model.fc(x) * n)
    assert compiled == [2]


def test_models_that_share_a_graph():
    models, x = [net().eval() for _ in range(3)], torch.randn(2, 2, 5, 5)
    made = []

    def make(constant):
        made.append(constant[0])
        return lambda inputs: [constant[0].clone()]

    bound = Bound([0], make)
    for _ in range(2):
        for model in models:
            weight = model[0].weight
            assert torch.equal(bound(weight, x)[0], weight)
    assert len(made) == 3
    with torch.no_grad():
        models[1][0].weight.add_(1)
    bound(models[1][0].weight, x)
    assert made[3] is made[1] and len(bound.bindings) == 3
