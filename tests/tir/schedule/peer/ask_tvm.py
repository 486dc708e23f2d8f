"""What Apache TVM 0.27 makes of the items: `python -m tests.tir.schedule.peer.ask_tvm IN OUT`.

Runs where TVM is. IN is a JSON table, name -> text of the program (0.27); OUT gets name -> the text
of the program after the steps, or {"error": kind}.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def answer(tvm: Any, text: str, steps: Any) -> Any:
    """The text after the steps, or the kind of the error."""
    from tvm.s_tir import Schedule

    Schedule.get_block = Schedule.get_sblock
    sch = Schedule(tvm.script.from_source(text))
    try:
        steps(sch, tvm)
    except Exception as error:  # noqa: BLE001
        return {"error": type(error).__name__, "text": str(error)[-600:]}
    return sch.mod["main"].script(show_meta=True)


def main(asked: str, answers: str, *modules: str) -> None:
    """Answer all items of these modules."""
    import tvm

    items = importlib.import_module("tests.tir.schedule.peer.items").ITEMS
    for name in modules:
        importlib.import_module(name)
    texts = json.loads(Path(asked).read_text())
    done = {name: apart(tvm, text, items[name].steps) for name, text in texts.items()}
    Path(answers).write_text(json.dumps(done, indent=1))


def apart(tvm: Any, text: str, steps: Any) -> Any:
    """The answer of a process of its own, which may end as it likes."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = answer(tvm, text, steps)
        except Exception as error:  # noqa: BLE001
            told = {"unread": f"{type(error).__name__}: {str(error)[-800:]}"}
        with os.fdopen(theirs, "w") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else {"unread": "the process died"}


if __name__ == "__main__":
    main(*sys.argv[1:])
