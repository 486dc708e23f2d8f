"""The walk over an ONNX graph: node by node it becomes the bindings of main.

    Conv(x, w) -> c    spelling("", "Conv", 17)(node, x, w)    lv = R.nn.conv2d(x, w, …)
    my.f(c) -> y       the model's function f, written out     lv1 = …
    Foo(y) -> z        ONNX's own definition of Foo            lv2 = …
    If, Loop, Scan     `control`

No operator is known by name here: the spellings stand with the operators (`mlcnb.op`). Every call
remembers its ONNX node in its span.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from mlcnb.core.errors import ModelError, UnsupportedOpError
from mlcnb.core.progress import progress_bar, ticking
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.op.onnx import spelling
from mlcnb.relax.emitter import Emitter, Names
from mlcnb.relax.expr import Tuple, Var
from mlcnb.relax.frontend.onnx import control, functions
from mlcnb.relax.frontend.onnx.choices import Choices
from mlcnb.relax.frontend.onnx.diagnose import type_of
from mlcnb.relax.frontend.onnx.inputs import Inputs
from mlcnb.relax.frontend.onnx.load import Source
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.onnx.protos import call_key, opsets_of, plain_domain
from mlcnb.relax.frontend.onnx.spell import apply, guarded
from mlcnb.relax.frontend.onnx.tensors import dtype_of, to_array, to_dense
from mlcnb.relax.frontend.shared.fold import constant
from mlcnb.relax.frontend.shared.limits import MAX_FUNCTION_DEPTH, MAX_NODES
from mlcnb.relax.frontend.shared.names import Scope
from mlcnb.relax.frontend.shared.values import Values, sequence
from mlcnb.relax.operator import NULL, declaration, make_call


@dataclass(frozen=True)
class Missing:
    """Stands for an output that the import of its node did not make."""

    node: Node


@dataclass(frozen=True)
class Frame:
    """Where the walk is: in the model's graph, a branch, or a function that is written out.

    scope: what names stand for; opsets: version by domain; attributes: those given to the function;
    path: names of the nodes that called it; depth: how many calls.
    """

    scope: Scope
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    depth: int = 0

    def inside(self) -> Frame:
        """The same place, for a graph whose names are its own."""
        return Frame(Scope(self.scope), self.opsets, self.attributes, self.path, self.depth)


class Importer:
    """One import.

    Args:
        model: a ModelProto that was checked.
        source: where it came from.
        opsets: version by domain.
        inputs: makes the parameters.
        keep_params: initializers become parameters of main in place of constants.
        choices: which branches are assumed.
    """

    def __init__(
        self,
        model: Any,
        source: Source,
        opsets: dict[str, int],
        inputs: Inputs,
        keep_params: bool,
        choices: Choices,
    ) -> None:
        self.model = model
        self.source = source
        self.inputs = inputs
        self.keep_params = keep_params
        self.choices = choices
        self.emitter = Emitter({}, Names())
        self.values = Values(self.emitter, inputs.dim_names)
        self.functions = functions.function_table(model)
        self.frame = Frame(Scope(), opsets)
        self.nodes_left = MAX_NODES
        #: of loops that were met: the axes of carried values whose length a turn changes
        self.open_axes: dict[Any, list[set[int]]] = {}
        #: loops (name and outputs) whose growing values are no rows: they are carried whole
        self.carried_whole: set[Any] = set()

    # main ----------------------------------------------------------------------------------------

    def module(self) -> IRModule:
        """The model as a module with the function main."""
        params = [p for name in self.inputs.values if (p := self.parameter(name)) is not None]
        self.initializers(self.model.graph, self.frame.scope)
        nodes = self.model.graph.node
        with progress_bar("reading the model", len(nodes)) as bar:
            self.walk(ticking(nodes, bar), self.frame)
        outputs = [self.output(o) for o in self.model.graph.output]
        result = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
        self.emitter.origin = None
        body = self.emitter.emit(result, "gv")
        seq = sequence(self.emitter.bindings, body)
        attrs = {"global_symbol": "main", "num_input": len(params)}
        return IRModule.make({"main": self.values.main(params, seq, body, attrs)})

    def parameter(self, name: str) -> Var | None:
        """The parameter of an input, cast where the caller wants so; None where it is frozen."""
        if self.inputs.is_absent(name):
            self.frame.scope[name] = NULL
            return None
        frozen = self.inputs.value(name)
        if frozen is not None:
            self.frame.scope[name] = constant(frozen, Span("onnx", name, kind="input"))
            return None
        var, wanted = self.inputs.parameter(name)
        self.emitter.names.reserve(var.name_hint)
        given = getattr(var.struct_info, "dtype", wanted)
        value: Any = var
        if given != wanted:
            call = make_call(declaration("relax.astype"), var, dtype=wanted)
            self.emitter.origin = var.span
            value = self.values.emit(call)
        self.frame.scope[name] = value
        return var

    def output(self, proto: Any) -> Any:
        """The value of an output, which is of the dtype that the model says."""
        value = self.find(proto.name, self.frame.scope, f"output {proto.name!r}")
        found = getattr(value.struct_info, "dtype", None)
        kind = proto.type.tensor_type.elem_type
        place = f"{self.source.name}: output {proto.name!r}"
        if kind and found and dtype_of(kind, place) != found:
            raise ModelError(
                f"{place} is declared as {dtype_of(kind, place)}, but its nodes make {found}",
                hint="export the model again",
            )
        return value

    # graphs --------------------------------------------------------------------------------------

    def initializers(self, graph: Any, scope: Scope) -> None:
        """Constants of a graph; parameters of main, where they are to be kept."""
        keep = self.keep_params and scope is self.frame.scope
        for tensor in graph.initializer:
            place = f"{self.source.name}: initializer {tensor.name!r}"
            data = to_array(tensor, self.source, place)
            scope[tensor.name] = self.stored(tensor.name, data, keep)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            place = f"{self.source.name}: sparse initializer {name!r}"
            scope[name] = self.stored(name, to_dense(sparse, self.source, place), keep)

    def stored(self, name: str, data: Any, keep: bool) -> Any:
        """What an initializer stands for."""
        return self.values.brought(name, data, Span("onnx", name, kind="initializer"), keep)

    def graph(self, graph: Any, frame: Frame) -> list[Any]:
        """The outputs of a graph inside of a node; its inputs are in the frame's scope."""
        self.initializers(graph, frame.scope)
        self.walk(graph.node, frame)
        return [self.find(o.name, frame.scope, f"output {o.name!r}") for o in graph.output]

    def walk(self, nodes: Iterable[Any], frame: Frame) -> None:
        """All nodes in order."""
        before = self.emitter.origin
        for proto in nodes:
            self.nodes_left -= 1
            if self.nodes_left < 0:
                raise ModelError(
                    f"{self.source.name}: more than {MAX_NODES} nodes with loops written out",
                    hint="export the model in parts",
                )
            self.node(proto, frame)
        self.emitter.origin = before

    def find(self, name: str, scope: Scope, user: Any) -> Any:
        """What a name stands for; None for an input of a function that was left out.

        user: who asks, for the message: a node, or words.
        """
        try:
            value = scope.find(name)
        except KeyError:
            raise ModelError(
                f"{self.source.name}: {user} reads {name!r}, which nothing makes",
                hint="the model is damaged: export it again",
            ) from None
        if isinstance(value, Missing):
            value.node.refuse(f"its output {name!r} is not supported")
        return value

    # nodes ---------------------------------------------------------------------------------------

    def node(self, proto: Any, frame: Frame) -> None:
        """One node: its outputs get their names."""
        opset = frame.opsets.get(plain_domain(proto.domain))
        if opset is None:
            raise ModelError(
                f"{self.source.name}: no opset is given for domain {proto.domain!r}",
                hint="the model is damaged: export it again",
            )
        node = Node(proto, opset, self.values, self.source, frame.attributes, frame.path)
        inputs = [self.find(i, frame.scope, node) if i else None for i in proto.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        self.emitter.origin = node.span
        results = self.results(node, inputs, frame)
        for name, value in zip_longest(node.outputs, results[: len(node.outputs)]):
            if name:
                frame.scope[name] = Missing(node) if value is None else value

    def results(self, node: Node, inputs: list[Any], frame: Frame) -> list[Any]:
        """What a node makes: a value for each output, None for one that is not made."""
        function = self.functions and self.functions.get(call_key(node.proto))
        if function:
            return self.function(function, node, inputs, frame)
        structure = control.STRUCTURE.get((node.domain, node.op_type))
        if structure is not None:
            with guarded(node, inputs):
                return structure(self, node, inputs, frame)
        spell = spelling(node.domain, node.op_type, node.opset)
        if spell is not None:
            return apply(spell, node, inputs)
        body = functions.body(node.proto, node.opset, [type_of(x) for x in inputs])
        if body is None:
            raise UnsupportedOpError(
                f"{node.where} is not imported",
                hint="mlcnb.relax.frontend.onnx.coverage() lists what is",
            )
        return self.function(body, node, inputs, frame)

    def function(self, function: Any, node: Node, inputs: list[Any], frame: Frame) -> list[Any]:
        """A function written out: names inside are its own."""
        if frame.depth >= MAX_FUNCTION_DEPTH:
            node.refuse(f"functions call each other more than {MAX_FUNCTION_DEPTH} deep")
        if len(inputs) > len(function.input):
            raise ModelError(
                f"{node.where} has {len(inputs)} inputs, its function takes {len(function.input)}",
                hint="the model is damaged: export it again",
            )
        scope = Scope()
        for name, value in zip_longest(function.input, inputs):
            scope[name] = value
        defaults = {a.name: a for a in function.attribute_proto}
        opsets = {**frame.opsets, **opsets_of(function.opset_import)}
        inner = Frame(scope, opsets, {**defaults, **node.protos}, f"{node.name}/", frame.depth + 1)
        self.walk(function.node, inner)
        return [self.find(o, scope, node) for o in function.output]
