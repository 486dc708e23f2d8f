"""What we and TVM make of the same items: `python -m tests.tir.schedule.peer.compare [WORD …]`.

A word is a file of items, or part of a name; without, all items are compared.

Needs the interpreter of an environment with Apache TVM 0.27 in MLCNB_TVM_PYTHON.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import mlcnb
from mlcnb.core.errors import MLCError
from mlcnb.ir import structural_equal
from mlcnb.script import parse, script
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.peer.items import ITEMS, Item

MODULES = [
    f"tests.tir.schedule.peer.{n}"
    for n in ("reductions", "loops", "buffers", "intrinsics", "moves")
]


def load() -> None:
    for name in MODULES:
        importlib.import_module(name)


def asked(names) -> dict[str, str]:
    """The programs as TVM reads them."""
    return {n: script(parse(ITEMS[n].text), dialect="0.27") for n in names}


def ours(item: Item) -> Any:
    sch = Schedule(parse(item.text))
    try:
        item.steps(sch, mlcnb)
    except MLCError as error:
        return {"error": error.message}
    return sch.mod["main"]


def theirs(names) -> dict[str, Any]:
    python = os.environ["MLCNB_TVM_PYTHON"]
    with tempfile.TemporaryDirectory() as folder:
        there, back = Path(folder, "in.json"), Path(folder, "out.json")
        there.write_text(json.dumps(asked(names)))
        subprocess.run(
            [python, "-m", "tests.tir.schedule.peer.ask_tvm", there, back, *MODULES], check=True
        )
        return json.loads(back.read_text())


def verdict(mine: Any, other: Any) -> tuple[str, str]:
    if isinstance(other, dict) and "unread" in other:
        return "unread", other["unread"]
    refused, refuses = isinstance(mine, dict), isinstance(other, dict)
    if refused and refuses:
        return "both refuse", mine["error"]
    if refused:
        return "WE REFUSE", mine["error"]
    if refuses:
        return "only they refuse", other["error"] + " " + other["text"][-200:]
    func = parse(other)
    if structural_equal(func.without_attr("global_symbol"), mine.without_attr("global_symbol")):
        return "same", ""
    a, b = script(func).splitlines(), script(mine).splitlines()
    return "DIFFERS", "\n".join(difflib.unified_diff(a, b, "tvm", "ours", lineterm="", n=1))


def main() -> None:
    load()
    words = sys.argv[1:]
    files = {n: item.steps.__module__.rsplit(".", 1)[1] for n, item in ITEMS.items()}
    names = [n for n in ITEMS if not words or any(w in n or w == files[n] for w in words)]
    answers = theirs(names)
    counts: dict[str, Counter] = {}
    for n in names:
        try:
            kind, why = verdict(ours(ITEMS[n]), answers[n])
        except Exception:  # noqa: BLE001
            kind, why = "CRASH", traceback.format_exc()[-700:]
        counts.setdefault(n.split("/")[0], Counter())[kind] += 1
        if kind not in ("same", "both refuse"):
            print(f"== {n}: {kind}\n{why}")
    total: Counter = Counter()
    for group, count in counts.items():
        print(group, dict(count))
        total += count
    print("all", dict(total))


if __name__ == "__main__":
    main()
