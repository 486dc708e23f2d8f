"""FuseOps: calls that belong together become one function, which FuseTIR makes one kernel.

lv = R.call_tir(cls.conv2d, (x, w), …)       gv = cls.fused_conv2d_add_relu(x, w, b)
lv1 = R.call_tir(cls.add, (lv, b), …)    ->
gv = R.call_tir(cls.relu, (lv1,), …)         @R.function(private=True)
                                             def fused_conv2d_add_relu(x, w, b):
                                                 R.func_attr({"Primitive": True})
                                                 … the three calls …

Which calls: `fusion_groups`, by the `op_pattern` of the loop functions. Equal groups (the same
functions on the same shapes) share one fused function.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from mlcnb.core.node import replace, walk
from mlcnb.core.text import plural
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import merge
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.calls import callee_of, is_open
from mlcnb.relax.analysis.struct_info import of_one_shape
from mlcnb.relax.analysis.variables import leaves, with_nested
from mlcnb.relax.emitter import block_is_dataflow, with_bindings
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.infer import Functions
from mlcnb.relax.struct_info import PrimStructInfo, TensorStructInfo
from mlcnb.relax.transform.fusion_groups import Node, find_groups
from mlcnb.relax.transform.outline import Outline
from mlcnb.tir.analysis import OpPatternKind
from mlcnb.tir.analysis.made import is_declared
from mlcnb.tir.buffer import BufferLoad


class FuseOps(ModulePass):
    """Group calls of loop functions into functions that become one kernel each.

    Shapes may be symbolic: the sizes that a group needs become its last parameter, a shape. Works
    on the attribute `op_pattern` (AnnotateTIROpPattern); a function without it stands alone,
    nothing is refused. After TVM's pass of that name.
    """

    #: 0: leave all calls apart; any other: fuse (as TVM's option)
    fuse_opt_level: int = -1
    #: the largest number of calls in one group; None: the config key relax.FuseOps.max_depth
    max_depth: int | None = None
    #: fused_add_add_relu in place of TVM's fused_add_add1_relu, and a few words of long names
    short_names: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every dataflow block of the graph functions that are no kernel themselves."""
        if self.fuse_opt_level == 0:
            return mod
        depth = self.max_depth or ctx.get_config("relax.FuseOps.max_depth")
        fuser = _Fuser(FunctionTable(mod.functions), depth, self.short_names)
        fuser.table.rewrite(fuser.function, "Primitive", "Codegen")
        if fuser.groups:
            new = len(fuser.table.functions) - len(mod)
            groups = plural(fuser.groups, "group")
            ctx.note(f"{fuser.calls} calls fused into {groups}, {new} of them distinct")
        return fuser.table.module(mod)


