"""Cases of convolution and pooling, in all layouts."""

from __future__ import annotations

from mlcnb.op.nn import conv, conv_transpose, pool, pool_more, winograd
from tests.op.harness import Case, numbers

MODULES = tuple(
    f"mlcnb.op.nn.{name}" for name in "conv conv_transpose pool pool_more winograd".split()
)
RTOL = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def tensors(*shapes, kind="float32"):
    return [numbers(shape, kind, seed) for seed, shape in enumerate(shapes)]


def _convolutions():
    data = (1, 4, 5, 4)
    for padding in (0, 1, (1, 0), (1, 2, 0, 1)):
        note = str(padding)
        yield Case(conv.Conv2d(2, padding), tensors(data, (3, 4, 3, 2)), 1e-5, note=note)
        grouped = conv.Conv2d((1, 2), padding, (1, 2), 2)
        yield Case(grouped, tensors(data, (4, 2, 3, 2)), 1e-5, note=note)
    for many in (4, 8):
        yield Case(conv.Conv2d(1, 1, 1, 4), tensors(data, (many, 1, 3, 3)), 1e-5, note="depthwise")
    yield Case(conv.Conv1d(padding=1), tensors((2, 3, 5), (4, 3, 3)), 1e-5)
    yield Case(conv.Conv3d((1, 2, 1), 1), tensors((1, 2, 3, 3, 3), (2, 2, 2, 3, 2)), 1e-5)
    for kind in ("float16", "bfloat16", "float64", "int32"):
        given = tensors((1, 3, 3, 3), (2, 3, 2, 2), kind=kind)
        yield Case(conv.Conv2d(), given, RTOL.get(kind, 1e-12))
    int8 = tensors((1, 3, 3, 3), (2, 3, 2, 2), kind="int8")
    yield Case(conv.Conv2d(out_dtype="int32"), int8, note="widened")


def _layouts():
    table = [
        ("NHWC", "HWIO", None, 1, (1, 4, 3, 4), (2, 3, 4, 2)),
        ("NHWC", "HWOI", None, 4, (1, 4, 3, 4), (2, 3, 4, 1)),
        ("NCHW4c", "OIHW4i4o", None, 1, (1, 2, 3, 3, 4), (2, 2, 2, 2, 4, 4)),
        ("NCHW4c", "OIHW8i4o", "NCHW2c", 1, (1, 2, 3, 3, 4), (2, 1, 2, 2, 8, 4)),
        ("NCHW4c", "OIHW1i4o", None, 8, (1, 2, 3, 3, 4), (2, 1, 2, 2, 1, 4)),
        ("NCHW4c", "OIHW4o", None, 8, (1, 2, 3, 3, 4), (2, 1, 2, 2, 4)),
        ("NCHW4c", "OIHW4o", None, 6, (1, 2, 3, 3, 4), (2, 1, 2, 2, 4)),
        ("NCHW4c", "OIHW4o", None, 3, (1, 1, 3, 3, 4), (1, 1, 2, 2, 4)),
        ("NCHW4c", "OIHW4o", None, 2, (1, 1, 3, 3, 4), (1, 1, 2, 2, 4)),
        ("NCHW4c", "OIHW4i4o", None, 2, (1, 2, 3, 3, 4), (2, 1, 2, 2, 4, 4)),
        ("NCHW", "OIHW4o", "NCHW4c", 1, (1, 3, 3, 3), (2, 3, 2, 2, 4)),
    ]
    for data_layout, kernel_layout, out_layout, groups, data, weight in table:
        made = conv.Conv2d(1, 1, 1, groups, data_layout, kernel_layout, out_layout)
        note = f"{data_layout}-{kernel_layout}-{out_layout}"
        yield Case(made, tensors(data, weight), 1e-5, note=note)


