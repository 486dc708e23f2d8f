"""Calls written like operators that no declaration stands behind: `R.memory.alloc_tensor(…)`.

They say their result themselves, `R.invoke_closure(f, (x,), sinfo_args=…)`, and carry attributes by
name. Printer and parser share this list.
"""

from __future__ import annotations

PLAIN_CALLS = frozenset(
    "invoke_closure invoke_pure_closure make_closure "
    "call_py_func call_tir_with_grad builtin.alloc_tensor builtin.stop_lift_params "
    "memory.alloc_storage memory.alloc_tensor memory.kill_storage memory.kill_tensor "
    "memory.ensure_zero_offset vm.alloc_storage vm.alloc_tensor vm.kill_object "
    "print assert_op".split()
)
