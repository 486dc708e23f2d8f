"""mlcnb as a backend of torch.compile.

    torch.compile(model, backend="mlcnb")(x)

Dynamo cuts the program into graphs; AOTAutograd makes each functional, of ATen operators; ours is
compiled when it is first called with such shapes, and called with PyTorch's own memory (DLPack, no
copy of a tensor that lies in order). Under autograd both graphs, forward and backward, are ours,
and weights are inputs; a backward graph with an operator that is not imported is PyTorch's. Where
no gradient is wanted (torch.no_grad) weights are constants, packed as kernels read them, until
somebody writes to them (`weights`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core import above, display
from mlcnb.core.errors import ArgumentError, UnsupportedOpError
from mlcnb.core.garbage import collected_between
from mlcnb.ir.module import IRModule
from mlcnb.relax.frontend.torch.arrays import array_of
from mlcnb.relax.frontend.torch.entry import torch_module
from mlcnb.relax.frontend.torch.importer import Importer
from mlcnb.relax.frontend.torch.prepare import refuse_missing, spelling
from mlcnb.relax.frontend.torch.results import returned
from mlcnb.relax.frontend.torch.stand_ins import Input
from mlcnb.relax.frontend.torch.weights import Bound, Run

NAME = "mlcnb"
SOURCE = "the compiled graph"
_log = logging.getLogger(__name__)


def backend(graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """What torch.compile(model, backend="mlcnb") calls for each graph.

    Args:
        graph_module: Dynamo's graph.
        example_inputs: its inputs, weights among them.
        options: of torch.compile; `options={"target": …, "relax_pipeline": …}` go to
            `mlcnb.compile`. "constant_weights": True (the default) compares weights that became
            constants with what they were at each call; "versions" asks PyTorch's counter only,
            which does not see writes through `.data` and NumPy; False makes weights inputs.
            "backward": True (the default) compiles what computes the derivatives too, where all of
            its operators are imported; False leaves it to PyTorch.

    Returns:
        A function from inputs to a list of outputs.

    Raises:
        UnsupportedOpError: operators that are not imported, all of them named.
        ArgumentError: another word for "constant_weights".
    """
    given = dict(options.get("options") or {})
    constant_weights = given.pop("constant_weights", True)
    backward = given.pop("backward", True)
    if constant_weights not in (True, False, "versions"):
        raise ArgumentError(
            f"constant_weights={constant_weights!r}", hint='it is True, False or "versions"'
        )
    forward = functools.partial(_compiled, given)
    contents = constant_weights is True
    held = functools.partial(_specialised, given, contents)
    inference = held if constant_weights else forward
    derivatives = functools.partial(_derivatives, forward) if backward else _eager
    return _aot(forward, inference, derivatives)(graph_module, example_inputs)


def relax_dynamo(pipeline: Any = None) -> Callable[..., Any]:
    """A backend for torch.compile with a pipeline of one's own; TVM's name for it.

    Args:
        pipeline: what `mlcnb.compile` takes as `relax_pipeline`; None for the default one.
    """
    options = {} if pipeline is None else {"relax_pipeline": pipeline}

    def run(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The backend."""
        return backend(graph_module, example_inputs, options=options)

    return run


def dynamo_capture_subgraphs(model: Any, *args: Any, **kwargs: Any) -> IRModule:
    """The graphs that Dynamo cuts a model into, as functions subgraph_0, subgraph_1, …

    Args:
        model: a torch.nn.Module or a function.
        args: what it is called with once.
        kwargs: the same, by name.
    """
    torch = torch_module()
    found: list[IRModule] = []

    def keep(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        found.append(_imported(graph_module)[0])
        return _eager(graph_module, example_inputs)

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model, backend=_aot(keep))(*args, **kwargs)
    functions = {f"subgraph_{i}": m["main"] for i, m in enumerate(found)}
    return IRModule.make({k: f.with_attr("global_symbol", k) for k, f in functions.items()})


def register_backend() -> None:
    """Make "mlcnb" a name that torch.compile knows; where mlcnb is installed its entry point does.

    Nothing happens where the name is taken.
    """
    torch_module()
    from torch._dynamo import list_backends
    from torch._dynamo import register_backend as register

    if NAME not in list_backends(exclude_tags=()):
        register(backend, name=NAME)


Compiler = Callable[[Any, Sequence[Any]], Callable[..., Any]]


