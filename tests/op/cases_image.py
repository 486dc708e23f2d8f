"""Cases of operators on images."""

from __future__ import annotations

from mlcnb.op.image import _interpolate, grid_sample, resize
from tests.op.harness import Case, numbers

MODULES = ("mlcnb.op.image.grid_sample", "mlcnb.op.image.resize")
SIZES = ((4, 5), (2, 1), (7, 4))


def _resizes():
    for mode in _interpolate.MODES:
        for size in SIZES:
            x, note = numbers((1, 1, 3, 4)), f"{mode}-{size}"
            for rounding in _interpolate.ROUNDING:
                how = {"coordinate_transformation_mode": mode, "rounding_method": rounding}
                made = resize.Resize2d(method="nearest_neighbor", **how)
                yield Case(made, [x, size], note=f"{note}-{rounding}")
            made = resize.Resize2d(coordinate_transformation_mode=mode)
            yield Case(made, [x, size], 1e-5, note=f"{note}-linear")
        for exclude in (0, 1):
            how = {"coordinate_transformation_mode": mode, "cubic_exclude": exclude}
            made = resize.Resize2d(method="cubic", **how)
            yield Case(made, [numbers((1, 1, 3, 4)), (4, 5)], 1e-4, note=f"{mode}-cubic-{exclude}")
    yield Case(resize.Resize2d(layout="NHWC"), [numbers((1, 3, 4, 2)), (5, 3)], 1e-5)
    yield Case(resize.Resize2d(layout="NCHW4c"), [numbers((1, 1, 2, 3, 4)), (3, 2)], 1e-5)
    for method, rtol in (("nearest_neighbor", 1e-6), ("linear", 1e-5), ("cubic", 1e-4)):
        for size in ((2, 4, 5), (5, 2, 1)):
            made = resize.Resize3d(method=method)
            yield Case(made, [numbers((1, 2, 3, 3, 4)), size], rtol, note=f"3d-{method}-{size}")
    for mode in (m for m in _interpolate.MODES if m != "align_corners"):
        for method, rtol in (("nearest_neighbor", 1e-6), ("linear", 1e-5), ("cubic", 1e-4)):
            how = {"coordinate_transformation_mode": mode, "method": method}
            made = resize.Resize2d(scales=(0.5, 1.5), **how)
            yield Case(made, [numbers((1, 1, 7, 3)), (3, 4)], rtol, note=f"{mode}-{method}-by")
    made = resize.Resize3d(layout="NDHWC", coordinate_transformation_mode="align_corners")
    yield Case(made, [numbers((1, 3, 2, 4, 2)), (2, 5, 3)], 1e-5)
    nearest = resize.Resize2d(method="nearest_neighbor")
    yield Case(nearest, [numbers((1, 2, 3, 4), "uint8"), (5, 3)])
    yield Case(resize.Resize2d(), [numbers((1, 1, 3, 4), "float16"), (5, 3)], 4e-3)


def _grids():
    grid = numbers((2, 2, 2, 3), low=-1.5, high=1.5)
    for method in grid_sample.TAPS:
        for padding in grid_sample.PADDING:
            for corners in (False, True):
                made = grid_sample.GridSample(method, "NCHW", padding, corners)
                note = f"{method}-{padding}-{corners}"
                yield Case(made, [numbers((2, 1, 3, 4), seed=1), grid], 1e-4, note=note)
    for method in ("nearest", "bilinear"):
        made = grid_sample.GridSample(method, "NCDHW")
        deep = [numbers((1, 1, 2, 3, 2)), numbers((1, 3, 1, 2, 2), low=-1, high=1)]
        yield Case(made, deep, 1e-4, note=f"3d-{method}")
    half = [numbers((1, 2, 3, 4), "float16"), numbers((1, 2, 2, 2), "float16", low=-1, high=1)]
    yield Case(grid_sample.GridSample(), half, 4e-3)
    for corners in (False, True):
        made = grid_sample.AffineGrid(corners)
        yield Case(made, [numbers((2, 2, 3)), (3, 4)], 1e-5, note=f"2d-{corners}")
        yield Case(made, [numbers((1, 3, 4)), (3, 1, 2)], 1e-5, note=f"3d-{corners}")


CASES = [case for family in (_resizes, _grids) for case in family()]
