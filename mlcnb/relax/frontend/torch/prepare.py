"""An exported program made ready: functional, and of operators that have spellings.

    add_(b, 1)              functional: add(b, 1), whose result is the buffer's new value
    with torch.autocast, torch.no_grad, torch.vmap      PyTorch writes out what they mean
    _foo(x)  no spelling    decomposed by PyTorch's own table, and only that operator
    _bar(x)  neither        refused: all such operators are named at once
    if x.sum() > 0          PyTorch does not export it: refused, with the line (`refusals`)
    x.numpy()               the same

Nothing is decomposed that has a spelling: attention, linear layers and LSTMs stay whole; those are
traced by their shapes alone (`open_lengths`), so that their lengths stay open.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from mlcnb.core.errors import UnsupportedError, UnsupportedOpError
from mlcnb.op._complex import complex_spelling_of
from mlcnb.op.torch import spelled_name, torch_spelling_of
from mlcnb.relax.frontend.shared.errors import UNPLANNED
from mlcnb.relax.frontend.torch.held import by_one_name, by_tensors
from mlcnb.relax.frontend.torch.node import is_complex, origin_of, target_name, users_line

#: rounds of decomposition: what an operator decomposes to may have to be decomposed too
ROUNDS = 4
#: how PyTorch stops where it cannot decompose: of sizes that only a run knows with a RuntimeError
_STOPS = (RuntimeError, *UNPLANNED)
#: what PyTorch says of a tensor that is traced and has no elements: x.numpy(), x.data_ptr()
_OF_TRACED = (".numpy() is not supported for tensor subclasses", "Cannot access data pointer of")
#: and of a result that is neither a tensor nor tensors in lists
_RETURNED = re.compile(r"Found <class '([^']+)'> in output, which is not a known type")
#: operators that take graphs
CONTROL_OPS = ("cond", "while_loop", "scan", "map_impl")
#: operators that only assert, or say something to the exporter
DROPPED = frozenset(
    "_assert_async _assert_scalar _assert_tensor_metadata sym_constrain_range "
    "sym_constrain_range_for_size _functional_assert_async _functional_assert_scalar "
    "_print".split()
)


def is_dropped(target: Any) -> bool:
    """True for a node that computes nothing."""
    parts = target_name(target).split(".")
    return parts[0] == "aten" and parts[1] in DROPPED


def is_operator(fx_node: Any) -> bool:
    """True for a call of an operator of a library, such as torch.ops.aten.relu.default."""
    return fx_node.op == "call_function" and hasattr(fx_node.target, "_schema")


def is_control(fx_node: Any) -> bool:
    """True for an operator that takes graphs, and is imported (`control`)."""
    return fx_node.op == "call_function" and str(fx_node.target) in CONTROL_OPS


def is_random(target: Any) -> bool:
    """True for an operator that PyTorch says draws numbers."""
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def is_region(fx_node: Any) -> bool:
    """True for a graph run under autocast or without gradients, and for the borders of a vmap."""
    if fx_node.op != "call_function":
        return False
    name = str(getattr(fx_node.target, "__name__", ""))
    is_vmap = getattr(fx_node.target, "__module__", "") == "torch._functorch.predispatch"
    return is_vmap or name.startswith("wrap_with_")


def nodes_of(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, and of the graphs that it calls."""
    for node in graph.nodes:
        yield node
        if node.op == "get_attr":
            found = attrgetter(node.target)(graph.owning_module)
            if hasattr(found, "graph"):
                yield from nodes_of(found.graph)


def spelling(target: Any) -> Callable[..., Any] | None:
    """The spelling of an operator; those that make copies have that of the view."""
    return torch_spelling_of(spelled_name(target_name(target)))


def spelling_of(fx_node: Any) -> Callable[..., Any] | None:
    """The spelling of a node's operator: on complex tensors it is another."""
    if touches_complex(fx_node):
        return complex_spelling_of(spelled_name(target_name(fx_node.target)))
    return spelling(fx_node.target)


def touches_complex(fx_node: Any) -> bool:
    """True where a complex tensor is taken or made."""
    return any(is_complex(n.meta.get("val")) for n in (fx_node, *fx_node.all_input_nodes))


