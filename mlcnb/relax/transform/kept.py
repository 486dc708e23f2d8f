"""Modules after a pipeline's passes, kept on disk: a model is lowered once for each machine.

    with kept.Lowering(mod, "default", {}, target) as lowering:
        mod = lowering.module()        as kept, else the pipeline's; `lowering.was_kept`
        …                              what is new is written afterwards (`core.later`)

The key is all of the program (weights by their digests, names and places too), the pipeline, the
target, and what the sources of mlcnb say. It is asked only where passes do what they always do: no
instrument that watches, no setting of a PassContext, no pipeline or operator of somebody's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm import sources
from mlcnb.core import later, options
from mlcnb.core.digests import digests
from mlcnb.core.errors import MLCError
from mlcnb.ir.dtype import dtype
from mlcnb.ir.memory import ALIGNMENT, aligned
from mlcnb.ir.module import IRModule
from mlcnb.ir.packed import pack, unpack
from mlcnb.ir.pass_context import PassContext
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call, Function, Op
from mlcnb.relax.operator import declaration
from mlcnb.relax.transform.given import is_own
from mlcnb.target import Target
from mlcnb.tir.analysis.made import is_declared, is_made, note_declared, note_made
from mlcnb.tir.analysis.meaning import meaning_of, note_meaning
from mlcnb.tir.function import PrimFunc

#: bytes of constants above which a module is not kept: the store is for more than one
LARGEST = 256 << 20


class Lowering:
    """One run of a named pipeline over a module, by what is on disk where it is there.

    Args:
        mod: the module.
        pipeline: the pipeline's name.
        named: the options that `get_pipeline` takes with it.
        target: what it is lowered for.
        keep: whether disk is asked at all: not for what is lowered in no time.
    """

    def __init__(
        self, mod: IRModule, pipeline: str, named: Mapping[str, Any], target: Target, keep: bool
    ) -> None:
        self.mod, self.pipeline, self.named, self.target = mod, pipeline, named, target
        self.store = disk.user_store() if keep and _is_plain(mod, pipeline) else None
        self.key = ""
        self.was_kept = False
        self._new: IRModule | None = None
        self._weights: list[str] = []

    def __enter__(self) -> Lowering:
        return self

    def __exit__(self, *_error: Any) -> None:
        if self._new is not None:
            later.do(self.key, partial(self._write, self._new))

    def module(self) -> IRModule:
        """The module after the passes.

        Raises:
            MLCError: what the passes raise.
        """
        found = self._kept()
        if found is not None:
            self.was_kept = True
            return found
        from mlcnb.relax.transform.pipeline import get_pipeline  # and all passes: it is a new one

        with self.target:
            made = get_pipeline(self.pipeline, **self.named)(self.mod)
        if self.key and self.store is not None:
            self._new = made
        return made

    def _kept(self) -> IRModule | None:
        if self.store is None:
            return None
        try:
            self.key = self._key_of(sources.digest(self.store, parts=sources.GRAPHS))
        except MLCError:  # something in it cannot be written down
            return None
        later.finish(self.key)
        blob = self.store.view(self.key)
        return None if blob is None else _read(blob)

    def _key_of(self, version: str) -> str:
        text, arrays = pack(self.mod)
        self._weights = _digests(arrays)
        settings = {
            "version": version,
            "pipeline": self.pipeline,
            "options": dict(self.named),
            "target": str(self.target),
            "host": str(self.target.host),
            "machine": _machine(self.target),
            "largest": options.get("max_tensor_bytes"),
            "weights": self._weights,
        }
        return f"module\n{json.dumps(settings)}\n{text}"

    def _write(self, made: IRModule) -> None:
        try:
            blob = _written(made)
        except MLCError:
            return
        if blob and self.store is not None:
            self.store.put(self.key, *blob, holds=self._is_same)

    def _is_same(self) -> bool:
        """Whether weights still are what the key tells: whoever gave them may train them on."""
        return _digests(pack(self.mod)[1]) == self._weights


def _is_plain(mod: IRModule, pipeline: str) -> bool:
    """Whether only what is mlcnb's own decides what the passes do."""
    now, plain = PassContext.current(), PassContext()
    if now.instruments or now.settings != plain.settings or options.get("well_formed"):
        return False
    return is_own(pipeline) and not any(map(_is_strange, mod.functions.values()))


def _is_strange(func: Any) -> bool:
    """A graph with an operator that was declared elsewhere."""
    ops = {
        b.value.op
        for b in (bindings_of(func) if isinstance(func, Function) else ())
        if isinstance(b.value, Call) and isinstance(b.value.op, Op)
    }
    found = (declaration(op, missing_ok=True) for op in ops)
    return any(d is None or not d.__module__.startswith("mlcnb.") for d in found)


def _machine(target: Target) -> list[Any]:
    """What passes may ask of a CPU beside its name."""
    if not target.is_cpu:
        return []
    facts = (target.num_cores, target.caches, target.cache_ways, target.vector_bits)
    units = (
        target.multiply_adds, target.halves_vectors, target.fetches_ahead, target.far_line,
        target.memory_line,
    )  # fmt: skip
    return [target.mcpu, *map(str, facts + units), ",".join(sorted(target.features))]


def _digests(arrays: Sequence[np.ndarray]) -> list[str]:
    found = digests([_bytes_of(a).data for a in arrays])
    return [f"{a.dtype.name} {a.shape} {d.hex()}" for a, d in zip(arrays, found, strict=True)]


def _written(mod: IRModule) -> list[Any]:
    """A module as the parts of a blob: its texts, then its arrays; none if they are too large."""
    text, arrays = pack(mod)
    if sum(a.nbytes for a in arrays) > LARGEST:
        return []
    loops = [*mod.of_kind(PrimFunc).values()]
    head = {
        "arrays": [[a.dtype.name, list(a.shape)] for a in arrays],
        "made": [[is_made(f), is_declared(f)] for f in loops],
    }
    meanings = json.dumps([meaning_of(f) for f in loops])
    texts = (json.dumps(head), text, meanings)
    parts = (x.encode(errors="surrogatepass") for x in texts)
    return disk.packed([*parts, *map(_bytes_of, arrays)], ALIGNMENT)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The elements as bytes, one behind the other."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _read(blob: memoryview) -> IRModule | None:
    """The module that `_written` wrote; its arrays lie where they were read."""
    parts = disk.unpack(blob, ALIGNMENT)
    if parts is None:
        return None
    texts = [bytes(x).decode(errors="surrogatepass") for x in parts[:3]]
    head = json.loads(texts[0])
    arrays = [
        aligned(np.frombuffer(data, dtype(kind).numpy, math.prod(shape)).reshape(shape))
        for (kind, shape), data in zip(head["arrays"], parts[3:], strict=True)
    ]
    mod: IRModule = unpack(texts[1], arrays)
    loops = [*mod.of_kind(PrimFunc).values()]
    meanings = json.loads(texts[2])
    for func, (made, declared), meaning in zip(loops, head["made"], meanings, strict=True):
        note_meaning(func, tuple(meaning))
        if made:
            note_made(func)
        if declared:
            note_declared(func.body)
    return mod
