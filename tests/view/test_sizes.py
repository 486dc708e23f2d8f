"""What the views of a real model weigh and how long they take. Figures are printed with -s."""

from __future__ import annotations

import time
from pathlib import Path

import onnx
import pytest

import mlcnb
from mlcnb import view
from mlcnb.ir.instrument import trace
from mlcnb.view.registry import kinds
from tests.view.allowed import LIMIT, check_html

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.fixture(scope="module")
def resnet():
    return mlcnb.from_onnx(FOLDER / "light_resnet50.onnx")


def timed(what, fn, *args):
    """The quickest of three runs, as a viewer's second look at a cell."""
    best, result = float("inf"), None
    for _ in range(3):
        start = time.perf_counter()
        result = fn(*args)
        best = min(best, time.perf_counter() - start)
    print(f"{what}: {1000 * best:.0f} ms, {len(result):,} characters")
    return result


def test_the_view_of_resnet50(resnet):
    html = timed("resnet50, HTML", view.to_html, resnet)
    shown = check_html(html)
    assert "175 operators" in shown or "operators; 25.6 M parameters (102 MB); 8.24 GFLOP" in shown
    assert "R.nn.conv2d" in shown
    text = timed("resnet50, text", view.to_text, resnet)
    assert len(text.splitlines()) <= 301


def test_the_graph_of_resnet50(resnet):
    svg = timed("resnet50, graph", lambda: resnet.graph().svg())
    assert len(svg) < LIMIT
    assert not resnet.graph().is_folded


def test_every_stage_of_resnet50(resnet):
    run = trace(mlcnb.get_pipeline("default"), resnet)
    for obj in (run, run["FuseOps"], run["FuseOps"].after, run.result, run.result.graph()):
        check_html(timed(type(obj).__name__, view.to_html, obj))
        assert len(view.to_text(obj).splitlines()) <= 301


def test_every_class_with_a_view_is_there():
    import importlib

    for kind in kinds():
        module, _, name = kind.partition(":")
        assert isinstance(getattr(importlib.import_module(module), name), type), kind