def ready(ep: Any, source: str) -> Any:
    """The program, functional and of known operators alone.

    Args:
        ep: an ExportedProgram.
        source: what the model is called, for errors.

    Raises:
        UnsupportedOpError: operators that are not imported, all of them named; a program that
            PyTorch cannot make functional.
    """
    import torch

    if any(_changes(n) or is_region(n) for n in nodes_of(ep.graph)):
        try:
            ep = _functional(by_one_name(ep))
        except _STOPS as error:
            why = " ".join(str(error).split())[:200]
            raise UnsupportedOpError(
                f"{source}: PyTorch cannot write it out without operators in place: {why}",
                hint="fix its sizes, or write that part of the model without them",
            ) from error
    for _ in range(ROUNDS):
        missing = {n.target for n in nodes_of(ep.graph) if _is_missing(n)}
        if not missing:
            break
        table = torch.export.default_decompositions()
        known = torch._decomp.decomposition_table
        wanted = {op: table[op] if op in table else known.get(op) for op in missing}
        usable = {op: fn for op, fn in wanted.items() if fn is not None and not is_random(op)}
        if not usable:
            break
        try:
            ep = ep.run_decompositions(usable)
        except _STOPS:
            break  # PyTorch cannot: they are refused by their own names
    refuse_missing(ep.graph, source)
    return ep


def _functional(ep: Any) -> Any:
    """The program without operators in place."""
    from torch._export.verifier import SpecViolationError

    try:
        return ep.run_decompositions({})
    except SpecViolationError:  # a class among its inputs makes tensors: PyTorch loses these
        return by_tensors(ep).run_decompositions({})


def _changes(fx_node: Any) -> bool:
    """True for an operator in place, and a normalisation that moves its statistics."""
    if not is_operator(fx_node):
        return False
    if fx_node.target._schema.is_mutable:
        return True
    name = target_name(fx_node.target)
    if name in ("aten.batch_norm.default", "aten.instance_norm.default"):
        return bool(fx_node.args[5]) and name != "aten.instance_norm.default"
    return False


def _is_missing(fx_node: Any) -> bool:
    import torch

    if isinstance(fx_node.target, torch._ops.HigherOrderOperator):
        return not is_control(fx_node)
    return (
        is_operator(fx_node)
        and not is_dropped(fx_node.target)
        and not _is_size(fx_node)
        and spelling_of(fx_node) is None
    )


def _is_size(fx_node: Any) -> bool:
    """True for what makes a number in place of a tensor: its SymPy expression is its meaning."""
    import torch

    return isinstance(
        fx_node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool
    )


def refuse_missing(graph: Any, source: str) -> None:
    """Refuse a graph with operators that are not imported.

    Raises:
        UnsupportedOpError: naming all of them, how often, and a node of each.
    """
    missing: dict[str, list[Any]] = {}
    for node in nodes_of(graph):
        if _is_missing(node) or node.op not in _OPS:
            missing.setdefault(target_name(node.target), []).append(node)
    if missing:
        what = "this operator is" if len(missing) == 1 else f"{len(missing)} operators are"
        listed = "; ".join(_entry(name, nodes) for name, nodes in sorted(missing.items()))
        hint = "mlcnb.relax.frontend.torch.coverage() lists what is imported"
        if any(is_random(nodes[0].target) for nodes in missing.values()):
            hint += "; let random numbers be inputs of the model"
        raise UnsupportedOpError(f"{source}: {what} not imported: {listed}", hint=hint)


def _entry(name: str, nodes: list[Any]) -> str:
    count = f"{len(nodes)} times: " if len(nodes) > 1 else ""
    drawn = ", which is random" if is_random(nodes[0].target) else ""
    return f"{name} ({count}{', '.join(origin_of(n, name).name for n in nodes[:3])}){drawn}"


_OPS = frozenset({"placeholder", "get_attr", "call_function", "output"})


#: recurrent layers stay open in length while PyTorch traces them, as `sizes` says
LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
KEYS = ("CompositeImplicitAutograd", "Autograd")
_lock = threading.RLock()


