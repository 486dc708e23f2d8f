"""Steps that would change what a program computes, each refused for its reason."""

from __future__ import annotations

from mlcnb.tir import PrimFunc
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import becomes, matmul, padded_pool, refuses, same_numbers


def scheduled(name: str) -> Schedule:
    """A schedule of one of the programs."""
    return Schedule(CARRIED[name])


def result(sch: Schedule) -> PrimFunc:
    """The function as it is now."""
    return next(iter(sch.mod.functions.values()))


def test_scan_is_not_parallel():
    sch = scheduled("scan")
    (i,) = sch.get_loops("B")
    with refuses(
        sch,
        "parallel: loop i is not parallel: its iterations may touch the same elements "
        "of B, which block B writes",
    ):
        sch.parallel(i)


def test_rows_of_a_scan_stay_in_order():
    sch = scheduled("scan_rows")
    i, j = sch.get_loops("B")
    with refuses(
        sch,
        "reorder: the loops i, j cannot become j, i: iterations that differ in i, j "
        "may touch the same elements of B, and block B writes it",
    ):
        sch.reorder(j, i)


def test_update_in_place_is_parallel_where_elements_differ():
    sch = scheduled("in_place")
    sch.parallel(sch.get_loops("A")[0])
    assert sch.position == 1


def test_shift_in_place_is_not():
    sch = scheduled("in_place_shift")
    (i,) = sch.get_loops("A")
    with refuses(
        sch,
        "vectorize: loop i is not parallel: its iterations may touch the same elements "
        "of A, which block A writes",
    ):
        sch.vectorize(i)


def test_reader_of_the_iteration_before():
    sch = scheduled("window_in_one_loop")
    (i,) = sch.get_loops("B")
    with refuses(
        sch,
        "parallel: loop i is not parallel: its iterations may touch the same elements "
        "of C, which block C writes",
    ):
        sch.parallel(i)


def test_buffer_written_twice_is_not_inlined():
    sch = scheduled("buffer_used_twice")
    C, D, (i,) = sch.get_block("C"), sch.get_block("D"), sch.get_loops("C2")
    with refuses(
        sch,
        "compute_inline: block C is not elementwise: block C2 also writes C",
    ):
        sch.compute_inline(C)
    with refuses(
        sch,
        "reverse_compute_at: block C2, behind block D, writes C, which block D reads",
    ):
        sch.reverse_compute_at(D, i)


def test_last_write_wins():
    sch = scheduled("last_one_wins")
    B, (i,) = sch.get_block("B"), sch.get_loops("B")
    i0, i1 = sch.split(i, [4, 2])
    sch.parallel(i0)
    with refuses(
        sch,
        "parallel: loop i_1 is not parallel: its iterations may touch the same "
        "elements of B, which block B writes",
    ):
        sch.parallel(i1)
    with refuses(
        sch,
        "transform_block_layout: block B cannot be reordered: instances that differ in "
        "v may write the same element of B",
    ):
        sch.transform_block_layout(B, lambda i: (7 - i,))


def test_tiles_that_overlap_are_not_parallel():
    sch = scheduled("last_one_wins_later")
    _i0, i1 = sch.split(sch.get_loops("C")[0], [4, 2])
    i0, _ = sch.get_loops("C")
    with refuses(
        sch,
        "parallel: loop i_0 is not parallel: its iterations may touch the same "
        "elements of C, which block C writes",
    ):
        sch.parallel(i0)
    sch.vectorize(i1)


def test_partial_sums_stay_with_their_reader():
    sch = scheduled("partial_sums")
    (i,) = sch.get_loops("C")
    with refuses(
        sch,
        "parallel: loop i is not parallel: it runs over the reduce axis v of block C: "
        "its iterations update the same elements of C",
        hint="rfactor the loop first, or choose a spatial loop",
    ):
        sch.parallel(i)
    with refuses(
        sch,
        "rfactor: loop i holds 2 blocks, not one",
    ):
        sch.rfactor(i, 0)
    C = sch.get_block("C")
    with refuses(
        sch,
        "cache_write: C is read while the reduction of block C runs",
    ):
        sch.cache_write(C, 0, "local")


def test_reduction_that_runs_backwards():
    sch = scheduled("reversed_reduction")
    i, k = sch.get_loops("B")
    with refuses(
        sch,
        "rfactor: block B is no reduction block: its reduce axis r runs backwards",
    ):
        sch.rfactor(k, 0)
    sch.parallel(i)
    same_numbers(CARRIED["reversed_reduction"], result(sch))


