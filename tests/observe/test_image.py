"""Photos in, class names out."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MissingDependencyError, MLCError
from mlcnb.observe.image import ClassScore, load, top


def picture(path, width, height, colour=(255, 0, 127)):
    from PIL import Image

    Image.new("RGB", (width, height), colour).save(path)
    return path


@pytest.mark.parametrize(("width", "height"), [(300, 200), (20, 400), (224, 224)])
def test_any_picture_becomes_what_a_model_takes(width, height, tmp_path):
    x = load(picture(tmp_path / "p.png", width, height))
    assert (x.shape, x.dtype) == ((1, 3, 224, 224), np.float32)
    assert x.flags.c_contiguous  # else every run would copy it
    expected = (np.array([255, 0, 127]) / 255 - 0.498) / 0.502
    np.testing.assert_allclose(x[0, :, 100, 100], expected, rtol=1e-5, atol=1e-6)
    half = load(tmp_path / "p.png", 32, 48, mean=0.5, std=0.25, dtype="float16")
    assert (half.shape, half.dtype) == ((1, 3, 32, 48), np.float16)


def test_the_centre_is_cut_out(tmp_path):
    from PIL import Image

    canvas = Image.new("RGB", (300, 100), (0, 0, 0))
    canvas.paste((255, 255, 255), (100, 0, 200, 100))
    canvas.save(tmp_path / "p.png")
    x = load(tmp_path / "p.png", 64, 64, mean=0, std=1)
    assert x.min() > 0.9


def test_a_picture_with_transparency_or_a_palette(tmp_path):
    from PIL import Image

    Image.new("RGBA", (40, 40), (255, 0, 0, 128)).save(tmp_path / "a.png")
    Image.new("P", (40, 40)).save(tmp_path / "p.gif")
    Image.new("L", (40, 40)).save(tmp_path / "l.png")
    for name in ("a.png", "p.gif", "l.png"):
        assert load(tmp_path / name).shape == (1, 3, 224, 224)


def test_what_is_no_picture(tmp_path):
    (tmp_path / "x.png").write_text("no picture")
    with pytest.raises(MLCError, match=r"x\.png cannot be read as a picture: "):
        load(tmp_path / "x.png")
    with pytest.raises(MLCError, match=r"cannot be read as a picture: \[Errno 2\]"):
        load(tmp_path / "nothing.png")


def test_without_pillow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependencyError) as caught:
        load(tmp_path / "x.png")
    assert str(caught.value) == "pictures are read by pillow\nhint: pip install 'mlcnb[lab]'"


def test_top_classes_of_logits_and_of_probabilities(tmp_path):
    logits = np.log([[0.1, 0.6, 0.3]])
    for scores in (logits, np.exp(logits), np.exp(logits)[0], logits.astype("f4")):
        found = top(scores, ["cat", "dog", "owl"])
        assert [(c.number, c.name) for c in found] == [(1, "dog"), (2, "owl"), (0, "cat")]
        np.testing.assert_allclose([c.probability for c in found], [0.6, 0.3, 0.1], rtol=1e-6)
    assert repr(found) == "top-1: dog 0.600\ntop-3: dog 0.600, owl 0.300, cat 0.100"
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    assert repr(top(logits, tmp_path / "names.txt", 2)) == (
        "top-1: dog 0.600\ntop-2: dog 0.600, class 2 0.300"
    )
    assert top(logits, k=1) == (ClassScore(1, None, pytest.approx(0.6)),)
    assert repr(top(logits, k=1)) == "top-1: class 1 0.600"


def test_equal_scores_come_in_order():
    assert [c.number for c in mlc.image.top(np.zeros(5))] == [0, 1, 2]