def _eager(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph as PyTorch runs it."""
    return _boxed(graph_module.forward)


def _derivatives(
    compiler: Compiler, graph_module: Any, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """A backward graph, compiled; as PyTorch runs it where an operator is not imported."""
    try:
        return compiler(graph_module, example_inputs)
    except UnsupportedOpError as error:
        _log.info("PyTorch computes these derivatives: %s", error)
        return _eager(graph_module, example_inputs)


def _aot(
    compiler: Compiler, inference: Compiler | None = None, backward: Compiler = _eager
) -> Callable[..., Any]:
    """A backend of Dynamo from a compiler of functional ATen graphs, one of those of which nobody
    wants gradients, and one of those that compute gradients.
    """
    torch_module()
    from torch._dynamo.backends.common import aot_autograd

    display.load("mlcnb.op:load_all")()  # type: ignore[call-arg]
    return aot_autograd(
        fw_compiler=compiler,
        inference_compiler=inference or compiler,
        bw_compiler=backward,
        decompositions=_decompositions(),
        keep_inference_input_mutations=False,
    )


@functools.cache
def _decompositions() -> dict[Any, Any]:
    """PyTorch's decompositions of what has no spelling."""
    from torch._decomp import core_aten_decompositions

    return {op: fn for op, fn in core_aten_decompositions().items() if spelling(op) is None}


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    from functorch.compile import make_boxed_func

    return make_boxed_func(run)


def _imported(
    graph_module: Any, weights: Mapping[int, Any] | None = None
) -> tuple[IRModule, list[int]]:
    """A graph as a module, and the places of the inputs that are its parameters.

    Args:
        graph_module: the graph.
        weights: the inputs that are constants, by their places.
    """
    torch = torch_module()
    refuse_missing(graph_module.graph, SOURCE)
    holders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    known = {i: array_of(x, holders[i].name) for i, x in (weights or {}).items()}
    inputs = {n.name: Input(n.name, known.get(i)) for i, n in enumerate(holders)}
    importer = Importer(graph_module.graph, inputs, {}, SOURCE)
    with collected_between(), torch.no_grad():
        module = importer.module(_made(graph_module.graph))
    names = {p.span.name for p in importer.params if p.span is not None}
    return module, [i for i, n in enumerate(holders) if n.name in names]


def _made(graph: Any) -> list[int]:
    """The places of the outputs that are values."""
    return [i for i, x in enumerate(returned(graph)) if x is not None]


def _compiled(
    options: dict[str, Any], graph_module: Any, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """A graph, compiled; all of its inputs stay inputs."""
    run = _executed(options, graph_module, {})
    return _boxed(lambda *inputs: run(inputs))


def _specialised(
    options: dict[str, Any], contents: bool, graph_module: Any, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """A graph, compiled for the weights that it is called with."""
    places = _weights(graph_module.graph)
    if not places:
        return _compiled(options, graph_module, example_inputs)
    refuse_missing(graph_module.graph, SOURCE)
    return _boxed(Bound(places, functools.partial(_executed, options, graph_module), contents))


def _weights(graph: Any) -> list[int]:
    """The places of inputs that Dynamo took from the model, that are read and not written."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    told = context and context.fw_metadata
    if not told:
        return []
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    written = {i for i, info in enumerate(told.input_info) if info.mutates_data}
    static = [i for i in told.static_input_indices if i < len(holders) and i not in written]
    return [i for i in static if holders[i].users]


def _executed(options: dict[str, Any], graph_module: Any, weights: Mapping[int, Any]) -> Run:
    """What runs a graph in which some inputs are constants."""
    module, used = _imported(graph_module, weights)
    places, count = _made(graph_module.graph), len(returned(graph_module.graph))
    executable = above.ask("compile")(module, **options)
    torch = torch_module()

    def run(inputs: Sequence[Any]) -> list[Any]:
        given = [inputs[i] for i in used]
        arrays = [x.detach().contiguous() if isinstance(x, torch.Tensor) else x for x in given]
        made = executable(*arrays)
        found: list[Any] = [None] * count
        for place, value in zip(places, made, strict=True):
            found[place] = value if isinstance(value, int) else _as_torch(torch, value)
        return found

    return run


def _as_torch(torch: Any, value: Any) -> Any:
    """A result as a torch.Tensor over the same memory."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.from_dlpack(value)
