"""What there is in a module or function: operators, kernels, parameters, work, names of parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from mlcnb.core.errors import MLCError
from mlcnb.core.node import EMPTY
from mlcnb.ir.expr import GlobalVar, IntImm
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis import call_flops, nbytes, symbolic_vars
from mlcnb.relax.analysis.struct_info import substitute
from mlcnb.relax.analysis.variables import bindings_of, leaves, result_of
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.tir.analysis import flops as loop_flops
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize

T = TypeVar("T")

#: calls whose first argument is the kernel that runs
DPS = frozenset(
    f"relax.{name}" for name in ("call_tir", "call_tir_inplace", "call_dps_packed", "call_tir_dyn")
)
Functions = Mapping[GlobalVar, Any]


def graph_functions(mod: IRModule) -> list[tuple[str, rx.Function]]:
    """Name and function of each graph function that is no fused group."""
    found = [(v.name_hint, f) for v, f in mod.of_kind(rx.Function).items()]
    return [(n, f) for n, f in found if not f.attrs.get("Primitive")] or found


def loop_functions(mod: IRModule) -> list[tuple[str, PrimFunc]]:
    """Name and function of each loop function."""
    return [(v.name_hint, f) for v, f in mod.of_kind(PrimFunc).items()]


def calls_of(function: rx.Function) -> Iterator[rx.Call]:
    """Every call that is bound in a function, those of its branches too."""
    for binding in bindings_of(function):
        if isinstance(binding.value, rx.Call):
            yield binding.value


def kernel_of(call: rx.Call) -> str | None:
    """The name of the kernel that a call runs, or None where it runs an operator."""
    op = call.op
    if isinstance(op, rx.Op) and op.name in DPS and call.args:
        op = call.args[0]
    if isinstance(op, GlobalVar):
        return op.name_hint
    return op.global_symbol if isinstance(op, rx.ExternFunc) else None


def callee_of(call: rx.Call, functions: Functions) -> Any:
    """The function of the module that a call runs, by itself or by call_tir; else None."""
    op = call.op
    target = call.args[0] if isinstance(op, rx.Op) and op.name in DPS and call.args else op
    return functions.get(target) if isinstance(target, GlobalVar) else None


def op_name(call: rx.Call) -> str:
    """The short name of what is called: `conv2d` for `relax.nn.conv2d`."""
    name = kernel_of(call)
    if name is not None:
        return name
    return call.op.name.rpartition(".")[2] if isinstance(call.op, rx.Op) else "closure"


def run_calls(function: rx.Function, functions: Functions) -> Iterator[rx.Call]:
    """The calls of one run, in place of a call of a graph function those in it."""
    for call in calls_of(function):
        callee = functions.get(call.op) if isinstance(call.op, GlobalVar) else None
        if isinstance(callee, rx.Function):
            yield from run_calls(callee, functions)
        else:
            yield call


def operators(function: rx.Function, functions: Functions = EMPTY) -> Counter[str]:
    """How often each operator is called in one run; those inside fused groups count too."""
    called = run_calls(function, functions)
    return Counter(op_name(call) for call in called if kernel_of(call) is None)


def kernel_calls(function: rx.Function, functions: Functions = EMPTY) -> Counter[str]:
    """How often each kernel (a loop function or an outside one) is called in one run."""
    names = (kernel_of(call) for call in run_calls(function, functions))
    return Counter(name for name in names if name is not None)


def operator_count(mod: IRModule) -> int:
    """Operators and kernels called in one run of the module's graph functions."""
    return sum(
        operators(f, mod.functions).total() + kernel_calls(f, mod.functions).total()
        for _, f in graph_functions(mod)
    )


def temporaries(mod: IRModule) -> int:
    """Bytes of all tensors that one run of the graph functions makes, without their results.

    What happens inside a fused kernel takes no memory; a size that is not known counts as 1.
    """
    return sum(_temporaries(f) for _, f in graph_functions(mod))


def _temporaries(function: rx.Function) -> int:
    results = set(leaves(result_of(function)))
    made = (
        b.var
        for b in bindings_of(function)
        if isinstance(b.value, rx.Call) and not called(b.value).view
    )
    return sum(bytes_of(v.struct_info) for v in made if v not in results)


def bytes_of(info: Any) -> int:
    """Bytes of a value; a size that is not known counts as 1, and what is no tensor as nothing."""
    if isinstance(info, TupleStructInfo):
        return sum(map(bytes_of, info.fields))
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
        return 0
    ones = {v: IntImm(v.dtype, 1) for v in symbolic_vars(info)}
    return nbytes(substitute(info, ones) if ones else info) or 0


def has_unknown_sizes(mod: IRModule) -> bool:
    """Whether a size of a graph function is known only when it is called."""
    return any(symbolic_vars(p.struct_info) for _, f in graph_functions(mod) for p in f.params)


