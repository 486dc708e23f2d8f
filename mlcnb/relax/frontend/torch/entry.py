"""from_exported_program, from_torch, from_fx: models of PyTorch in, an IRModule out.

from_exported_program(ep)       as TVM has it: a tuple is returned, even of one
from_torch(model, (x,))         export, then that; one output comes as it is
from_fx(graph_module, info)     example inputs from shapes and dtypes, then that
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError, MissingDependencyError, ModelError
from mlcnb.core.garbage import collected_between
from mlcnb.core.text import kind_of
from mlcnb.ir.module import IRModule
from mlcnb.op._complex import complex_spellings
from mlcnb.op.torch import torch_spellings
from mlcnb.relax.frontend.torch.arrays import array_of
from mlcnb.relax.frontend.torch.held import value_of
from mlcnb.relax.frontend.torch.importer import Importer
from mlcnb.relax.frontend.torch.prepare import open_lengths, ready, refusals
from mlcnb.relax.frontend.torch.stand_ins import Input


def torch_module() -> Any:
    """The package torch.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "PyTorch is not installed", hint="pip install 'mlcnb[torch]'"
        ) from error
    return torch


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Import what torch.export made.

    Operators are taken as they are written (ATen before decomposition); only one that mlcnb has no
    spelling for is decomposed. Sizes that were exported as dynamic stay symbolic: their ranges are
    asked for when the program runs, and stand in main's attributes `tir_var_lower_bound` and
    `tir_var_upper_bound`.

    Args:
        exported_program: a torch.export.ExportedProgram.
        keep_params_as_input: parameters and buffers become parameters of main, after the inputs, in
            place of constants; `relax.frontend.detach_params` gives their values.
        unwrap_unit_return_tuple: a single output is returned as it is, not as a tuple of one.
        no_bind_return_tuple: TVM's option for a returned tuple that is not bound to a variable; the
            tuple is written out in the function's result.

    Returns:
        A module whose function main takes the program's inputs and returns its outputs; buffers
        that the program changes come after them with their new values, and are named in main's
        attribute `mutated`.

    Raises:
        UnsupportedOpError: operators that are not imported, all of them named.
        UnsupportedDtypeError: inputs and outputs that are complex, and quantised tensors.
        ModelError: it is no exported program.
    """
    torch = torch_module()
    if not isinstance(exported_program, torch.export.ExportedProgram):
        raise ModelError(
            f"from_exported_program: got {kind_of(exported_program)}",
            hint="pass torch.export.export(model, example_args), or use mlcnb.from_torch",
        )
    display.load("mlcnb.op:load_all")()  # type: ignore[call-arg]
    source = _name_of(exported_program)
    with collected_between(), torch.no_grad():
        with open_lengths():
            ep = ready(exported_program, source)
        ranges, assumed = ep.range_constraints, getattr(exported_program, "_guards_code", ())
        importer = Importer(
            ep.graph, _inputs(ep), ranges, source, keep_params_as_input, assumed or ()
        )
        places, changed = _outputs(ep)
        options = {"unwrap": unwrap_unit_return_tuple, "bind": not no_bind_return_tuple}
        return importer.module(places, attrs={"mutated": changed} if changed else {}, **options)


def from_torch(
    model: Any,
    example_args: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    keep_params_as_input: bool = False,
) -> IRModule:
    """Import a model of PyTorch.

    Args:
        model: a torch.nn.Module, which is exported as it is (call `.eval()` first), a function of
            tensors, or an ExportedProgram.
        example_args: tensors (or a tensor) that the model can be called with; the module takes
            their shapes and dtypes.
        example_kwargs: the same, by name.
        dynamic_shapes: as torch.export.export takes it: ({0: torch.export.Dim("batch")},).
        keep_params_as_input: as in `from_exported_program`.

    Returns:
        A module whose function main returns the model's output (a tuple of several).

    Raises:
        As `from_exported_program`; ArgumentError without example inputs; UnsupportedError for a
            model that PyTorch cannot export, as one whose way depends on a tensor's elements.
    """
    torch = torch_module()
    if isinstance(model, torch.export.ExportedProgram):
        ep = model
    else:
        ep = _exported(model, example_args, example_kwargs, dynamic_shapes)
    return from_exported_program(
        ep, keep_params_as_input=keep_params_as_input, unwrap_unit_return_tuple=True
    )


def from_fx(
    model: Any,
    input_info: Sequence[tuple[Sequence[Any], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Import a torch.fx.GraphModule, as torch.fx.symbolic_trace makes it.

    It is exported with inputs of the given shapes first. As in TVM, one tensor that the graph
    returns comes as it is. Calls know the lines of the model that the tracer recorded, which
    PyTorch's does where its `record_stack_traces` is set.

    Args:
        model: the GraphModule.
        input_info: (shape, dtype) of each input; a str or a tir.Var in a shape is a symbolic size.
        keep_params_as_input: as in `from_exported_program`.
        unwrap_unit_return_tuple: as there.
        no_bind_return_tuple: as there.
    """
    torch = torch_module()
    args, dynamic = _examples(torch, input_info)
    ep = _exported(model, args, None, dynamic)
    returns = next(n for n in reversed(model.graph.nodes) if n.op == "output").args[0]
    return from_exported_program(
        ep,
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple or not isinstance(returns, tuple | list),
        no_bind_return_tuple=no_bind_return_tuple,
    )


