"""TfIdfVectorizer against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError
from tests.frontend.build import model, node


def tfidf(mode, least, most, skips, weights=()):
    """Unigrams 2, 3, 5, 4 and bigrams 5 6, 7 8, 6 7; without weights two share a column."""
    options = {"weights": list(weights)} if weights else {}
    columns = [3, 0, 2, 1, 6, 5, 4] if weights else [0, 1, 2, 3, 4, 5, 4]
    return node(
        "TfIdfVectorizer", "x", "y", name="t", mode=mode, min_gram_length=least,
        max_gram_length=most, max_skip_count=skips, ngram_counts=[0, 4],
        ngram_indexes=columns, pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        **options,
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    mode=st.sampled_from(["TF", "IDF", "TFIDF"]),
    least=st.integers(1, 2),
    skips=st.integers(0, 5),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_ngrams_are_counted(mode, least, skips, weighted, seed):
    weights = [0.5, 1.5, 2, 3, 0.25, 4, 1] if weighted else ()
    made = tfidf(mode, least, 2, skips, weights)
    x = np.random.default_rng(seed).integers(1, 9, (3, 12)).astype(np.int32)
    proto = model("x: int32[n, 12]", [made], "y: float[n, k]")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(mlc.compile(mlc.from_onnx(proto))(x), wanted, rtol=1e-6)


def test_rows_of_open_length_are_refused():
    with pytest.raises(UnsupportedOpError) as caught:
        mlc.from_onnx(model("x: int32[n]", [tfidf("TF", 1, 2, 0)], "y: float[6]"))
    assert str(caught.value) == (
        "the model: node 't' (TfIdfVectorizer, opset 17): the number of tokens in a row is not "
        "known\nhint: fix it with shape="
    )
