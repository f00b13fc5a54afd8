"""Every access to shared memory has an extent, and the analyses of bounds, fences, bytes and races see each of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f16, u32, u64
from nvbackend.intrinsics import catalogue
from nvbackend.intrinsics.row.row import Effect, RegisterClass, Role, Row, RowOperand
from nvbackend.intrinsics.row.types import ElementType, tf32
from nvbackend.isel.flow.memory_uses import STRIDE, address_use, dense_extent, descriptor_use, known_extent

SHARED = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER)
NOT_OF_THE_ROW = {
    "cp.async.bulk.tensor/destination": "the box of the tensor map says it",
    "cp.async.bulk.tensor/source": "the box of the tensor map says it",
    "cp.reduce.async.bulk.tensor/source": "the box of the tensor map says it",
    "wgmma.mma_async/a_desc": "the layout that the descriptor is made of says it",
    "wgmma.mma_async/b_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma/a_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma/b_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma.ws/a_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma.ws/b_desc": "the layout that the descriptor is made of says it",
    "tcgen05.cp/source": "the strides in the descriptor say it, which the caller packs",
}
"""Accesses, as opcode/operand, whose extent neither the row nor its operands say, with who does."""
MEMORY = Effect.READS_MEMORY | Effect.WRITES_MEMORY
CONSTANTS = {"bytes": 48, "stride": 144}
ROWS = list(catalogue.rows())


def extent_of(row: Row, operand: RowOperand, constants: dict[str, int]) -> int | None:
    return known_extent(row.semantics, operand, constants, strided=row.has_operand(STRIDE))


def accesses(row: Row) -> list:
    """Its operands that lead to shared memory."""
    addresses = [one for one in row.operands if one.register in SHARED and one.role is Role.INPUT]
    return addresses + [one for one in row.operands if descriptor_use(row.semantics, one) is not None]


def test_every_access_to_shared_memory_has_an_extent_or_a_reason():
    """Other addresses, generic ones among them, lead to no allocation that anything is known of."""
    reasoned = set()
    for row in ROWS:
        for operand in accesses(row) if row.effects & MEMORY else ():
            name = f"{row.opcode}/{operand.name}"
            assert address_use(row.semantics, operand) or descriptor_use(row.semantics, operand), (
                f"{row.ptx}: what of {operand.name}?"
            )
            if name in NOT_OF_THE_ROW:
                reasoned.add(name)
                assert extent_of(row, operand, CONSTANTS) is None, name
            else:
                assert extent_of(row, operand, CONSTANTS), f"{row.ptx}: how many bytes at {operand.name}?"
    assert reasoned == NOT_OF_THE_ROW.keys()


def test_instructions_without_an_effect_on_memory_access_none():
    """mapa, getctarank and the like take addresses and nothing of what is there."""
    found = {row.opcode for row in ROWS if not row.effects & MEMORY and accesses(row)}
    assert found <= {"mapa", "getctarank", "createpolicy"}


def by_spelling(text: str) -> int | None:
    """The bytes at the address, by the instruction's text alone."""
    vector = re.search(r"\.(?:v(\d)\.)?[busf](8|16|32|64)$", text)
    if text.startswith(("atom.", "red.")) and (packed := re.search(r"\.b?f16(x2)?$", text)):
        return 4 if packed[1] else 2  # vectors are in global memory alone
    if text.startswith(("st.async", "red.", "atom.")) and not text.endswith("b128"):
        assert vector
        return int(vector[1] or 1) * int(vector[2]) // 8
    return 16 if text.endswith(".b128") or text.startswith(("ldmatrix", "stmatrix")) else None


