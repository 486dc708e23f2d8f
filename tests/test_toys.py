"""An operator, two kinds of pass and a primitive are added to a copy of the package, touching what
CONTRIBUTING says and nothing else. A toy backend is in `tests/codegen/test_backend_of.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mlcnb

PACKAGE = Path(mlcnb.__file__).parent

OPERATOR = '''
"""toy: every element times three."""
from mlcnb import te
from mlcnb.relax.operator import OpDecl, Tensor, operator


@operator("relax.toy")
class Toy(OpDecl):
    """x times three."""

    elementwise = True

    x: Tensor

    def infer(self, x):
        """Like x."""
        return x

    def numpy(self, x):
        """x * 3"""
        return x * 3

    def compute(self, x):
        """One element each."""
        return te.compute(x.shape, lambda *i: x(*i) * 3, name="toy")
'''

USES_OPERATOR = '''
import numpy as np
import mlcnb as mlc
mod = mlc.script.from_source("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        y = R.toy(x)
        R.output(y)
    return y
""")
assert "R.toy(x)" in mod.script()
x = np.arange(8, dtype="float32").reshape(2, 4)
for target in ("llvm", "interp"):
    np.testing.assert_array_equal(mlc.compile(mod, target)(x), 3 * x)
assert mlc.relax.op.toy.__doc__.startswith("x times three.")
'''

PASS = '''
"""AddIsMultiply: R.add(x, x) as R.multiply(x, x), which is wrong, and a toy."""
from mlcnb.core.node import replace
from mlcnb.ir.transform import FunctionPass
from mlcnb.relax.expr import Call
from mlcnb.core.node import rewrite
from mlcnb.relax.operator import declaration


class AddIsMultiply(FunctionPass):
    """Multiply where it was added."""

    def transform_function(self, func, mod, ctx):
        """Each call by itself."""
        add, multiply = (declaration(f"relax.{name}").op for name in ("add", "multiply"))
        is_add = lambda n: isinstance(n, Call) and n.op == add
        return rewrite(func, lambda n: replace(n, op=multiply) if is_add(n) else None)
'''

USES_PASS = '''
import mlcnb as mlc
mod = mlc.script.from_source("""
@R.function
def main(x: R.Tensor((4,), "float32")):
    y: R.Tensor((4,), "float32") = R.add(x, x)
    return y
""")
made = mlc.relax.transform.AddIsMultiply()(mlc.IRModule({"main": mod}))
assert "R.multiply(x, x)" in made.script() and "R.add" not in made.script(), made.script()
assert "AddIsMultiply" in dir(mlc.relax.transform)
'''

LOWERING = '''
"""LoopsBackwards: serial loops from their last iteration to their first."""
from mlcnb.core.node import replace, rewrite
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import For, ForKind


def backwards(node):
    """A loop with its variable counted down."""
    if isinstance(node, For) and node.kind is ForKind.SERIAL:
        last = node.min + node.min + node.extent - 1
        return replace(node, body=substitute(node.body, {node.loop_var: last - node.loop_var}))
    return None


class LoopsBackwards(PrimFuncPass):
    """Last iteration first."""

    def transform_function(self, func, mod, ctx):
        """All loops of a function."""
        return rewrite(func, backwards)
'''

USES_LOWERING = """
import numpy as np
import mlcnb as mlc
from mlcnb.script import tir as T
func = mlc.script.from_source('''
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
    for i in range(4):
        B[0] = A[i]
''')
made = mlc.tir.transform.LoopsBackwards()(mlc.IRModule({"main": func}))
a, b = np.arange(1, 5, dtype="float32"), np.zeros(1, "float32")
mlc.compile(made)(a, b)
assert b[0] == 1, b
assert "LoopsBackwards" in dir(mlc.tir.transform)
"""

PRIMITIVE = '''
"""wrap_twice: two loops around a loop, one iteration each."""
from __future__ import annotations
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind


@does(still=True, near="split", tries={"names": (("v", "u"), ("b", "a"))})
def wrap_twice(state: State, loop: For, names: tuple[str, str]) -> Change:
    """Wrap a loop in two loops of extent 1 and give the outer one."""
    if len(names) != 2:
        raise state.refusal(f"wrap_twice: {len(names)} names for two loops", loop)
    inner = state.tree.place(loop)
    edit = state.edit()
    made = inner
    for name in names:
        made = For(e.Var(name), p.const(0), p.const(1), ForKind.SERIAL, made)
    edit.put(inner, made)
    edit.became(loop, loop)
    return Change.of(edit, made)
'''

USES_PRIMITIVE = """
import mlcnb as mlc
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule.offers.repairs import repairs
sch = mlc.tir.Schedule(matmul(4, 4, 4))
offered = mlc.tir.legal_steps(sch, sch.get_loops("C")[0]).of("wrap_twice")
assert [x.text for x in offered] == [
    'sch.wrap_twice(sch.get_loops("C")[0], names=("v", "u"))',
    'sch.wrap_twice(sch.get_loops("C")[0], names=("b", "a"))',
]
try:
    sch.wrap_twice(sch.get_loops("C")[1], ("u",))
except mlc.tir.ScheduleError as error:
    assert [x.primitive for x in repairs(error)] == ["wrap_twice", "wrap_twice", "split"], error
outer = sch.wrap_twice(sch.get_loops("C")[0], ("v", "u"))
assert len(sch.get_loops("C")) == 5 and sch.get(outer).loop_var.name == "u"
assert any("wrap_twice" in line for line in sch.trace.as_python())
sch.undo()
assert len(sch.get_loops("C")) == 3
"""

#: what is added -> new files, lines put behind others, and a use
TOYS = {
    "operator": ({"op/toy.py": OPERATOR}, {}, USES_OPERATOR),
    "graph pass": ({"relax/transform/add_is_multiply.py": PASS}, {}, USES_PASS),
    "lowering pass": ({"tir/transform/loops_backwards.py": LOWERING}, {}, USES_LOWERING),
    "primitive": (
        {"tir/schedule/primitives/wrap_twice.py": PRIMITIVE},
        {
            "tir/schedule/schedule.py": (
                "    add_unit_loop = step(do.add_unit_loop)\n",
                "    wrap_twice = step(do.wrap_twice)\n",
            ),
        },
        USES_PRIMITIVE,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TOYS)
def test_a_toy_touches_what_contributing_says(what, tmp_path):
    files, lines, use = TOYS[what]
    shutil.copytree(PACKAGE, tmp_path / "mlcnb", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        (tmp_path / "mlcnb" / name).write_text(text)
    for name, (before, line) in lines.items():
        path = tmp_path / "mlcnb" / name
        assert path.read_text().count(before) == 1
        path.write_text(path.read_text().replace(before, before + line))
    done = subprocess.run(
        [sys.executable, "-c", use],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