def counted(counts: Counter[str], most: int = 10) -> str:
    """`conv2d ×26, relu ×26, concat` and how many others."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [name if n == 1 else f"{name} ×{n}" for name, n in ranked[:most]]
    rest = len(ranked) - most
    return ", ".join(shown) + (f" and {rest} other kinds" if rest > 0 else "")


def parameters(*functions: Any) -> tuple[int, int]:
    """Elements and bytes of the constants, each array once."""
    arrays: dict[int, Any] = {}
    for function in functions:
        for binding in bindings_of(function) if isinstance(function, rx.Function) else ():
            for leaf in leaves(binding.value):
                if isinstance(leaf, rx.Constant):
                    arrays[id(leaf.data)] = leaf.data
    return sum(a.size for a in arrays.values()), sum(a.nbytes for a in arrays.values())


def remembered(fn: Callable[[Any], T]) -> Callable[[Any], T]:
    """Decorator: the answer for a node is kept as long as the node lives."""
    known: WeakKeyDictionary[Any, T] = WeakKeyDictionary()

    @wraps(fn)
    def ask(n: Any) -> T:
        if n not in known:
            known[n] = fn(n)
        return known[n]

    return ask


def work(function: Any, functions: Functions = EMPTY) -> Any:
    """Floating-point operations of one run; None where they cannot be counted."""
    try:
        return _work(function, functions)
    except (MLCError, AttributeError, TypeError):  # a program that is not well-formed is shown too
        return None


def _work(function: Any, functions: Functions) -> Any:
    if isinstance(function, PrimFunc):
        return _loop_work(function)
    total: Any = 0
    for call in calls_of(function):
        callee = callee_of(call, functions)
        done = call_flops(call) if callee is None else _work(callee, functions)
        if done is not None:
            total = total + done
    return total


@remembered
def _loop_work(function: PrimFunc) -> Any:
    return loop_flops(function)


@remembered
def blocks_of(function: PrimFunc) -> tuple[Block, ...]:
    """The blocks of a loop function in order, without the root."""
    realized = (n.block for n in statements(function.body) if isinstance(n, BlockRealize))
    return tuple(block for block in realized if block.name_hint != "root")


@remembered
def parts_of(function: PrimFunc) -> tuple[str, ...]:
    """What a kernel is made of: the names of its blocks, without numbers and repeats."""
    names = (re.sub(r"_\d+$", "", b.name_hint) for b in blocks_of(function))
    return tuple(dict.fromkeys(names))


#: blocks that only prepare what another one of the same operator takes
_HELPERS = re.compile(
    r"pad_temp|padded|input_rows|data_pack|weight_rows|transform_weight|bgemm|inverse_rows|"
    r"T_softmax_log|grid_position|column_major|order|flat|pool_max_first|roi_mean|"
    r"batch_(first|mean|rest|var)|moving_(mean|var)|(key|query)_(place|place_edge|sequence)|"
    r"\w+_(maxelem|max|exp|expsum|inverse|single|squares|sum|sum_h|sum_d|cast)"
)
#: what a name says beyond the operator: TVM's prefixes, the order of axes, the way it is stored
_BEYOND = re.compile(r"^(T|tir)_|_(nchw|nhwc|ncw|nwc|ncdhw|ndhwc|packed)c?$", re.IGNORECASE)
#: block -> its operator, where that has another name
_CALLED = {
    "pool_max": "max_pool",
    "pool_avg": "avg_pool",
    "adaptive_pool_max": "adaptive_max_pool",
    "adaptive_pool_avg": "adaptive_avg_pool",
    "conv2d_winograd": "winograd conv2d",
    "T_softmax_norm": "softmax",
}
#: the block of log_softmax that softmax has not
_LOG = "T_softmax_log"


@remembered
def words_of(function: PrimFunc) -> tuple[str, ...]:
    """What a kernel does, as a person would say it: the operators of its blocks.

    `pad_temp, conv2d_NCHWc, add, relu` is `conv2d, add, relu`; what only prepares is left out,
    unless there is nothing else, and so is `layer_norm_mean` beside `layer_norm`.
    """
    parts = parts_of(function)
    kept = [p for p in parts if p in _CALLED or not _HELPERS.fullmatch(p)] or parts
    plain = {p: _BEYOND.sub("", p) or p for p in kept}
    own = tuple(f"{name}_" for name in plain.values())
    last = [p for p in kept if p in _CALLED or not plain[p].startswith(own)]
    called = {**_CALLED, "T_softmax_norm": "log_softmax"} if _LOG in parts else _CALLED
    return tuple(dict.fromkeys(called.get(p, plain[p]) for p in last))


def group_of(function: rx.Function, functions: Functions) -> str:
    """What a fused group does, as a person would say it: `conv2d + relu`."""
    names: dict[str, None] = {}
    for call in calls_of(function):
        callee = callee_of(call, functions)
        does = words_of(callee) if isinstance(callee, PrimFunc) else (op_name(call),)
        names |= dict.fromkeys(does)
    return " + ".join(names)


def outputs_of(function: PrimFunc, least: int = 1) -> list[Any]:
    """The parameters that the function writes."""
    written = {region.buffer for block in blocks_of(function) for region in block.writes}
    found = [b for b in function.buffers if b in written]
    return found or list(function.buffers[len(function.buffers) - least :])
