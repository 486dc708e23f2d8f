"""Schedules beside Apache TVM's: one program after the same steps, or refused by both.

Runs where Apache TVM 0.27 is, in this environment or in that whose interpreter MLCNB_TVM_PYTHON
names. What is otherwise stands below, with the reason; what is no longer so must go.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from tests.tir.schedule.peer import compare
from tests.tir.schedule.peer.items import ITEMS

PYTHON = os.environ.get("MLCNB_TVM_PYTHON")
if PYTHON is None and importlib.util.find_spec("tvm") is not None:
    PYTHON = sys.executable
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="needs apache-tvm or MLCNB_TVM_PYTHON"),
]

#: what a step says of padding, regions and copies in another way
FORMS = {
    "loop_partition/twice": "blocks say what they touch",
    "loop_partition/inferred, twice": "blocks say what they touch",
    "loop_partition/opaque block": "blocks say what they touch",
    "loop_partition/one factor": "blocks say what they touch",
    "loop_partition/from one": "the last iteration is not lost",
    "transform_layout/padded reduction": "the padding is written once",
    "transform_layout/padded reduction, opaque": "the padding is written once",
    "transform_layout/output of blocks, opaque, padded": "the padding is written once",
    "fuse_reduction_epilogue/bias": "no buffer is left that nobody uses",
    "reindex_cache_read/several readers": "the copy stands before its first reader",
    "cache_index/of a resize": "no strides; indices that are loaded are read",
    "cache_inplace/elementwise": "axes of the block do not leave it",
}
#: what TVM does and we refuse
REFUSED = {
    "rfactor/argmax": "of equal values another would come first",
    "rfactor/argmin, stores in another order": "of equal values another would come first",
    "rfactor/argmax, of int32": "of equal values another would come first",
    "loop_partition/writes by a pointer": "a pointer goes where no region says",
    "write_at/at the threads": "threads read what others wrote, with no barrier that is proved",
    "write_at/after both operands": "threads read what others wrote",
    "write_at/inside of the reduction": "the sum is not finished there",
    "reverse_compute_at/under the reduction": "the sum is not finished there",
    "fuse_reduction_epilogue/relu": "a maximum of parts is none of the sum",
    "pad_einsum/no einsum": "it is no reduction",
    "reindex/no point": "a block that reads several elements at once",
    "reindex/written, no point": "a block that writes several elements at once",
    "transform_layout/by a parameter": "an extent that is divided by a variable",
    "transform_layout/constant output and shift": "no inverse in closed form",
}
#: what we do and TVM refuses
DONE = {
    "rfactor/part is read outside": "what was never written is read before and after",
    "loop_partition/no factors": "the loop stays whole",
    "transform_layout/padding is not allowed": "padding that nothing reads may be anything",
    "transform_layout/padding of another dtype": "a number is converted",
}
KINDS = {"DIFFERS": FORMS, "WE REFUSE": REFUSED, "only they refuse": DONE}


def test_each_item_is_as_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLCNB_TVM_PYTHON", str(PYTHON))
    compare.load()
    answers = compare.theirs(list(ITEMS))
    found: dict[str, set[str]] = {}
    for name, item in ITEMS.items():
        kind, _ = compare.verdict(compare.ours(item), answers[name])
        found.setdefault(kind, set()).add(name)
    assert found.pop("unread") == {n for n in ITEMS if n.startswith("tensorize/")}
    assert {kind: names for kind, names in found.items() if kind in KINDS} == {
        kind: set(table) for kind, table in KINDS.items()
    }
