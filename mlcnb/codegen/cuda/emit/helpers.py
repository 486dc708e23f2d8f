"""Device functions that kernels may call: each is written above a kernel only where it is used."""

from __future__ import annotations

from textwrap import dedent

from mlcnb.tir.analysis.mma import FORMS, Form
from mlcnb.tir.analysis.wgmma import DEPTH, ROWS, SWIZZLES, Operand, Product


def _code(text: str) -> str:
    return dedent(text).strip()


#: not volatile: a register that meets several others is rounded once
_ROUNDED = _code("""
    // a float to the nearest of 11 bits, ties away from zero (PTX ISA, "cvt")
    __device__ unsigned as_tf32(unsigned x) {
      unsigned near;
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(near) : "f"(__uint_as_float(x)));
      return near;
    }
""")


def _mma(form: Form) -> str:
    """The product of fragments in the registers of a warp (PTX ISA, "mma.m16n8k16")."""
    short, sums, k = form.given.ptx, form.sums.ptx, form.depth
    kind, held = ("float", "f") if sums == "f32" else ("int", "r")
    c = ", ".join(f'"+{held}"(c[{n}])' for n in range(4))
    taken = "as_tf32({})" if form.is_rounded else "{}"
    registers = [*(f"x[{n}]" for n in range(4)), "y[0]", "y[1]"]
    given = ", ".join(f'"r"({taken.format(r)})' for r in registers)
    return f"{_ROUNDED}\n\n" * form.is_rounded + _code(f"""
        // the warp's 16 x 8 sums go up by the product of its fragments, 16 x {k} and {k} x 8
        __device__ void mma_{form.shape}_{short}({kind}* c, const void* a, const void* b) {{
          const unsigned* x = (const unsigned*)a;
          const unsigned* y = (const unsigned*)b;
          asm volatile("mma.sync.aligned.{form.shape}.row.col.{sums}.{short}.{short}.{sums} "
                       "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
                       : {c}
                       : {given});
        }}
    """)


def _ldmatrix(way: str, taken: str) -> str:
    """Four matrices from shared memory into the registers of a warp (PTX ISA, "ldmatrix")."""
    name = "ldmatrix_x4" + way.replace(".", "_")
    return _code(f"""
        // each thread names a row of 16 bytes, and gets 4 bytes of a {taken} of each matrix
        __device__ void {name}(void* registers, const void* row) {{
          unsigned* r = (unsigned*)registers;
          unsigned from = (unsigned)__cvta_generic_to_shared(row);
          asm volatile("ldmatrix.sync.aligned.m8n8.x4{way}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                       : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
        }}
    """)


def name_of(made: Product) -> str:
    """The name of the device function of a warpgroup's product, which says all of it."""
    name = f"wgmma_m64n{made.columns}k{DEPTH * made.count}_{made.dtype}"
    for operand in (made.a, made.b):
        name += f"_{'k' if operand.along_k else 'mn'}"
        name += f"_{operand.leading}_{operand.stride}_{operand.step}_{operand.swizzle}"
    return name


def helper(name: str) -> str:
    """The text of a device function."""
    return HELPERS[name] if name in HELPERS else _wgmma(name, _named(name))


def _named(name: str) -> Product:
    """The product of a name that `name_of` made."""
    _, shape, dtype, *sides = name.split("_")
    columns, depth = map(int, shape.removeprefix("m64n").split("k"))
    made = [Operand(length, sides[n] == "k", *map(int, sides[n + 1 : n + 5]))
            for n, length in ((0, ROWS), (5, columns))]  # fmt: skip
    return Product(columns, dtype, depth // DEPTH, *made)


def _wgmma(name: str, made: Product) -> str:
    """Products of a warpgroup, of the first instruction to the wait as one piece of assembly: what
    lies between is nobody's to move (PTX ISA, "wgmma.mma_async").
    """
    short = {"float16": "f16", "bfloat16": "bf16"}[made.dtype]
    shape, own = f"m64n{made.columns}k16", made.own
    sums = [f"%{n}" for n in range(own)]
    rows = [", ".join(sums[n : n + 16]) for n in range(0, own, 16)]
    turned = ", ".join(str(int(not x.along_k)) for x in (made.a, made.b))
    lines = [
        "{",
        ".reg .pred add;",
        ".reg .b64 a, b;",
        "setp.ne.b32 add, 1, 0;",
        f"mov.b64 a, %{own};",
        f"mov.b64 b, %{own + 1};",
        "fence.proxy.async;",
        "wgmma.fence.sync.aligned;",
    ]
    for number in range(made.count):
        if number:
            lines += [f"add.s64 a, a, {made.a.step >> 4};", f"add.s64 b, b, {made.b.step >> 4};"]
        lines += [f"wgmma.mma_async.sync.aligned.{shape}.f32.{short}.{short} {{{rows[0]}"]
        lines += [f", {row}" for row in rows[1:]]
        lines += [f"}}, a, b, add, 1, 1, {turned};"]
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", "}"]
    text = "\n".join(f'      "{x}\\n"' for x in lines)
    kept = [f'"+f"(c[{n}])' for n in range(own)]
    outputs = ",\n        ".join(", ".join(kept[n : n + 4]) for n in range(0, own, 4))
    a, b = (_descriptor(x, which) for x, which in ((made.a, "a"), (made.b, "b")))
    return f"""\
// the warpgroup's 64 x {made.columns} sums go up by {made.count} products of tiles in shared memory
__device__ __forceinline__ void {name}(float* c, const void* a, const void* b) {{
  asm volatile(
{text}
      : {outputs}
      : "l"({a}),
        "l"({b})
      : "memory");
}}"""


