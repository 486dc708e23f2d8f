"""The page of all operators is what the declarations say."""

from __future__ import annotations

from pathlib import Path

from mlcnb.op import load_all, names, onnx, torch
from mlcnb.relax.operator import declaration
from mlcnb.testing.operators_page import dtypes, page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_is_as_new_as_the_declarations():
    hint = "run: python -m mlcnb.testing.operators_page docs/operators.md"
    assert PAGE.read_text() == page(), hint


def test_every_operator_stands_there_once():
    rows = [line for line in PAGE.read_text().split("\n") if line.startswith("| `")]
    assert len(rows) == len(names()) == len(set(rows))
    assert "## nn.activation" in PAGE.read_text() and "Relu (1-)" in PAGE.read_text()


def test_dtypes():
    assert dtypes(declaration("relax.add")) == ["int", "uint", "float"]
    assert dtypes(declaration("relax.exp")) == ["float"]
    assert dtypes(declaration("relax.logical_not")) == ["bool"]
    assert dtypes(declaration("relax.reshape")) == []


def test_every_foreign_operator_stands_there_once():
    load_all()
    for kind, known in (("ONNX", onnx.spellings()), ("torch", torch.torch_spellings())):
        lines = [line for line in PAGE.read_text().split("\n") if line.startswith(f"{kind}: ")]
        named = [name for line in lines for name in line.removeprefix(f"{kind}: ").split(", ")]
        assert len(named) == len(set(named)) == len(list(known))


def test_types_and_gradients():
    rows = {line.split("(")[0]: line.split(" | ") for line in PAGE.read_text().split("\n")}
    assert rows["| `nn.attention"][1] == "Tensor, Tensor, Tensor, [Tensor]"
    assert rows["| `concat"][1] == "Tensors"
    assert "143 of 239 have one" in page()
    assert rows["| `exp"][4] == "yes" and rows["| `argmax"][4] == ""
