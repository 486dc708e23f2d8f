"""ONNX's operators on features: Binarizer, ArrayFeatureExtractor (ai.onnx.ml), and TfIdfVectorizer:
how often each of some runs of tokens (n-grams) occurs in a row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._spell import Formula, call
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const

#: comparisons that may be written for one place of the input
MOST_GRAMS = 1 << 20
DOMAIN = "ai.onnx.ml"


@onnx("Binarizer", domain=DOMAIN)
def onnx_binarizer(n: OnnxNode, x: Expr) -> Expr:
    """1 where x is larger than `threshold`, else 0."""
    kind = n.dtype(x)
    above = n.emit(call("relax.greater", x, const(np.array(n.attr("threshold", 0.0)), kind)))
    return call("relax.astype", above, dtype=kind)


@onnx("ArrayFeatureExtractor", domain=DOMAIN)
def onnx_array_feature_extractor(n: OnnxNode, x: Expr, indices: Expr) -> Expr:
    """Some columns of x, as a matrix where x is a vector."""
    if len(n.dims(x)) == 1:
        x = n.emit(call("relax.expand_dims", x, axis=0))
    flat = n.emit(call("relax.flatten", indices))
    return call("relax.take", x, flat, axis=len(n.dims(x)) - 1, mode="signed")


@onnx("TfIdfVectorizer", since=9)
def onnx_tfidf_vectorizer(n: OnnxNode, x: Expr) -> Expr:
    """Each n-gram held against all windows of its length, at every distance between its tokens.

    Semantics: https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
    """
    f, dims = Formula(n), n.dims(x)
    length = as_int(dims[-1]) if dims else None
    if n.attr("pool_strings") or n.attr("pool_int64s") is None:
        n.refuse("its tokens are strings", hint="map them to integers before the model")
    if len(dims) not in (1, 2) or length is None:
        n.refuse("the number of tokens in a row is not known", hint="fix it with shape=")
    columns = np.asarray(n.require("ngram_indexes"), np.int64)
    total = int(columns.max(initial=-1)) + 1
    if columns.min(initial=0) < 0 or total > MOST_GRAMS:
        n.refuse(f"ngram_indexes from {columns.min()} to {columns.max()}")
    tokens = f.reshape(f.astype(x, dtype="int64"), [-1, 1, 1, length])
    rows = 1 if len(dims) == 1 else dims[0]
    counts = f.zeros([rows, total], dtype="float32")
    for first, grams in _grams(n):
        place = np.zeros((len(grams), total), np.float32)
        place[np.arange(len(grams)), columns[first : first + len(grams)]] = 1
        for windows in _windows(n, grams.shape[1], length):
            seen = f.take(tokens, const(windows), axis=3, mode="fast")
            seen = f.reshape(seen, [rows, len(windows), 1, grams.shape[1]])
            same = f.astype(f.equal(seen, const(grams)), dtype="float32")
            found = f.sum(f.prod(same, axis=[3]), axis=[1])
            counts = f.add(counts, f.matmul(found, const(place)))
    weighted = _weighted(n, f, counts, columns)
    return f.reshape(weighted, [total]) if len(dims) == 1 else weighted


def _grams(n: OnnxNode) -> Iterator[tuple[int, np.ndarray]]:
    """The n-grams of each length that counts, as rows, and the number of the first."""
    pool, starts = np.asarray(n.require("pool_int64s"), np.int64), n.require("ngram_counts")
    least, most = n.require("min_gram_length"), n.require("max_gram_length")
    first = 0
    for number, start in enumerate(starts):
        end, size = (*starts, len(pool))[number + 1], number + 1
        if not 0 <= start <= end <= len(pool) or (end - start) % size:
            n.refuse(f"ngram_counts {tuple(starts)} do not cut {len(pool)} tokens into n-grams")
        grams = pool[start:end].reshape(-1, size)
        if least <= size <= most and len(grams):
            yield first, grams
        first += len(grams)
    if first != len(n.require("ngram_indexes")):
        n.refuse(f"{len(n.require('ngram_indexes'))} ngram_indexes for {first} n-grams")


def _windows(n: OnnxNode, size: int, length: int) -> Iterator[np.ndarray]:
    """The places of `size` tokens, (windows, size), for each distance that skips allow.

    Tokens of one window that are `length` apart do not both exist.
    """
    for distance in range(1, min(n.require("max_skip_count") + 1, max(1, length)) + 1):
        count = length - (size - 1) * distance
        if count > 0 and (size > 1 or distance == 1):
            yield np.arange(count)[:, None] + distance * np.arange(size)


def _weighted(n: OnnxNode, f: Formula, counts: Expr, columns: np.ndarray) -> Expr:
    """The counts (TF), whether there are any (IDF), or the counts weighted (TFIDF)."""
    mode, weights = n.require("mode"), n.attr("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        n.refuse(f"mode {mode!r} is none of TF, IDF, TFIDF")
    if mode == "IDF":
        counts = f.astype(f.greater(counts, const(np.float32(0))), dtype="float32")
    if mode == "TF" or not weights:
        return counts
    if len(weights) != len(columns) or len(set(columns.tolist())) < len(columns):
        n.refuse(f"{len(weights)} weights for {len(columns)} n-grams, some of which share a column")
    line = np.zeros(int(columns.max()) + 1, np.float32)
    line[columns] = weights
    return f.multiply(counts, const(line))
