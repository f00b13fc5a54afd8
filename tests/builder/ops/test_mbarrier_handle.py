"""Mbarriers with kind and tag, cluster barriers that are not aligned, and what a target lacks."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import MbarrierKind, f16, u8
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Parameter, Pointer, TensorMap

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)


def kernel(target: str = "sm_90a", cluster: int = 1) -> KernelBuilder:
    parameters = [Parameter("matrix", TensorMap(f16, (64, 64))), Parameter("bytes", Pointer(u8, 16))]
    return KernelBuilder("k", target, threads=128, cluster=cluster, parameters=parameters)


def last_operands(ptx: str, instruction: str) -> list[str]:
    """The last operand of each such instruction, as the number that its register was given."""
    numbers = dict(re.findall(r"mov\.b32\s+(%r\d+), (-?\d+);", ptx))
    found = re.findall(rf"{instruction}[^;]*, ([%\w]+);", ptx)
    return [numbers.get(one, one) for one in found]


def test_a_handle_follows_its_phases() -> None:
    """Three copies one after the other: each announces the bytes, and the waits are for parities 0, 1 and 0."""
    k = kernel()
    tile = k.shared_tile(TILE)
    full = k.mbarrier.handle(kind=MbarrierKind.TMA, expected_txn=TILE.bytes, tag="full")
    k.mbarrier.ready()
    for step in range(3):
        with k.one_thread():
            full.arrive_expect()
            k.tma.load(tile, k.arguments[0], (0, 64 * step), full.smem_base)
        full.wait()
        k.barrier.sync()
    finished = k.finish()
    assert (full.kind, full.expected_txn, full.arrive_count, full.tag) == (MbarrierKind.TMA, 64 * 64 * 2, 1, "full")
    assert repr(full) == "<mbarrier full: tma, 1 arrivals>"
    ptx = finished.compile().ptx
    assert last_operands(ptx, r"mbarrier\.arrive\.expect_tx") == ["8192"] * 3
    assert last_operands(ptx, r"mbarrier\.try_wait\.parity") == ["0", "1", "0"]
    assert last_operands(ptx, r"mbarrier\.init") == ["1"]


def test_an_ordinary_handle_counts_arrivals() -> None:
    k = kernel()
    done = k.mbarrier.handle(128, tag="done")
    k.mbarrier.ready()
    done.arrive()
    done.wait()
    ptx = k.finish().compile().ptx
    assert last_operands(ptx, r"mbarrier\.init") == ["128"]
    assert "expect_tx" not in ptx


@pytest.mark.parametrize(
    ("call", "rule", "said"),
    [
        (
            lambda k: k.mbarrier.handle(kind=MbarrierKind.TMA, tag="full"),
            "mbarrier.kind",
            "mbarrier full is of kind tma",
        ),
        (lambda k: k.mbarrier.handle(expected_txn=64), "mbarrier.kind", "no copy brings the 64 bytes"),
        (lambda k: k.mbarrier.handle(tag="done").arrive_expect(), "mbarrier.kind", "mbarrier done is of kind ordinary"),
        (lambda k: k.mbarrier.handle(0), "mbarrier.count", "0"),
        (lambda k: k.mbarrier.handle(kind=MbarrierKind.TMA, expected_txn=1 << 20), "mbarrier.expect-tx", "1048576"),
    ],
)
def test_what_a_handle_refuses(call, rule: str, said: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(kernel())
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert said in found.message
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("cluster", [1, 2])
def test_cluster_barriers_of_warps_that_have_diverged(aligned: bool, cluster: int) -> None:
    k = kernel(cluster=cluster)
    k.mbarrier.array(1, 1)
    k.mbarrier.ready(aligned=aligned)
    k.cluster.sync(aligned=aligned)
    k.cluster.arrive(aligned=aligned)
    k.cluster.wait(aligned=aligned)
    found = re.findall(r"bar(?:rier)?\.(?:cluster\.(?:arrive|wait)|sync)[\w.:]*", k.finish().compile().ptx)
    end = ".aligned" if aligned else ""
    alone = [f"barrier.cluster.arrive{end}", f"barrier.cluster.wait{end}"]
    if cluster == 1:
        assert found == [*["bar.sync" if aligned else "barrier.sync"] * 2, *alone]
        return
    assert found == [f"barrier.cluster.arrive.relaxed{end}", f"barrier.cluster.wait{end}", *alone * 2]


def test_one_cta_keeps_the_fence_of_the_initialisation() -> None:
    """TMA reads an mbarrier through another proxy, in a kernel without a cluster as well; ptxas takes its barriers."""
    k = kernel()
    k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    k.cluster.arrive()
    k.cluster.wait()
    compiled = k.finish().compile()
    order = re.findall(r"mbarrier\.init|fence\.mbarrier_init|bar\.sync|barrier\.cluster\.\w+", compiled.ptx)
    expected = ["mbarrier.init", "fence.mbarrier_init", "bar.sync", "barrier.cluster.arrive", "barrier.cluster.wait"]
    assert order == expected
    assert compiled.cubin


@pytest.mark.parametrize(
    ("target", "cluster", "meeting", "fence"),
    [
        ("sm_80", 1, ["bar.sync"], []),
        ("sm_90a", 1, ["bar.sync"], ["fence.mbarrier_init"]),
        ("sm_90a", 2, ["barrier.cluster.arrive", "barrier.cluster.wait"], ["fence.mbarrier_init"]),
    ],
)
def test_a_scope_begins_and_ends_its_mbarriers(target: str, cluster: int, meeting: list[str], fence: list[str]) -> None:
    """All who use them have met before they are invalidated, and meet before their memory holds something else."""
    k = kernel(target, cluster)
    memory = k.shared(u8, 16, align=16)
    with k.mbarrier.scope(2, 128, memory=memory) as barriers:
        k.mbarrier.arrive(barriers + 1)
    memory[k.thread_id() % 16] = 0
    ptx = k.finish(check=False).compile(assemble=False).ptx
    order = re.findall(r"mbarrier\.in(?:it|val)\b|fence\.mbarrier_init|bar\.sync|barrier\.cluster\.\w+|st\.shared", ptx)
    begun = [*["mbarrier.init"] * 2, *fence, *meeting]
    assert order == [*begun, *meeting, *["mbarrier.inval"] * 2, *fence, "bar.sync", "st.shared"]


MULTICASTS = {
    "tma_load": lambda k, matrix, tile, full: k.tma.load(tile, matrix, (0, 0), full, multicast=True),
    "tma_load_box": lambda k, matrix, tile, full: k.tma.load_box(tile.address, matrix, (0, 0), full, multicast_mask=1),
    "bulk_load": lambda k, matrix, tile, full: k.bulk.load(tile.address, k.arguments[1], 64, full, multicast_mask=1),
}


@pytest.mark.parametrize("call", MULTICASTS)
@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_multicast_on_an_incompatible_target_is_told_in_the_documents_words(call: str, target: str) -> None:
    k = kernel(target)
    tile, full = k.shared_tile(TILE), k.shared(nvb.u64, 1, align=8)
    with pytest.raises(nvb.DiagnosticError) as caught:
        MULTICASTS[call](k, k.arguments[0], tile, full)
    messages = {found.rule_id: found.message for found in caught.value.diagnostics}
    assert messages["tma.multicast-target"] == "cluster multicast TMA requires a compatible SM target"
    assert set(messages) <= {"tma.target", "tma.multicast-target"}


@pytest.mark.parametrize("kind", ["tma", None, 1])
def test_a_kind_that_is_none_is_refused_where_the_handle_is_made(kind):
    k = KernelBuilder("handles", "sm_90a", threads=128)
    with pytest.raises(nvb.DiagnosticError, match=r"call\.argument.*kind must be MbarrierKind, not "):
        k.mbarrier.handle(1, kind=kind)


@pytest.mark.parametrize("threads", [32, 128])
def test_thread_0_initialises(threads: int) -> None:
    """The one thread that every CTA has, by the kernel's own machine form."""
    k = nvb.KernelBuilder("k", "sm_90a", threads=threads)
    k.mbarrier.array(2, 1)
    k.mbarrier.ready()
    blocks = k.finish().machine.blocks.values()
    crews = [one.crew for one in blocks for instr in one.instructions if instr.opcode == "mbarrier.init"]
    assert [crew.bits for crew in crews if crew is not None and not crew.elected] == [1, 1]


def test_mbarriers_refused_by_a_target_leave_the_kernel_whole() -> None:
    k = kernel("sm_75")
    with pytest.raises(nvb.DiagnosticError, match=r"target\.feature"):
        k.mbarrier.array(2, 1)
    assert k.finish().diagnostics == ()


def test_a_diagnostic_names_the_handle_by_its_tag() -> None:
    k = kernel()
    done = k.mbarrier.handle(2, tag="of_the_tile")
    done.wait()
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.finish()
    assert all("mbarrier of_the_tile" in one.message for one in caught.value.diagnostics)


def test_a_test_asks_for_the_phase_of_parity_0_and_does_not_wait() -> None:
    k = kernel()
    barrier = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    k.mbarrier.test(barrier)
    ptx = k.finish(check=False).compile().ptx
    assert last_operands(ptx, r"mbarrier\.test_wait\.parity") == ["0"]
    assert "try_wait" not in ptx
