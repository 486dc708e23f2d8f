"""What is refused before anything is built: models that contradict themselves, or ask for too much.

text         names are UTF-8 (`check_text`, before anybody asks for them)
versions     IR and opsets that are known
graphs       every name is made once, before it is used; no circles; not too deep
functions    no recursion, not too deep, not too many nodes when written out
tensors      every one of them, wherever it hides: initializers, sparse ones, attributes,
             branches, functions
the rest     onnx.checker: attributes and inputs against the operators' schemas
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from mlcnb.core.errors import ModelError, UnsupportedOpError
from mlcnb.relax.frontend.onnx.check_order import first_of, why_unknown
from mlcnb.relax.frontend.onnx.functions import check_functions
from mlcnb.relax.frontend.onnx.load import Source
from mlcnb.relax.frontend.onnx.protos import label, sparse_of, subgraphs, tensors_of
from mlcnb.relax.frontend.onnx.skeleton import skeleton
from mlcnb.relax.frontend.onnx.tensors import check_tensor
from mlcnb.relax.frontend.shared.limits import MAX_GRAPH_DEPTH, element_count

Names = frozenset[str]


def check_model(model: Any, source: Source, opsets: dict[str, int]) -> None:
    """Refuse a model that is not sound.

    Args:
        model: the ModelProto.
        source: where it came from.
        opsets: version of each domain, as imported.

    Raises:
        ModelError: it contradicts itself, or is larger than `limits` allow.
        UnsupportedOpError: an opset that is newer than what is known.
        UnsupportedDtypeError: a tensor of strings or complex numbers.
    """
    _check_versions(model, source, opsets)
    checker = _Checker(source)
    checker.graph(model.graph, "the graph", frozenset(), 0)
    if not model.graph.output:
        checker.refuse("the graph has no outputs: there is nothing to compute")
    for function in model.functions:
        checker.function(function)
    check_functions(model, source.name)
    _check_schemas(model, source)


def _check_versions(model: Any, source: Source, opsets: dict[str, int]) -> None:
    import onnx

    if not 0 < model.ir_version <= onnx.IR_VERSION:
        raise ModelError(
            f"{source.name}: IR version {model.ir_version} is not one of 1 to {onnx.IR_VERSION}",
            hint="upgrade the package onnx, or export for an older version",
        )
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("", 1)
    if not 0 < version <= newest:
        raise UnsupportedOpError(
            f"{source.name}: opset {version} is not one of 1 to {newest}",
            hint="convert it with onnx.version_converter, or upgrade the package onnx",
        )


def _check_schemas(model: Any, source: Source) -> None:
    """Attributes and numbers of inputs, by onnx.checker, on a copy without the weights."""
    import onnx

    try:
        onnx.checker.check_model(skeleton(model, source.held))
    except onnx.checker.ValidationError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ModelError(
            f"{source.name}: onnx.checker refuses it: {' '.join(lines[:3])[:500]}",
            hint="export it again, or repair it with the package onnx",
        ) from error


class _Checker:
    """Graphs and functions, and the tensors in them."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise a ModelError that names the file."""
        raise ModelError(
            f"{self.source.name}: {what}", hint=hint or "the file is damaged: export it again"
        )

    def graph(self, graph: Any, place: str, outer: Names, depth: int) -> None:
        """One graph, its tensors and the graphs inside of it."""
        if depth > MAX_GRAPH_DEPTH:
            self.refuse(f"graphs are nested deeper than {MAX_GRAPH_DEPTH}")
        known = self.entry(graph, place, outer)
        self.nodes(graph.node, place, known, depth)
        for output in graph.output:
            if output.name not in known:
                self.refuse(f"output {output.name!r} of {place} is made by no node")
        self.tensors(graph, place)

    def entry(self, graph: Any, place: str, outer: Names) -> set[str]:
        """The names that are known before the first node."""
        twice = first_of(i.name for i in graph.input)
        stored = [t.name for t in graph.initializer]
        stored += [t.values.name for t in graph.sparse_initializer]
        twice = twice or first_of(stored)
        if twice is not None:
            self.refuse(f"{twice!r} is given twice in {place}")
        if any(not i.name for i in graph.input) or not all(stored):
            self.refuse(f"an input or initializer of {place} has no name")
        for value in graph.input:
            self.declared(value)
        return {*outer, *(i.name for i in graph.input), *stored}

    def declared(self, value: Any) -> None:
        """The shape that an input says it has."""
        given = value.type.tensor_type.shape.dim
        dims = [d.dim_value if d.HasField("dim_value") else 1 for d in given]
        if any(d < -1 for d in dims) or element_count(max(d, 0) for d in dims) is None:
            self.refuse(f"input {value.name!r} has dimensions that are negative or overflow")

    def nodes(self, nodes: Any, place: str, known: set[str], depth: int) -> None:
        """Every name is made once, and before it is used."""
        for number, node in enumerate(nodes):
            if not known.issuperset(node.input):
                unknown = next((i for i in node.input if i and i not in known), None)
                if unknown is not None:
                    self.refuse(why_unknown(nodes, number, unknown, place))
            made = node.output if all(node.output) else [o for o in node.output if o]
            if len(made) > 1 or not known.isdisjoint(made):
                again = next((o for o in made if o in known), None) or first_of(made)
                if again is not None:
                    self.refuse(
                        f"{label(node)} makes {again!r} a second time: names are given once"
                    )
            if node.attribute:
                self.attributes_once(node)
                for inner in subgraphs(node):
                    self.graph(inner, f"a graph in {label(node)}", frozenset(known), depth + 1)
            known.update(made)

    def attributes_once(self, node: Any) -> None:
        """No attribute is given twice."""
        twice = first_of(a.name for a in node.attribute)
        if twice is not None:
            self.refuse(f"{label(node)} has the attribute {twice!r} twice")

    def tensors(self, graph: Any, place: str) -> None:
        """Initializers, sparse ones, and those in attributes."""
        for tensor in graph.initializer:
            check_tensor(tensor, self.source, f"{self.source.name}: initializer {tensor.name!r}")
        for sparse in graph.sparse_initializer:
            self.sparse(sparse, f"sparse initializer {sparse.values.name!r}")
        for node in graph.node:
            self.attributes(node)

    def sparse(self, tensor: Any, place: str) -> None:
        """The two tensors that make a sparse one."""
        check_tensor(tensor.values, self.source, f"{self.source.name}: {place} (values)")
        check_tensor(tensor.indices, self.source, f"{self.source.name}: {place} (indices)")
        if element_count(tensor.dims) is None:
            self.refuse(f"{place} has dimensions that are negative or overflow")

    def attributes(self, node: Any) -> None:
        """The tensors in a node's attributes."""
        for attribute in node.attribute or ():
            place = f"attribute {attribute.name!r} of {label(node)}"
            for tensor in tensors_of(attribute):
                check_tensor(tensor, self.source, f"{self.source.name}: {place}")
            for sparse in sparse_of(attribute):
                self.sparse(sparse, place)

    def function(self, function: Any) -> None:
        """A function of the model: its names and tensors."""
        place = f"function {function.name!r}"
        twice = first_of([*function.input, *function.attribute])
        if twice is not None:
            self.refuse(f"{place} has {twice!r} twice")
        known = set(filter(None, function.input))
        self.nodes(function.node, place, known, 1)
        for output in function.output:
            if output not in known:
                self.refuse(f"output {output!r} of {place} is made by no node")
        for node in function.node:
            self.attributes(node)