def test_extents_are_those_of_the_spelling():
    seen = set()
    for row in ROWS:
        wanted = by_spelling(row.ptx)
        for operand in accesses(row):
            if wanted is not None and operand.name != "barrier":
                seen.add(row.opcode)
                assert extent_of(row, operand, {}) == wanted, row.ptx
    atomics = {f"atom.{one}" for one in ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")}
    atomics |= {one.replace("atom", "red") for one in atomics} - {"red.exch", "red.cas"}
    others = {"st.async", "red.async", "ldmatrix", "stmatrix", "clusterlaunchcontrol.try_cancel"}
    assert seen == others | atomics


def matrix_bytes(row: Row, stride: int | None) -> set[int]:
    """The bytes of a wmma matrix, element by element, where no two elements share one."""
    m, n, k = (int(one) for one in re.search(r"m(\d+)n(\d+)k(\d+)", row.ptx).groups())  # type: ignore[union-attr]
    rows, columns = {"a": (m, k), "b": (k, n)}.get(row.opcode[-1], (m, n))
    is_row = ".row." in row.ptx
    step = stride or (columns if is_row else rows)
    bits = 32 if row.axes["element"] is tf32 else int(re.sub(r"\D", "", row.ptx.split(".")[-1]))
    found = set()
    for i, j in itertools.product(range(rows), range(columns)):
        first = (i * step + j if is_row else j * step + i) * bits
        found |= set(range(first // 8, (first + bits + 7) // 8))
    return found


@pytest.mark.parametrize("stride", [None, 144])
def test_extents_of_matrices_reach_to_their_last_element(stride):
    moved = [row for row in ROWS if row.opcode.startswith(("wmma.load", "wmma.store"))]
    assert len(moved) > 400
    for row in moved:
        if row.axes["strided"] != (stride is not None):
            continue
        touched = matrix_bytes(row, stride)
        found = extent_of(row, row.operand("address"), {} if stride is None else {"stride": stride})
        assert found == max(touched) + 1, row.ptx
        assert dense_extent(row, "address", found) == len(touched), row.ptx


def test_of_an_operand_that_is_a_layout_nothing_is_accessed_for_certain():
    """Of a descriptor's tile the layout has gaps; what other rows access has none."""
    for row in ROWS:
        for operand in accesses(row) if not row.opcode.startswith(("wmma.", "wgmma.")) else ():
            described = row.opcode.startswith("tcgen05.mma") and operand.register not in SHARED
            assert dense_extent(row, operand.name, 48) == (0 if described else 48), row.ptx


def test_a_stride_of_run_time_leaves_the_extent_open():
    strided = next(row for row in ROWS if row.opcode == "wmma.load.a" and row.axes["strided"])
    assert extent_of(strided, strided.operand("address"), {}) is None


# -- kernels: what is said of them ----------------------------------------------------------------------------------


def said(function: Callable, target: str = "sm_90a", cluster: int = 1) -> set[str]:
    try:
        finished = nvb.kernel(target, threads=128, cluster=cluster)(function).build()
    except nvb.DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}
    return {one.rule_id for one in finished.diagnostics}


def inbox(k, size: int) -> tuple:
    """Shared memory and the mbarrier that peers complete on."""
    place, full = k.shared(u32, size, align=128, name="inbox"), k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    return place, full


@pytest.mark.parametrize("first", [2, 3])
def test_bounds_of_a_store_to_a_peer(first):
    def kernel(k):
        place, full = inbox(k, 4)
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=8)
            k.async_store.store(place + first, [k.const(1, u32), k.const(2, u32)], full, k.cluster.peer_rank())
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert said(kernel, cluster=2) == ({"shared.bounds"} if first == 3 else set())


@pytest.mark.parametrize("first", [15, 16])
def test_bounds_of_a_reduction_in_a_peer(first):
    def kernel(k):
        place, full = inbox(k, 32)
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=8)
            k.async_store.reduce((place.cast(u64)) + first, "add", k.const(1, u64), full, k.cluster.peer_rank())
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert said(kernel, cluster=2) == ({"shared.bounds"} if first == 16 else set())


@pytest.mark.parametrize("size", [64, 72])
def test_bounds_of_clearing(size):
    def kernel(k):
        place = k.shared(u32, 32, align=16)
        with k.one_thread():
            k.bulk.clear_shared(place + 16, size)

    assert said(kernel, "sm_100a") == ({"shared.bounds"} if size == 72 else set())


@pytest.mark.parametrize("size", [512, 528])
def test_bounds_of_a_reduction_to_global_memory(size):
    def kernel(k, out: nvb.Pointer(u32, 16)):
        place = k.shared(u32, 128, align=16)
        with k.one_thread():
            k.bulk.reduce(out, place, size, "add", u32)
            k.tma.commit_group()
            k.tma.wait_group()

    assert said(kernel) == ({"shared.bounds"} if size == 528 else set())


@pytest.mark.parametrize("count", [615, 616])
def test_bounds_of_a_matrix(count):
    """Row 15 of 16 begins at element 600 and has 16: 616 elements."""

    def kernel(k):
        place = k.shared(f16, count, align=32)
        k.wmma.load("a", "m16n16k16", f16, place, layout="row", stride=40)

    assert said(kernel) == ({"shared.bounds"} if count == 615 else set())


@pytest.mark.parametrize("first", [0, 2])
def test_bounds_and_bytes_of_an_answer(first):
    def kernel(k):
        answer, full = k.shared(u64, 3, align=16), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=16)
            k.launch_control.try_cancel(answer + first, full)
        k.mbarrier.wait(full, 0)

    assert said(kernel, "sm_100a") == ({"shared.bounds"} if first else set())


@pytest.mark.parametrize("announced", [16, 32])
def test_the_bytes_of_an_answer_are_counted(announced):
    def kernel(k):
        answer, full = k.shared(u64, 2, align=16), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=announced)
            k.launch_control.try_cancel(answer, full)
        k.mbarrier.wait(full, 0)

    assert said(kernel, "sm_100a") == ({"mbarrier.wrong-bytes"} if announced == 32 else set())


def store_all(k, place, source, full):
    k.async_store.store(place + k.thread_id(), [k.thread_id().to(u32)], full, k.cluster.peer_rank())


