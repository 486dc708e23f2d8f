"""LLVM in a process of its own: `python -m mlcnb.codegen.llvm.child < question > answer`.

What is global in LLVM (its command line, its standard error) and what may end the process (a target
that cannot select an instruction) stays here. `mlcnb.codegen.llvm.apart` asks the questions: JSON
with `ir`, `cpu` (triple, name, features), `level` and `options`; the answer is JSON with `ir` and
`assembly`; remarks and dumps go to standard error, as LLVM writes them.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Answer one question."""
    import llvmlite.binding as llvm

    from mlcnb.codegen.llvm.engine import Options, read
    from mlcnb.codegen.llvm.target_machine import Cpu

    asked = json.load(sys.stdin)
    for option in ("-use-unknown-locations=Enable", *asked["options"]):
        llvm.set_option("mlcnb", option)
    after, assembly = read(asked["ir"], Cpu(*asked["cpu"]), Options(level=asked["level"]))
    json.dump({"ir": after, "assembly": assembly}, sys.stdout)


if __name__ == "__main__":
    main()