def _winograd():
    weight = numbers((3, 2, 3, 3))
    for tile, layout in ((2, "ABOI"), (4, "OABI2i2o"), (4, "OAIB2i4o"), (6, "ABOI")):
        yield Case(winograd.WinogradWeightTransform(tile, layout), [weight], 1e-5, note=layout)
    yield Case(winograd.WinogradWeightTransform(4), [numbers((1, 2, 5, 5))], 1e-5)
    table = [
        (2, 1, "NCHW", "ABOI", (2, 3, 4, 5), (4, 4, 2, 3)),
        (4, (1, 0, 2, 1), "NCHW", "ABOI", (1, 2, 5, 3), (6, 6, 2, 2)),
        (4, 0, "NCHW2c", "OABI2i2o", (1, 2, 6, 7, 2), (1, 6, 6, 2, 2, 2)),
        (4, 1, "NCHW2c", "OABI4i2o", (1, 2, 3, 3, 2), (2, 6, 6, 1, 4, 2)),
        (6, 1, "NCHW2c", "OABI2i2o", (1, 1, 7, 3, 2), (2, 8, 8, 1, 2, 2)),
        (4, 2, "NHWC", "ABOI", (1, 4, 5, 2), (8, 8, 3, 2)),
    ]
    for tile, padding, data_layout, kernel_layout, data, weights in table:
        made = winograd.WinogradConv2d(tile, padding, data_layout, kernel_layout)
        note = f"F{tile}-{data_layout}-{kernel_layout}"
        yield Case(made, tensors(data, weights), 2e-4, note=note)
    half = tensors((1, 2, 4, 4), (4, 4, 2, 2), kind="float16")
    yield Case(winograd.WinogradConv2d(2, 1), half, 2e-2)
    whole = winograd.WinogradConv2dWhole(4, 1)
    yield Case(whole, tensors((1, 2, 5, 3), (3, 2, 3, 3)), 2e-4)
    grouped = [
        ("NCHW", "ABOI", (1, 4, 5, 3), (6, 6, 6, 2)),
        ("NCHW2c", "OABI2i2o", (1, 4, 5, 6, 2), (4, 6, 6, 2, 2, 2)),
        ("NCHW2c", "OABI2i2o", (1, 3, 3, 6, 2), (3, 6, 6, 1, 2, 2)),
    ]
    for (data_layout, kernel_layout, data, weights), groups in zip(grouped, (2, 2, 3), strict=True):
        made = winograd.WinogradConv2d(4, 1, data_layout, kernel_layout, groups=groups)
        yield Case(made, tensors(data, weights), 2e-4, note=f"{groups}-groups-{data_layout}")
    whole = winograd.WinogradConv2dWhole(4, 1, groups=2)
    yield Case(whole, tensors((1, 6, 5, 3), (4, 3, 3, 3)), 2e-4)
    whole = winograd.WinogradConv2dWhole(4, 1, "NCHW2c", "OIHW2i2o")
    yield Case(whole, tensors((1, 2, 5, 3, 2), (2, 2, 3, 3, 2, 2)), 2e-4)


def _transposed():
    table = [
        (1, 0, 0, 1),
        (2, 1, 1, 1),
        ((3, 2), (0, 1), 0, (1, 2)),
        (2, (1, 0, 2, 1), (1, 0), 1),
    ]
    for attrs in table:
        for groups in (1, 2):
            made = conv_transpose.Conv2dTranspose(*attrs, groups)
            given = tensors((1, 4, 3, 3), (4, 2, 3, 2))
            yield Case(made, given, 1e-5, note=f"{attrs}-{groups}")
    nhwc = conv_transpose.Conv2dTranspose(2, data_layout="NHWC", kernel_layout="HWOI")
    yield Case(nhwc, tensors((1, 3, 2, 3), (2, 3, 4, 3)), 1e-5)
    yield Case(conv_transpose.Conv1dTranspose(2), tensors((2, 3, 4), (3, 2, 3)), 1e-5)
    given = tensors((1, 2, 2, 3, 2), (2, 3, 2, 2, 2))
    yield Case(conv_transpose.Conv3dTranspose(2), given, 1e-5)
    half = tensors((1, 3, 3, 3), (3, 2, 2, 2), kind="float16")
    yield Case(conv_transpose.Conv2dTranspose(), half, 4e-3)


WINDOWS = [
    ((3, 2), (2, 2), (1, 0, 1, 1), 1),
    ((2, 2), (3, 3), 0, 1),
    ((3, 3), (2, 3), 1, (2, 1)),
    (1, 2, (0, 1), 1),
    (4, 3, (0, 1, 2, 1), 1),
]

