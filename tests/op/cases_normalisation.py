"""Cases of normalisations, activations and dropout; shapes are in test_shape.py."""

from __future__ import annotations

from mlcnb.op import shape
from mlcnb.op.nn import activation, batch_norm, dropout, layer_norm, lrn, softmax
from tests.op.harness import Case, numbers, special

FILES = "activation batch_norm dropout layer_norm lrn softmax".split()
MODULES = tuple(f"mlcnb.op.nn.{name}" for name in FILES)
RTOL = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-12}


def tensors(*shapes, kind="float32"):
    return [numbers(shape, kind, seed) for seed, shape in enumerate(shapes)]


def _norms():
    for training in (False, True):
        for kind in ("float32", "float16"):
            given = tensors((2, 3, 2, 2), (3,), (3,), (3,), kind=kind)
            given.append(numbers((3,), kind, 9, 0.5, 2))
            made = batch_norm.BatchNorm(training=training)
            yield Case(made, given, RTOL[kind], note=f"training-{training}")
    given = [*tensors((2, 4, 3), (3,), (3,), (3,)), numbers((3,), "float32", 9, 0.5, 2)]
    yield Case(batch_norm.BatchNorm(-1, 1e-3, False, False, training=False), given, 1e-5)
    for kind in ("float32", "float16", "bfloat16"):
        rtol = RTOL[kind]
        yield Case(layer_norm.LayerNorm(), tensors((2, 3, 4), (4,), (4,), kind=kind), rtol)
        wide = tensors((2, 3, 4), (3, 4), (3, 4), kind=kind)
        yield Case(layer_norm.LayerNorm((1, 2)), wide, rtol)
        turned = tensors((2, 3, 4), (4, 3), (4, 3), kind=kind)
        yield Case(layer_norm.LayerNorm((2, 1), center=False), turned, rtol)
        grouped = tensors((2, 6, 2, 3), (6,), (6,), kind=kind)
        yield Case(layer_norm.GroupNorm(3), grouped, rtol)
        yield Case(layer_norm.InstanceNorm(), grouped, rtol)
        last = tensors((2, 2, 3, 6), (6,), (6,), kind=kind)
        yield Case(layer_norm.GroupNorm(2, 3, (1, 2)), last, rtol)
        yield Case(layer_norm.RmsNorm((1, 2)), tensors((2, 3, 4), (3, 4), kind=kind), rtol)
        yield Case(layer_norm.RmsNorm(), tensors((2, 4), (4,), kind=kind), rtol)
        yield Case(lrn.Lrn(3), [numbers((1, 5, 2), kind)], rtol)
    yield Case(lrn.Lrn(4, 1, 2.0, 0.5, 0.6), [numbers((1, 5, 2))], 1e-5)
    yield Case(lrn.Lrn(1, -1), [numbers((5,))], 1e-5)
    for size in (7, 12, 2**62 + 1):
        yield Case(lrn.Lrn(size, alpha=0.5), [numbers((1, 5, 2))], 1e-5, note=f"{size}")


def _softmaxes():
    for decl in (softmax.Softmax, softmax.LogSoftmax):
        for axis in (0, 1, -1):
            yield Case(decl(axis), [numbers((2, 3, 2))], 1e-5, note=str(axis))
        for kind in ("float16", "bfloat16", "float64"):
            yield Case(decl(), [numbers((2, 3), kind)], RTOL[kind])
        yield Case(decl(), [numbers((2, 3)) * 100], 1e-5, note="large")


def _activations():
    names = "Relu Relu6 LeakyRelu Gelu GeluTanh Silu Selu Softplus".split()
    for name in names:
        decl = getattr(activation, name)
        yield Case(decl(), [special()[:-3]], 1e-5, note="special")
        for kind in ("float32", "float16", "bfloat16", "float64"):
            yield Case(decl(), [numbers((3, 4), kind)], 1e-7 if kind == "float64" else RTOL[kind])
    yield Case(activation.Relu(), [special()], note="special")
    yield Case(activation.Relu(), [numbers((3,), "int32")])
    yield Case(activation.Relu6(), [numbers((3,), "int8", 0, -10, 10)])
    yield Case(activation.LeakyRelu(0.3), [numbers((3, 4))])
    yield Case(activation.Softplus(2.0, 5.0), [numbers((3, 4), low=-9, high=9)], 1e-5)
    for axis, size in ((1, 3), (-1, 4), (1, 1)):
        given = tensors((2, 3, 4), (size,))
        yield Case(activation.Prelu(axis), given, note=f"{axis}-{size}")
    yield Case(dropout.Dropout(), [numbers((2, 3))])


def _shapes():
    yield Case(shape.ShapeToTensor(), [(2, 3, 5)])
    yield Case(shape.ShapeToTensor(), [(7,)])
    yield Case(shape.Size(), [numbers((2, 3))])
    yield Case(shape.Size(), [numbers(())])


CASES = [case for family in (_norms, _softmaxes, _activations, _shapes) for case in family()]