class _Fuser:
    def __init__(self, table: FunctionTable, max_depth: int, short_names: bool) -> None:
        self.table, self.max_depth, self.short_names = table, max_depth, short_names
        self.groups = self.calls = 0

    def function(self, func: rx.Function) -> rx.Function:
        """The function with its dataflow blocks fused, those in branches and loops too."""
        return replace(func, body=self.sequence(func.body))

    def sequence(self, seq: rx.SeqExpr) -> rx.SeqExpr:
        """A sequence with its dataflow blocks fused, and those inside of its values."""
        blocks = tuple(self.block(b) if block_is_dataflow(b) else self.plain(b) for b in seq.blocks)
        return replace(seq, blocks=blocks)

    def plain(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """A plain block: what is inside of its values."""
        changed = (replace(b, value=with_nested(b.value, self.sequence)) for b in block.bindings)
        return with_bindings(block, tuple(changed))

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """A block in which the last call of each group stands for the group."""
        nodes = self.graph(block)
        last: dict[int, rx.Binding] = {}
        swallowed: set[int] = set()
        for group in find_groups(nodes, self.max_depth):
            bindings = [block.bindings[n.index] for n in group]
            last[group[-1].index] = self.fused(bindings)
            swallowed.update(n.index for n in group[:-1])
            self.groups, self.calls = self.groups + 1, self.calls + len(group)
        kept = [
            last.get(i, binding) for i, binding in enumerate(block.bindings) if i not in swallowed
        ]
        return with_bindings(block, tuple(kept))

    def graph(self, block: rx.BindingBlock) -> list[Node]:
        """A node for each binding, with its users."""
        nodes: dict[rx.Var, Node] = {}
        for index, binding in enumerate(block.bindings):
            pattern = self.pattern(binding)
            seen = not isinstance(binding.var, rx.DataflowVar)
            node = Node(index, pattern, is_seen=seen, origin=binding.value)
            again = self.read_again(binding) if pattern is OpPatternKind.INJECTIVE else set()
            for leaf in leaves(binding.value):
                used = nodes.get(leaf)
                if used is not None:
                    is_again = leaf in again
                    use = OpPatternKind.OPAQUE if is_again else _use(pattern, leaf, binding.var)
                    used.users.append((node, use))
            nodes[binding.var] = node
        return list(nodes.values())

    def pattern(self, binding: rx.Binding) -> OpPatternKind:
        """The kind of a bound value: that of the loop function called; opaque for all else."""
        call = binding.value
        func = callee_of(call, self.table.functions) if type(binding) is rx.VarBinding else None
        if func is None or not isinstance(call.sinfo_args[0], TensorStructInfo):
            return OpPatternKind.OPAQUE
        if any(isinstance(a.struct_info, PrimStructInfo) for a in call.args[1].fields):
            return OpPatternKind.OPAQUE  # a number among the tensors
        if not is_declared(func) and is_open(binding.value, func):
            return OpPatternKind.OPAQUE  # what has to be equal is checked where it is called
        return OpPatternKind(func.attrs.get("op_pattern", OpPatternKind.OPAQUE))

    def read_again(self, binding: rx.Binding) -> set[Any]:
        """The arguments of which a function reads several elements for each of its own, as a resize
        does: what makes these is then not done anew for each, in the order of the result.
        """
        call: Any = binding.value
        func: Any = callee_of(call, self.table.functions)
        loads = Counter(n.buffer for n in walk(func.body) if type(n) is BufferLoad)
        given = zip(func.params, call.args[1].fields, strict=False)
        return {x for param, x in given if loads[func.buffer_map.get(param)] > 1}

    def fused(self, bindings: list[rx.Binding]) -> rx.Binding:
        """The call of the function that holds a group, bound to the group's last variable."""
        outline = _Group(bindings, self.table.functions)
        name = self.table.add_shared(outline.func, _name(bindings, self.short_names))
        result = bindings[-1].var
        span = merge(*(b.value.span for b in bindings))
        call = rx.Call(name, tuple(outline.args), None, (), result.struct_info, span)
        return rx.VarBinding(result, call)


def _use(pattern: OpPatternKind, used: Any, user: rx.Var) -> OpPatternKind:
    """The kind of one use: elementwise only where the shape is that of the result."""
    if pattern > OpPatternKind.BROADCAST:
        return pattern
    return OpPatternKind.ELEM_WISE if of_one_shape(used, user) else OpPatternKind.BROADCAST


def _name(bindings: list[rx.Binding], short: bool) -> str:
    """fused_conv2d_add1_relu: the names of the functions; short: without their numbers."""
    names = [b.value.args[0].name_hint for b in bindings]
    if short:
        names = [re.sub(r"(?<=[a-z_])_?\d+$", "", n) or n for n in names]
        names = [*names[:5], f"and_{len(names) - 5}_more"] if len(names) > 6 else names
    return "fused_" + "_".join(names)


class _Group(Outline):
    """A group of calls as a function; a parameter is named as the buffer that it is given for."""

    def __init__(self, bindings: list[rx.Binding], functions: Functions) -> None:
        self.functions = functions
        self.counts: dict[str, int] = {}
        super().__init__(bindings, [bindings[-1].var], False, {"Primitive": True})

    def copied(self, binding: rx.Binding) -> rx.Binding:
        """A call on what stands for its arguments inside."""
        call = binding.value
        buffers = self.functions[call.args[0]].buffers  # type: ignore[attr-defined]
        for arg, buffer in zip(call.args[1].fields, buffers, strict=False):
            self.argument(arg, buffer.name)
        name = "gv" if binding.var in self.outputs else "lv"
        return self.bound(binding, self.local(call), name)

    def fresh(self, name: str) -> str:
        """`name`, or name_1, name_2 …"""
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        return self.fresh(f"{name}_{count}") if count else name