def _descriptor(x: Operand, pointer: str) -> str:
    """A matrix descriptor (PTX ISA, "Matrix Descriptor Format")."""
    fixed = (x.leading >> 4) << 16 | (x.stride >> 4) << 32 | SWIZZLES[x.swizzle] << 62
    return f"0x{fixed:016x}ull | (__cvta_generic_to_shared({pointer}) & 0x3ffff) >> 4"


#: device functions that are instructions of PTX (PTX ISA, "cp.async", "ldmatrix")
INSTRUCTIONS: dict[str, str] = {
    "cp_async": _code("""
        // these bytes go from global to shared memory while the thread goes on
        template <int bytes>
        __device__ void cp_async(void* shared, const void* global) {
          unsigned to = (unsigned)__cvta_generic_to_shared(shared);
          if (bytes == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global)
                         : "memory");
          else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global),
                         "n"(bytes == 16 ? 4 : bytes) : "memory");
        }
    """),
    "cp_async_or_zeros": _code("""
        // the same; where the condition does not hold, zeros are written and nothing is read
        template <int bytes>
        __device__ void cp_async_or_zeros(void* shared, const void* global, bool holds) {
          unsigned to = (unsigned)__cvta_generic_to_shared(shared);
          int given = holds ? bytes : 0;
          if (bytes == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                         "r"(given) : "memory");
          else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global),
                         "n"(bytes == 16 ? 4 : bytes), "r"(given) : "memory");
        }
    """),
    "cp_async_commit": _code("""
        // what the thread has begun to copy since the last time is a group
        __device__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
    """),
    "cp_async_wait": _code("""
        // until all but the last n groups of the thread have arrived
        template <int n>
        __device__ void cp_async_wait() {
          asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
        }
    """),
    "barrier_of_proxies": _code("""
        // products of warpgroups and copies in bulk go another way to memory: a barrier for both
        __device__ void barrier_of_proxies() {
          asm volatile("fence.proxy.async;" ::: "memory");
          __syncthreads();
        }
    """),
    "barrier_init": _code("""
        // a phase of the barrier ends when so many threads have arrived, and all announced bytes
        __device__ void barrier_init(unsigned long long* barrier, unsigned threads) {
          unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
          asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(threads)
                       : "memory");
          asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
    """),
    "barrier_arrive": _code("""
        // the thread arrives, and goes on
        __device__ void barrier_arrive(unsigned long long* barrier) {
          unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
          asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(at)
                       : "memory");
        }
    """),
    "barrier_arrive_expect": _code("""
        // the same; so many bytes of copies will come too before the phase ends
        __device__ void barrier_arrive_expect(unsigned long long* barrier, unsigned bytes) {
          unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
          asm volatile("{ .reg .b64 state; "
                       "mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(at),
                       "r"(bytes) : "memory");
        }
    """),
    "barrier_wait": _code("""
        // until the phase of this parity has ended
        __device__ void barrier_wait(unsigned long long* barrier, unsigned parity) {
          unsigned at = (unsigned)__cvta_generic_to_shared(barrier), ended = 0;
          while (!ended)
            asm volatile("{ .reg .pred p; "
                         "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                         "selp.u32 %0, 1, 0, p; }" : "=r"(ended) : "r"(at), "r"(parity)
                         : "memory");
        }
    """),
    "cp_async_bulk": _code("""
        // these bytes go from global to shared memory, and are counted by the barrier
        __device__ void cp_async_bulk(
            void* shared, const void* global, unsigned bytes, unsigned long long* barrier) {
          unsigned to = (unsigned)__cvta_generic_to_shared(shared);
          unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
          asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                       "[%0], [%1], %2, [%3];" ::"r"(to), "l"(global), "r"(bytes), "r"(at)
                       : "memory");
        }
    """),
    "tensor_map": _code("""
        // a matrix and the box of it that is copied at once, as the driver encodes them
        struct alignas(64) tensor_map { unsigned long long words[16]; };
    """),
    "cp_async_bulk_tensor": _code("""
        // a box of a matrix goes to shared memory, zeros where it lies outside, and is counted
        __device__ void cp_async_bulk_tensor(
            void* shared, const tensor_map* map, int row, int column, unsigned long long* barrier) {
          unsigned to = (unsigned)__cvta_generic_to_shared(shared);
          unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
          asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                       "l"(map), "r"(column), "r"(row), "r"(at) : "memory");
        }
    """),
    "ldmatrix_x4": _ldmatrix("", "row"),
    "ldmatrix_x4_trans": _ldmatrix(".trans", "column"),
    **{f"mma_{form.shape}_{form.given.ptx}": _mma(form) for form in FORMS.values()},
}
#: name -> definition; the meaning is the reference interpreter's
HELPERS: dict[str, str] = {
    "vec": _code("""
        // N numbers that are loaded and stored at once
        template <typename T, int N>
        struct alignas(sizeof(T) * N) vec {
          T lane[N];
          __device__ T& operator[](int i) { return lane[i]; }
          __device__ const T& operator[](int i) const { return lane[i]; }
        };
    """),
    "minimum": _code("""
        // NaN where one of them is
        template <typename T>
        __device__ T minimum(T a, T b) { return a != a ? a : (b < a || b != b) ? b : a; }
    """),
    "maximum": _code("""
        // NaN where one of them is
        template <typename T>
        __device__ T maximum(T a, T b) { return a != a ? a : (b > a || b != b) ? b : a; }
    """),
    "floordiv": _code("""
        // towards minus infinity
        template <typename T>
        __device__ T floordiv(T a, T b) {
          T q = a / b, r = a % b;
          return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
        }
    """),
    "floormod": _code("""
        // with the sign of b
        template <typename T>
        __device__ T floormod(T a, T b) {
          T r = a % b;
          return r != 0 && (r < 0) != (b < 0) ? r + b : r;
        }
    """),
    "floormod_float": _code("""
        // with the sign of b
        template <typename T>
        __device__ T floormod_float(T a, T b) {
          T r = fmod(a, b);
          return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? copysign(r, b) : r;
        }
    """),
    "shift_left": _code("""
        // by less than 0, or the width or more: nothing is left
        template <typename T, int bits>
        __device__ T shift_left(T a, T b) { return b >= 0 && b < bits ? T(a << b) : T(0); }
    """),
    "shift_right": _code("""
        // by less than 0, or the width or more: only the sign is left
        template <typename T, int bits>
        __device__ T shift_right(T a, T b) {
          return b >= 0 && b < bits ? T(a >> b) : a < 0 ? T(-1) : T(0);
        }
    """),
    "to_integer": _code("""
        // towards zero; beyond the range its end, and 0 for NaN
        template <typename T, typename F>
        __device__ T to_integer(F x, T low, T high) {
          return x != x ? T(0) : x <= F(low) ? low : x >= F(high) ? high : T(x);
        }
    """),
    "sigmoid": _code("""
        template <typename T>
        __device__ T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
    """),
    "bits_as": _code("""
        // the same bits as another type
        template <typename T, typename S>
        __device__ T bits_as(S x) {
          T y;
          memcpy(&y, &x, sizeof(T));
          return y;
        }
    """),
    "integer_power": _code("""
        template <typename T>
        __device__ T integer_power(T base, T exponent) {
          T result = 1;
          for (; exponent > 0; exponent >>= 1, base *= base)
            if (exponent & 1) result *= base;
          return result;
        }
    """),
    "check_index": _code("""
        // an index that was read from data: outside of 0 to extent - 1 it is reported
        __device__ long long check_index(
            long long index, long long extent, int* status, int number) {
          if (0 <= index && index < extent) return index;
          atomicExch(status, number);
          return 0;
        }
    """),
    **INSTRUCTIONS,
}
