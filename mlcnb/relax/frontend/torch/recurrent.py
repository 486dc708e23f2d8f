"""Recurrent layers stay open in length while PyTorch traces them.

    lstm(x[s, b, i], …)      PyTorch runs its Python form on shapes: s steps, so that s is fixed
                             here: y[s, b, h], and the states as they are given; nothing is run

An operator of PyTorch has a table of Python forms by dispatch key; those of recurrent layers are
replaced for as long as a model is traced. Layers that compute do not ask this table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
KEYS = ("CompositeImplicitAutograd", "Autograd")
_lock = threading.RLock()


def sizes(x: Any, hx: Any, params: Any, *rest: Any) -> tuple[Any, ...]:
    """Tensors of the shapes that a recurrent layer makes; `rest` as of aten.lstm.input."""
    states = list(hx) if isinstance(hx, tuple | list) else [hx]
    ways = 2 if rest[4] else 1
    y = x.new_empty([*x.shape[:-1], states[0].shape[-1] * ways])
    return y, *(s.new_empty(s.shape) for s in states)


@contextmanager
def open_lengths() -> Iterator[None]:
    """While it is entered recurrent layers are traced by their shapes alone."""
    import torch

    keys = [getattr(torch._C.DispatchKey, key) for key in KEYS]
    layers = [getattr(torch.ops.aten, name).input for name in LAYERS]
    with _lock:
        before = [dict(layer.py_kernels) for layer in layers]
        try:
            for layer in layers:
                layer.py_kernels.update(dict.fromkeys(keys, sizes))
                layer._dispatch_cache.clear()
            yield
        finally:
            for layer, kernels in zip(layers, before, strict=True):
                layer.py_kernels.clear()
                layer.py_kernels.update(kernels)
                layer._dispatch_cache.clear()