def reduce_all(k, place, source, full):
    k.async_store.reduce(place + k.thread_id(), "add", k.thread_id().to(u32), full, k.cluster.peer_rank())


def copy_once(k, place, source, full):
    with k.one_thread():
        k.bulk.store(place, source, 512, barrier=full, rank=k.cluster.peer_rank())


def combine_once(k, place, source, full):
    with k.one_thread():
        k.bulk.reduce(place, source, 512, "add", u32, barrier=full, rank=k.cluster.peer_rank())


SENT = [store_all, reduce_all, copy_once, combine_once]
"""What brings 512 bytes to a peer: 128 threads with 4 bytes each, or one copy."""


def exchange(send: Callable, announced: int, *, waits: bool = True, fence: bool = True, barrier: bool = True):
    def kernel(k, out: nvb.Pointer[u32]):
        place, full = inbox(k, 128)
        source = k.shared(u32, 128, align=16, name="source")
        source[k.thread_id()] = k.thread_id().to(u32)
        if fence:
            k.fence.proxy_async()
        if barrier:
            k.barrier.sync()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=announced)
        send(k, place, source, full)
        if waits:
            k.mbarrier.wait(full, 0)
        else:
            k.cluster.sync()
        out[k.thread_id()] = place[k.thread_id()]
        k.cluster.sync()

    return kernel


@pytest.mark.parametrize("send", SENT)
@pytest.mark.parametrize("announced", [4, 256, 512, 1024])
def test_the_bytes_that_peers_send_are_counted(send, announced):
    assert said(exchange(send, announced), cluster=2) == (set() if announced == 512 else {"mbarrier.wrong-bytes"})


@pytest.mark.parametrize("send", SENT)
def test_what_peers_send_is_waited_for(send):
    assert said(exchange(send, 512, waits=False), cluster=2) == {"proxy.read-before-wait"}


@pytest.mark.parametrize("send", [copy_once, combine_once])
def test_what_is_sent_to_a_peer_is_fenced_and_behind_a_barrier(send):
    assert said(exchange(send, 512, fence=False), cluster=2) == {"proxy.missing-fence"}
    assert said(exchange(send, 512, barrier=False), cluster=2) == {"shared.missing-barrier"}


def test_bytes_that_not_all_ctas_wait_for_are_not_summed_up():
    """All CTAs announce what only one of them gets, and it alone waits."""

    def kernel(k, out: nvb.Pointer[u32]):
        place, full = inbox(k, 256)
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=1024)
        k.async_store.store(place + k.cluster.rank() * 128 + k.thread_id(), [k.thread_id().to(u32)], full, 0)
        with k.if_(k.cluster.rank() == 0):
            k.mbarrier.wait(full, 0)
            out[k.thread_id()] = place[k.thread_id()]
        k.cluster.sync()

    assert said(kernel, cluster=2) == set()


@pytest.mark.parametrize("behind", [True, False])
def test_clearing_and_readers_of_another_warp(behind):
    def kernel(k, out: nvb.Pointer[u32]):
        place = k.shared(u32, 128, align=16)
        with k.one_thread():
            k.bulk.clear_shared(place, 512)
        if behind:
            k.barrier.sync()
        out[k.thread_id()] = place[k.thread_id()]

    assert said(kernel, "sm_100a") == (set() if behind else {"shared.missing-barrier"})


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("clears", [True, False])
def test_a_reduction_of_what_ordinary_code_wrote_is_fenced(fenced, clears):
    def kernel(k, out: nvb.Pointer(u32, 16)):
        place = k.shared(u32, 128, align=16)
        with k.one_thread():
            if clears:
                k.bulk.clear_shared(place, 512)
            else:
                place[96] = 1
            if fenced:
                k.fence.proxy_async()
            k.bulk.reduce(out, place, 512, "add", u32)
            k.tma.commit_group()
            k.tma.wait_group()

    assert said(kernel, "sm_100a") == (set() if fenced else {"proxy.missing-fence"})


@pytest.mark.parametrize("announced", [128, 512])
@pytest.mark.parametrize("rows", [1, 4])
def test_bytes_of_four_gathered_rows(rows, announced):
    """A box of one row is gathered four times; of another box nobody knows what is."""

    def kernel(k, matrix):
        tile, full = k.shared(f16, 512, align=1024), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=announced)
            k.tma.load_box(tile, matrix, (0, 1, 2, 3, 4), full, mode="tile::gather4")
        k.mbarrier.wait(full, 0)

    kernel.__annotations__["matrix"] = nvb.TensorMap(f16, (rows, 64))
    wrong = {"mbarrier.wrong-bytes"} if rows == 1 and announced == 128 else set()
    assert said(kernel, "sm_100a") == wrong


def test_types_have_the_bits_that_they_take_in_memory():
    assert {one.bits for one in (f16, tf32) if isinstance(one, ElementType)} == {16, 32}