def check_text(model: Any, name: str) -> None:
    """Refuse a model with a name that is no text.

    Raises:
        ModelError: saying what has the name.
    """
    place = "an opset's domain"
    try:
        for place, texts in _texts(model):
            for text in texts:
                if type(text) is not str:
                    _no_text(name, place)
    except UnicodeDecodeError:
        _no_text(name, f"what follows {place}")


def _no_text(name: str, place: str) -> NoReturn:
    raise ModelError(
        f"{name}: a name of {place} is not UTF-8",
        hint="the file is damaged: download or export it again",
    )


Texts = Iterator[tuple[str, Iterable[Any]]]


def _texts(model: Any) -> Texts:
    """Every text that an import reads, with words for where it stands; each message once."""
    yield "an opset's domain", (o.domain for o in model.opset_import)
    graphs = [model.graph]
    for function in model.functions:
        given = (function.name, function.domain, getattr(function, "overload", ""))
        yield "a function", (*given, *function.input, *function.output, *function.attribute)
        yield "an opset's domain", (o.domain for o in function.opset_import)
        yield from _of_attributes(function.attribute_proto)
        yield from _of_nodes(function.node, graphs)
    while graphs:
        graph = graphs.pop()
        yield "a graph", (graph.name,)
        for value in (*graph.input, *graph.output):
            dims = value.type.tensor_type.shape.dim
            yield "an input or output", (value.name, *(d.dim_param for d in dims))
        tensors = (*graph.initializer, *(s.values for s in graph.sparse_initializer))
        yield from _of_tensors(tensors)
        yield from _of_nodes(graph.node, graphs)


def _of_nodes(nodes: Iterable[Any], graphs: list[Any]) -> Texts:
    for number, node in enumerate(nodes):
        given = (node.name, node.op_type, node.domain, getattr(node, "overload", ""))
        yield f"node number {number}", (*given, *node.input, *node.output)
        if node.attribute:
            yield from _of_attributes(node.attribute)
            graphs.extend(subgraphs(node))


def _of_attributes(attributes: Iterable[Any]) -> Texts:
    for attribute in attributes:
        yield "an attribute", (attribute.name, attribute.ref_attr_name)
        if attribute.HasField("t"):
            yield from _of_tensors((attribute.t,))


def _of_tensors(tensors: Iterable[Any]) -> Texts:
    for tensor in tensors:
        more = (t for e in tensor.external_data for t in (e.key, e.value))
        yield "an initializer or constant", (tensor.name, *more)
