"""A compiled graph whose weights are constants, for as long as they stay what they were.

    run(x, w, b)    w and b as at the last call      the executable that holds them, packed
                    written or replaced since        another one is made
                    written again and again          they become inputs, as x is

Whether a weight is what it was is asked at each call: the tensor, the place of its memory, its
version (PyTorch counts what is written in place, by an optimizer too), and its contents beside a
copy, because a write through `.data` or NumPy is not counted: 4 ms beside the 11 of a ResNet-18.
`torch.compile(..., options={"constant_weights": "versions"})` spares the copy and the comparison,
for those who write to weights in no such way; `False` makes weights inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: how often a weight may change before it becomes an input
PATIENCE = 4
#: how many sets of weights a graph is held for: layers of one form share a graph
MOST_SETS = 32
#: bytes that are compared at once: they and their copy stay in a cache
PIECE = 1 << 18

Run = Callable[[Sequence[Any]], list[Any]]


class Binding:
    """Weights as they were, and what runs with them.

    Args:
        tensors: the weights by their places among the inputs.
        run: takes all inputs, and does not read these.
        contents: whether what lies in them is compared, too.
    """

    def __init__(self, tensors: dict[int, Any], run: Run, contents: bool = True) -> None:
        self.run = run
        self.kept = [(i, x, x._version, x.data_ptr()) for i, x in tensors.items()]
        pieces = [p for x in tensors.values() for p in _pieces(x)] if contents else []
        self.copies = [(piece, piece.copy()) for piece in pieces]

    def is_of(self, inputs: Sequence[Any]) -> bool:
        """True where the inputs hold these tensors, whatever was written to them."""
        return all(inputs[i] is x for i, x, _, _ in self.kept)

    def holds(self, inputs: Sequence[Any]) -> bool:
        """True where the inputs hold these tensors as they were."""
        for i, x, version, place in self.kept:
            y = inputs[i]
            if y is not x or y._version != version or y.data_ptr() != place:
                return False
        return all(np.array_equal(now, before) for now, before in self.copies)

    def changed(self) -> list[int]:
        """The places of the weights that were written or moved."""
        return [
            i
            for i, x, version, place in self.kept
            if (x._version, x.data_ptr()) != (version, place)
        ]


class Bound:
    """A graph as a function of its inputs, weights among them.

    Args:
        places: which of the inputs are weights.
        make: for the weights that are constants, by their places, what then runs.
        contents: whether what lies in them is compared at each call, too.
    """

    def __init__(
        self,
        places: Sequence[int],
        make: Callable[[dict[int, Any]], Run],
        contents: bool = True,
    ) -> None:
        self.make, self.contents = make, contents
        self.changes = dict.fromkeys(places, 0)
        self.bindings: list[Binding] = []

    def __call__(self, *inputs: Any) -> list[Any]:
        """The outputs."""
        for binding in self.bindings:
            if binding.holds(inputs):
                return binding.run(inputs)
        return self.bind(inputs).run(inputs)

    def bind(self, inputs: Sequence[Any]) -> Binding:
        """What runs with the weights as they are now."""
        self.forget(inputs)
        constant = {i: inputs[i] for i, n in self.changes.items() if n < PATIENCE}
        constant = {i: x for i, x in constant.items() if is_bindable(x)}
        found = Binding(constant, self.make(constant), self.contents)
        self.bindings = [found, *self.bindings][:MOST_SETS]
        return found

    def forget(self, inputs: Sequence[Any]) -> None:
        """Drop what was made for other contents of these tensors, and count what changed."""
        stale = [b for b in self.bindings if b.is_of(inputs)]
        self.bindings = [b for b in self.bindings if b not in stale]
        for binding in stale:
            for place in binding.changed() or [i for i, *_ in binding.kept]:
                self.changes[place] += 1


def is_bindable(x: Any) -> bool:
    """True for a tensor in plain memory without gaps whose versions PyTorch counts."""
    import torch

    return (
        isinstance(x, torch.Tensor)
        and x.device.type == "cpu"
        and x.layout == torch.strided
        and not x.is_inference()
        and not x.is_neg()
        and _extent(x) == x.numel()
    )


def _extent(x: Any) -> int:
    """How many elements there are from a tensor's first to its last in memory."""
    if not x.numel():
        return 0
    return 1 + sum((d - 1) * s for d, s in zip(x.shape, x.stride(), strict=True))


def _pieces(x: Any) -> list[np.ndarray]:
    """The bytes of a tensor, in its memory, piece by piece, as integers."""
    import torch

    raw = x.detach().as_strided((x.numel(),), (1,)).view(torch.uint8).numpy()
    pieces = [raw[start : start + PIECE] for start in range(0, raw.size, PIECE)]
    return [p if p.size % 8 else p.view(np.int64) for p in pieces]