def test_reduction_that_starts_from_something():
    sch = scheduled("start_from_something")
    k = sch.get_loops("B")[1]
    with refuses(
        sch,
        "rfactor: block B starts from something else than the identity of its sum",
    ):
        sch.rfactor(k, 0)


def test_instances_that_run_twice():
    sch = scheduled("every_instance_twice")
    i, k = sch.get_loops("B")
    B = sch.get_block("B")
    with refuses(
        sch,
        "decompose_reduction: block B is no reduction block: different iterations of "
        "its loops may run the same instance",
    ):
        sch.decompose_reduction(B, i)
    with refuses(
        sch,
        "blockize: block B is no reduction block: different iterations of its loops "
        "may run the same instance",
    ):
        sch.blockize(i)


def test_range_that_depends_on_a_loop():
    sch = scheduled("triangle")
    i, j = sch.get_loops("B")
    with refuses(
        sch,
        "reorder: the range of loop j depends on a loop that would be inside it",
    ):
        sch.reorder(j, i)
    with refuses(
        sch,
        "fuse: the extent of loop j depends on the loops around it",
    ):
        sch.fuse(i, j)
    with refuses(
        sch,
        "blockize: block B cannot be cut: the domain of its axis w depends on a loop",
    ):
        sch.blockize(i)
    sch.parallel(i)


def test_fused_spatial_and_reduce_loop_keeps_its_order():
    sch = Schedule(matmul(2, 5, 4))
    _i, j, k = sch.get_loops("C")
    f0, f1 = sch.split(sch.fuse(j, k), [None, 3])
    with refuses(
        sch,
        "reorder: the loops j_k_fused_0, j_k_fused_1 cannot become j_k_fused_1, "
        "j_k_fused_0: iterations that differ in j_k_fused_0, j_k_fused_1 may touch the "
        "same elements of C, and block C writes it",
    ):
        sch.reorder(f1, f0)


def test_a_condition_may_leave_an_iteration_without_a_write():
    sch = Schedule(CARRIED["written_once"])
    (i,) = sch.get_loops("C")
    with refuses(
        sch,
        "parallel: loop i is not parallel: its iterations may touch the same elements of "
        "B, which block B writes",
    ):
        sch.parallel(i)
    sch = Schedule(CARRIED["written_in_part"])
    sch.cache_write("B", 0, "local")
    becomes(
        sch,
        """
        B_local = T.alloc_buffer((8,), scope="local")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.where(i < 5)
                B_local[v] = A[v] * T.float32(2.0)
            for ax0 in range(1):
                with T.block("B_local"):
                    v0 = T.axis.spatial(8, i + ax0)
                    T.where(i < 5)
                    B[v0] = B_local[v0]
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = A[v] + B[v]
        """,
    )


def test_reindex_of_a_block_that_is_not_always_run():
    sch = Schedule(CARRIED["written_in_part"])
    B = sch.get_block("B")
    with refuses(
        sch,
        "reindex: the predicate of block B keeps some of its instances from being run, "
        "and the copy would write B for them",
    ):
        sch.reindex(B, ("write", 0))


def test_a_triangle_is_no_full_box():
    sch = scheduled("triangle")
    loop = sch.add_unit_loop(sch.get_loops("B")[0])
    with refuses(
        sch,
        "write_at: what an iteration of loop u writes of B is no full box, and a copy would "
        "overwrite the rest",
    ):
        sch.write_at(loop, "B", 0, "shared")


def test_a_part_of_a_reduction_is_no_reduction():
    sch = Schedule(padded_pool(4))
    loops = sch.get_loops("C")
    sch.loop_partition(loops[3], [2, None])
    (part,) = sch.get_loops("C_b0")
    with refuses(
        sch,
        "rfactor: block C_b0 is no reduction block: its reduce axis v_a runs over a, outside of "
        "block C_b0_partition that it stands in",
    ):
        sch.rfactor(part, 0)


def test_a_loop_over_a_part_of_an_axis_is_not_padded():
    sch = scheduled("every_instance_twice")
    sch.loop_partition(sch.get_loops("B")[1], [5, None])
    with refuses(
        sch,
        "pad_einsum: loop k0 does not run over all values of the axis r of block B_k0",
        hint="pad before its loops are partitioned",
    ):
        sch.pad_einsum("B_k0", [1, 1])


def test_cache_write_for_a_consumer_that_reads_more():
    sch = Schedule(CARRIED["written_in_part"])
    B, C = sch.get_block("B"), sch.get_block("C")
    with refuses(sch, "cache_write: block C may read elements of B that block B does not write"):
        sch.cache_write(B, 0, "local", consumer_blocks=[C])
