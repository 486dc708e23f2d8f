"""An nn.Module in a cell: a tree of its parts."""

from mlcnb.relax.frontend import nn

TEXT = """\
MLP: 200,960 parameters (804 kB) and 1 parameter of open size
  part             kind        shape           dtype    parameters
  ├─ fc1           Linear                                  200,960
  │  ├─ weight                 [256, 784]      float32     200,704
  │  └─ bias                   [256]           float32         256
  ├─ relu          ReLU                                          0
  ├─ rest          Sequential                             0 + open
  │  └─ 0          Linear                                 0 + open
  │     └─ weight              [classes, 256]  float16        open
  └─ cache         KVCache"""


class MLP(nn.Module):
    def __init__(self):
        self.fc1 = nn.Linear(784, 256)
        self.relu = nn.ReLU()
        self.rest = nn.Sequential(nn.Linear(256, "classes", bias=False, dtype="float16"))
        self.cache = nn.KVCache(8, [2])
        self.size = 784


def test_text():
    assert repr(MLP()) == TEXT


def test_nothing_inside():
    assert repr(nn.ReLU()) == "ReLU: 0 parameters (0 B)"


def test_html_says_the_same():
    html = MLP().to_html()
    for cell in ("├─ fc1", "[classes, 256]", "float16", "200,704", "KVCache"):
        assert f">{cell}</" in html
    assert "<table" in html
    assert MLP()._repr_mimebundle_()["text/plain"] == TEXT


def test_a_shared_parameter_counts_once():
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    assert repr(tied).splitlines()[0] == "Sequential: 16 parameters (64 B)"