def sizes(x: Any, hx: Any, params: Any, *rest: Any) -> tuple[Any, ...]:
    """Tensors of the shapes that a recurrent layer makes; `rest` as of aten.lstm.input."""
    states = list(hx) if isinstance(hx, tuple | list) else [hx]
    ways = 2 if rest[4] else 1
    y = x.new_empty([*x.shape[:-1], states[0].shape[-1] * ways])
    return y, *(s.new_empty(s.shape) for s in states)


@contextmanager
def open_lengths() -> Iterator[None]:
    """While it is entered recurrent layers are traced by their shapes alone.

    lstm(x[s, b, i], …)      PyTorch runs its Python form on shapes: s steps, so that s is fixed
                             here: y[s, b, h], and the states as they are given; nothing is run

    An operator of PyTorch has a table of Python forms by dispatch key; those of recurrent layers
    are replaced for as long as a model is traced. Layers that compute do not ask this table.
    """
    import torch

    keys = [getattr(torch._C.DispatchKey, key) for key in KEYS]
    layers = [getattr(torch.ops.aten, name).input for name in LAYERS]
    with _lock:
        before = [dict(layer.py_kernels) for layer in layers]
        try:
            for layer in layers:
                layer.py_kernels.update(dict.fromkeys(keys, sizes))
                layer._dispatch_cache.clear()
            yield
        finally:
            for layer, kernels in zip(layers, before, strict=True):
                layer.py_kernels.clear()
                layer.py_kernels.update(kernels)
                layer._dispatch_cache.clear()


@contextmanager
def refusals(model: Any, args: Any, kwargs: Any) -> Iterator[None]:
    """While it is entered, errors of the exporter about the model become ours; what a model raises
    by itself, as eager PyTorch does too, comes as it is: it is called to know.

    Raises:
        UnsupportedError: naming the model, the line where it is known, and what to do.
    """
    from torch._dynamo.exc import TorchDynamoException
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
    )
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    elements = (
        GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException,
    )  # fmt: skip
    name = type(model).__name__
    try:
        yield
    except elements as error:
        found = users_line(str(error))
        where = "" if found is None else f" at {found[0]}"
        asked = str(error).strip().partition("\n")[0]
        raise UnsupportedError(
            f"{name}: PyTorch does not export it: what it does{where} depends on elements of a "
            f"tensor: {asked}",
            hint="torch.where or torch.cond for an if, or torch.compile(model, backend='mlcnb'), "
            "which leaves such places to Python",
        ) from error
    except TorchDynamoException as error:
        told = str(error).partition("\nThe error above occurred when")[0].strip()
        raise UnsupportedError(
            f"{name}: PyTorch does not export it: {told}",
            hint="change the model, or the dynamic_shapes that were given",
        ) from error
    except _STOPS as error:
        found = users_line("".join(traceback.format_exception(error)))
        where = "" if found is None else f" at {found[0]}"
        if any(said in str(error) for said in _OF_TRACED):
            raise UnsupportedError(
                f"{name}: PyTorch does not export it: it asks for the elements of a tensor{where}, "
                "which a model has only while it runs",
                hint="write what NumPy does there with operators of torch, or do it before the "
                "model or after it",
            ) from error
        returned = _RETURNED.search(str(error))
        if returned is not None:
            raise UnsupportedError(
                f"{name}: PyTorch does not export it: it returns a {returned[1]}, of which PyTorch "
                "does not know the tensors",
                hint="return the tensors (models of transformers keep no such cache with "
                "use_cache=False), or register the class: torch.utils._pytree.register_pytree_node",
            ) from error
        if not _runs(model, args, kwargs):
            raise
        told = " ".join(str(error).split())[:200]
        raise UnsupportedError(
            f"{name}: PyTorch does not export it, though it runs: {type(error).__name__}{where}: "
            f"{told}",
            hint="give the model what it makes for itself where nobody exports it (such as a "
            "mask), or change that line; torch.compile(model, backend='mlcnb') leaves such places "
            "to Python",
        ) from error


def _runs(model: Any, args: Any, kwargs: Any) -> bool:
    """True where eager PyTorch takes these inputs; they and the buffers stay as they are."""
    import torch

    args, kwargs, kept = torch.utils._pytree.tree_map_only(
        torch.Tensor, torch.clone, (args, kwargs, dict(model.named_buffers()))
    )
    try:
        torch.func.functional_call(model, kept, args, kwargs)
    except _STOPS:
        return False
    return True
