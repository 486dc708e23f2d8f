"""How products are cut on CPUs that are not at hand: by their registers, units and caches alone."""

from __future__ import annotations

from mlcnb.dlight.cpu.blocking import ProductTile, blocking, depth_of_part, stays_far
from mlcnb.dlight.cpu.matmul import is_copied, is_streamed, rows_ahead
from mlcnb.target import Target
from tests.dlight.test_matmul import shape_of

CPUS = (
    "znver2", "znver3", "znver4", "znver5", "skylake-avx512", "icelake-server", "emeraldrapids",
    "apple-m1", "neoverse-n1",
)  # fmt: skip
SHAPES = (
    (64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (4096, 4096, 4096), (128, 384, 384),
    (512, 768, 768), (128, 3072, 768), (32, 4096, 4096), (64, 768, 768),
)  # fmt: skip


def told(cpu: str, m: int, k: int, n: int) -> str:
    """How B is read, the tile, tiles of a part, and the steps of the depth."""
    target = Target({"kind": "llvm", "mcpu": cpu, "num-cores": 1})
    product = shape_of(m, k, n)
    copies = is_copied(product, target)
    streams = not copies and is_streamed(product, target)
    cut = blocking(product, copies, target, streams)
    deep = depth_of_part(product, cut.tile, target) if copies else None
    asks = not copies and not streams and rows_ahead(product, target)
    how = "copied" if copies else "ahead" if streams else "asked" if asks else "lies"
    steps = "" if deep is None else f" by {deep}"
    return f"{how} {cut.tile.rows}x{cut.tile.vectors} {cut.row_tiles},{cut.column_tiles}{steps}"


def test_a_copy_stays_where_its_lines_come_from_in_time():
    """A tile of 8 x 2 vectors uses a line in 4 cycles: Intel's mesh gives one in 6."""
    zen, intel = (Target(f"llvm -mcpu={cpu} -num-cores=1") for cpu in ("znver5", "emeraldrapids"))
    assert stays_far(ProductTile(8, 2), 16, zen) and not stays_far(ProductTile(8, 2), 16, intel)
    for m, k, n in SHAPES[2:]:
        cut = blocking(shape_of(m, k, n), True, intel)
        deep = depth_of_part(shape_of(m, k, n), cut.tile, intel) or k
        assert 4 * deep * cut.column_tiles * cut.tile.vectors * 16 <= intel.caches[1] // 2


def test_nine_cpus():
    found = "\n".join(
        f"{cpu}\n" + "\n".join(f"  {m}x{n}x{k}: {told(cpu, m, k, n)}" for m, k, n in SHAPES)
        for cpu in CPUS
    )
    assert found == EXPECTED


EXPECTED = """\
znver2
  64x64x64: lies 6x2 11,4
  256x256x256: copied 6x2 43,16
  1024x1024x1024: copied 6x2 171,64 by 512
  4096x4096x4096: copied 6x2 683,16 by 512
  128x384x384: copied 6x2 22,24
  512x768x768: copied 6x2 86,48 by 384
  128x768x3072: copied 6x2 22,48 by 512
  32x4096x4096: copied 6x2 6,64 by 512
  64x768x768: copied 6x2 11,48 by 384
znver3
  64x64x64: lies 6x2 11,4
  256x256x256: copied 6x2 43,16
  1024x1024x1024: copied 6x2 171,64 by 512
  4096x4096x4096: copied 6x2 683,16 by 512
  128x384x384: copied 6x2 22,24
  512x768x768: copied 6x2 86,48 by 384
  128x768x3072: copied 6x2 22,48 by 512
  32x4096x4096: copied 6x2 6,128 by 512
  64x768x768: copied 6x2 11,48 by 384
znver4
  64x64x64: lies 6x4 11,1
  256x256x256: lies 8x2 32,8
  1024x1024x1024: copied 4x4 256,16
  4096x4096x4096: copied 4x4 1024,4 by 1024
  128x384x384: lies 8x3 16,4
  512x768x768: ahead 8x3 64,16
  128x768x3072: copied 8x3 16,16 by 512
  32x4096x4096: copied 4x4 8,16 by 1024
  64x768x768: ahead 8x3 8,16
znver5
  64x64x64: lies 6x4 11,1
  256x256x256: copied 8x2 32,8
  1024x1024x1024: copied 8x2 128,32 by 512
  4096x4096x4096: copied 8x2 512,8 by 512
  128x384x384: asked 8x3 16,4
  512x768x768: copied 8x3 64,16
  128x768x3072: copied 8x3 16,16 by 768
  32x4096x4096: copied 8x2 4,64 by 512
  64x768x768: copied 8x3 8,16
skylake-avx512
  64x64x64: lies 6x4 11,1
  256x256x256: copied 8x2 32,8
  1024x1024x1024: copied 8x2 128,8 by 512
  4096x4096x4096: copied 8x2 512,8 by 512
  128x384x384: asked 8x3 16,4
  512x768x768: copied 8x3 64,4 by 384
  128x768x3072: copied 8x3 16,4 by 512
  32x4096x4096: copied 8x2 4,8 by 512
  64x768x768: asked 8x3 8,3
icelake-server
  64x64x64: lies 6x4 11,1
  256x256x256: copied 8x2 32,8
  1024x1024x1024: copied 8x2 128,8 by 512
  4096x4096x4096: copied 8x2 512,8 by 512
  128x384x384: asked 8x3 16,8
  512x768x768: copied 8x3 64,4
  128x768x3072: copied 8x3 16,4 by 768
  32x4096x4096: copied 8x2 4,10 by 512
  64x768x768: asked 8x3 8,4
emeraldrapids
  64x64x64: lies 6x4 11,1
  256x256x256: copied 8x2 32,8
  1024x1024x1024: copied 8x2 128,16 by 512
  4096x4096x4096: copied 8x2 512,8 by 512
  128x384x384: asked 8x3 16,8
  512x768x768: copied 8x3 64,4
  128x768x3072: copied 8x3 16,4 by 768
  32x4096x4096: copied 8x2 4,16 by 512
  64x768x768: asked 8x3 8,4
apple-m1
  64x64x64: lies 6x4 11,4
  256x256x256: copied 8x2 32,32
  1024x1024x1024: copied 8x2 128,128
  4096x4096x4096: copied 8x2 512,16 by 2048
  128x384x384: asked 8x3 16,32
  512x768x768: copied 8x3 64,64
  128x768x3072: copied 8x3 16,13 by 1536
  32x4096x4096: copied 8x2 4,16 by 2048
  64x768x768: asked 8x3 8,32
neoverse-n1
  64x64x64: lies 6x4 11,4
  256x256x256: lies 8x2 32,32
  1024x1024x1024: copied 4x4 256,64
  4096x4096x4096: copied 4x4 1024,16 by 2048
  128x384x384: lies 8x3 16,16
  512x768x768: ahead 8x3 64,64
  128x768x3072: copied 8x3 16,64 by 1024
  32x4096x4096: copied 4x4 8,32 by 2048
  64x768x768: ahead 8x3 8,64"""