def coverage() -> tuple[str, ...]:
    """The ATen operators that are imported, such as "aten.add.Tensor"; a name without an overload
    means all of them. Forms in place (add_) and copies of views (view_copy) are imported with them.
    """
    display.load("mlcnb.op:load_all")()  # type: ignore[call-arg]
    return tuple(sorted({*torch_spellings(), *complex_spellings()}))


def _exported(model: Any, args: Any, kwargs: Any, dynamic: Any) -> Any:
    torch = torch_module()
    if not isinstance(model, torch.nn.Module):
        if not callable(model):
            raise ArgumentError(
                f"from_torch: {kind_of(model)} is no model",
                hint="pass a torch.nn.Module, a function or an ExportedProgram",
            )
        model = _Called(torch, model).module
    if args is None and kwargs is None:
        raise ArgumentError(
            "from_torch: no example inputs",
            hint="from_torch(model, (torch.randn(1, 3, 224, 224),))",
        )
    given = (args,) if isinstance(args, torch.Tensor) else tuple(args or ())
    named = dict(kwargs or {})
    with torch.no_grad(), open_lengths(), refusals(model, given, named):
        return torch.export.export(model, given, named, dynamic_shapes=dynamic)


class _Called:
    """A function as a module."""

    def __init__(self, torch: Any, fn: Any) -> None:
        class Function(torch.nn.Module):
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return fn(*args, **kwargs)

        Function.__name__ = Function.__qualname__ = getattr(fn, "__name__", "function")
        self.module = Function()


def _examples(torch: Any, info: Sequence[tuple[Sequence[Any], str]]) -> tuple[Any, Any]:
    """Inputs of zeros, and the dynamic sizes among them."""
    sizes: dict[str, int] = {}
    args, dynamic = [], []
    for shape, kind in info:
        named = {i: getattr(d, "name", d) for i, d in enumerate(shape) if not isinstance(d, int)}
        for name in named.values():
            sizes.setdefault(name, 3 + len(sizes))
        dims = [sizes[named[i]] if i in named else d for i, d in enumerate(shape)]
        args.append(torch.zeros(dims, dtype=getattr(torch, str(kind))))
        dynamic.append(dict.fromkeys(named, torch.export.Dim.DYNAMIC) or None)
    return tuple(args), tuple(dynamic) if sizes else None


def _name_of(ep: Any) -> str:
    """The class of the model, as its nodes remember it."""
    for node in ep.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if path == "":
                return (kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2]
    return "the exported program"


def _inputs(ep: Any) -> dict[str, Input]:
    """What each placeholder is."""
    import torch

    kinds = torch.export.graph_signature.InputKind
    found = {}
    for spec in ep.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind in (kinds.PARAMETER, kinds.BUFFER, kinds.CONSTANT_TENSOR):
            found[name] = Input(spec.target, array_of(value_of(ep, spec), spec.target))
        else:
            found[name] = Input(name)
    return found


def _outputs(ep: Any) -> tuple[list[int], tuple[str, ...]]:
    """The places of the outputs: the program's own, then those of changed buffers and inputs."""
    import torch

    kinds = torch.export.graph_signature.OutputKind
    specs = list(enumerate(ep.graph_signature.output_specs))
    own = [i for i, s in specs if s.kind is kinds.USER_OUTPUT]
    changed = [(i, s.target) for i, s in specs if s.kind is not kinds.USER_OUTPUT]
    return [*own, *(i for i, _ in changed)], tuple(str(name) for _, name in changed)