#: windows with more elements than the dimensions of 3 rows, of 4 columns
LARGER = [
    ((5, 2), (1, 1), (4, 0, 3, 1), 1),
    ((5, 9), (2, 3), (4, 5, 4, 8), 1),
    ((4, 5), (1, 2), (5, 6, 4, 3), (2, 2)),
]


def _pools():
    for ceil in (False, True):
        for attrs in WINDOWS:
            x, note = numbers((1, 2, 7, 6)), f"{attrs}-{ceil}"
            yield Case(pool.MaxPool2d(*attrs, ceil), [x], note=note)
            for with_padding in (False, True):
                made = pool.AvgPool2d(*attrs, ceil, with_padding)
                yield Case(made, [x], 1e-5, note=f"{note}-{with_padding}")
            ties = numbers((1, 2, 7, 6), "int32").astype("float32")
            made = pool_more.MaxPoolIndices((3, 2), *attrs[1:], ceil, not ceil)
            yield Case(made, [ties], note=note)
    yield Case(pool.MaxPool2d(3, 2, 1, layout="NCHW4c"), [numbers((1, 2, 5, 4, 4))])
    yield Case(pool.AvgPool2d(3, 2, 1, layout="NCHW4c"), [numbers((1, 2, 5, 4, 4))], 1e-5)
    yield Case(pool.MaxPool2d(2, layout="NHWC"), [numbers((1, 4, 3, 5), "int8")])
    yield Case(pool.MaxPool1d(3), [numbers((1, 2, 6))])
    yield Case(pool.AvgPool1d(3, 1, (0, 2)), [numbers((1, 2, 6))], 1e-5)
    yield Case(pool.MaxPool3d(2, 2), [numbers((1, 1, 4, 3, 4))])
    yield Case(pool.AvgPool3d(2, 2), [numbers((1, 1, 4, 3, 4))], 1e-5)
    for attrs in LARGER:
        x = numbers((1, 2, 3, 4))
        yield Case(pool.MaxPool2d(*attrs), [x], note=f"{attrs}")
        yield Case(pool.AvgPool2d(*attrs), [x], 1e-5, note=f"{attrs}")
        yield Case(pool.AvgPool2d(*attrs, True, True), [x], 1e-5, note=f"{attrs} padded")
        yield Case(pool_more.MaxPoolIndices(*attrs), [x], note=f"{attrs}")
        blocks = [numbers((1, 2, 3, 4, 4))]
        yield Case(pool.MaxPool2d(*attrs, layout="NCHW4c"), blocks, note=f"{attrs}")
        yield Case(pool.AvgPool2d(*attrs, layout="NCHW4c"), blocks, 1e-5, note=f"{attrs}")
    yield Case(pool.MaxPool2d(2, padding=1), [numbers((1, 1, 3, 3), "uint8")])
    yield Case(pool.AvgPool2d(2, padding=1), [numbers((1, 1, 3, 3), "float16")], 4e-3)
    yield Case(pool_more.MaxPoolIndices((3,)), [numbers((1, 2, 5), "uint8")])


def _adaptive():
    for size in ((3, 4), 1, (7, 2), None):
        made = pool_more.AdaptiveAvgPool2d(size)
        yield Case(made, [numbers((1, 2, 5, 6))], 1e-5, note=str(size))
    yield Case(pool_more.AdaptiveAvgPool2d((2, 3), "NHWC"), [numbers((1, 5, 4, 2))], 1e-5)
    yield Case(pool_more.AdaptiveAvgPool2d(2, "NCHW4c"), [numbers((1, 1, 3, 4, 4))], 1e-5)
    yield Case(pool_more.AdaptiveAvgPool1d(7), [numbers((1, 2, 5), "float16")], 4e-3)
    yield Case(pool_more.AdaptiveAvgPool3d((1, 2, 2)), [numbers((1, 1, 3, 3, 2))], 1e-5)


FAMILIES = (_convolutions, _layouts, _winograd, _transposed, _pools, _adaptive)
CASES = [case for family in FAMILIES for case in family()]
