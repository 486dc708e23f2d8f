"""Models drawn at random give what ONNX's reference, or ONNX Runtime, makes of them."""

from __future__ import annotations

import pytest

from tests.frontend.random_models import strangers


@pytest.mark.slow
@pytest.mark.parametrize("is_open", [False, True], ids=["fixed sizes", "open sizes"])
def test_models_drawn_at_random(is_open):
    pytest.importorskip("onnxruntime")
    assert [line for line in strangers(0, 60, is_open, "llvm") if " BUG " in line] == []
