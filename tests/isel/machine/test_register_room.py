"""Registers that one instruction takes at once, and what an SM has room for, against the limits that ptxas states."""

from __future__ import annotations

import itertools
import math
import random
import re

import pytest

import nvbackend as nvb
from nvbackend import e4m3, f16, f32, f64, s8, s32, u32
from nvbackend.builder.kernel.bounds import SM_CTAS, SM_THREADS
from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.intrinsics.copy import tcgen05_registers
from nvbackend.intrinsics.mma import families, mma, wgmma, wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import register_budget
from nvbackend.isel.machine.register_room import registers_needed
from nvbackend.isel.target.target import Target, dotted, target_names
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.ptxas import assemble, witnessed
from tests.support.rows import compile_batch, joined, kernel_text, newest_target

pytestmark = pytest.mark.sampled(3)

WIDE_F64 = [row for row in mma.rows() if row.axes["a"] is f64 and mma.instruction_of(row).shape[0] == 16]
ROWS: list[Row] = [
    wgmma.mma_async(64, f32, f16, f16),
    wgmma.mma_async(256, f32, f16, f16),
    wgmma.mma_async(128, f32, f16, f16, a_in_registers=True),
    wgmma.mma_async(256, f16, e4m3, e4m3),
    wgmma.mma_async(96, s32, s8, s8),
    wgmma.mma_async(128, f32, f16, f16, sparse=True),
    tcgen05_registers.ld("32x32b", 64),
    tcgen05_registers.ld("16x256b", 32),
    tcgen05_registers.ld_red("32x32b", 32, "max", "f32"),
    tcgen05_registers.st("32x32b", 128),
    *WIDE_F64,
]


def test_the_least_limit_is_that_of_ptxas() -> None:
    """With one register less ptxas refuses the instruction, and it takes the limit that we state."""
    assert len(WIDE_F64) == 3
    targets = [newest_target(row) for row in ROWS]
    texts = compile_batch([(kernel_text(row, "k"), target) for row, target in zip(ROWS, targets, strict=True)])
    for row, target, text in zip(ROWS, targets, texts, strict=True):
        assert text.ptx, text.error
        needed = registers_needed(row, target)
        verdicts = []
        for limit in (needed - 1, needed):
            limited = re.sub(r"(\.entry k\([^)]*\))", rf"\1 .maxnreg {limit}", text.ptx)
            verdicts.append(assemble(limited, target.name)[0])
        assert verdicts == [False, True], (row.ptx, needed)


SMALL_PRODUCTS = [*mma.rows(), *(row for row in wmma.rows() if row.opcode == families.WMMA_MMA)]
CHIPS = ("sm_70", "sm_75", "sm_80", "sm_100a", "sm_120a")
"""The first chips of each way to expand them, and one with kinds of its own."""


def limited(ptx: str, registers: int) -> str:
    return re.sub(r"(\.entry \w+\([^)]*\))", rf"\1 .maxnreg {registers}", ptx)


def products(target: Target) -> list[Row]:
    """The mma and wmma of a chip, one of those that differ in more than layouts and roundings."""
    found: dict[object, Row] = {}
    for row in SMALL_PRODUCTS:
        if target.has(row.requires) and row.ptx_version <= target.ptx_version:
            axes = ("shape", "a", "c", "d", "sparsity", "kind", "operation")
            found.setdefault((row.opcode, *(row.axes.get(name) for name in axes)), row)
    return list(found.values())


def wrong_limits(name: str, share: float) -> list[str]:
    """The products of which ptxas asks for other limits than we state; of refusals each kind is tried."""
    target, rng = Target.parse(name), random.Random(name)
    rows = products(target)
    assert len(rows) >= (10 if target.number >= 75 else 3)
    texts = [one.ptx for one in compile_batch([(kernel_text(row, f"k{at}"), target) for at, row in enumerate(rows)])]
    needed = [registers_needed(row, target) for row in rows]
    least = register_budget.REGISTER_COUNTS[0]
    kept = [limited(text, max(least, count)) for text, count in zip(texts, needed, strict=True)]
    fine, said = assemble(joined(kept), name)
    firsts = {(row.opcode, row.axes["a"], count): at for at, (row, count) in enumerate(zip(rows, needed, strict=True))}
    tried = [
        at for at, count in enumerate(needed) if count > least and (rng.random() < share or at in set(firsts.values()))
    ]
    taken = [at for at in tried if assemble(limited(texts[at], needed[at] - 1), name)[0]]
    return [*([] if fine else [said]), *(f"{rows[at].ptx} takes fewer than {needed[at]}" for at in taken)]


@pytest.mark.parametrize("name", CHIPS)
def test_the_least_limits_of_mma_and_wmma(name: str) -> None:
    assert wrong_limits(name, 0.05) == []


STATED = {
    "mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32": {70: 26, 75: 26, 80: 0, 90: 0, 100: 0},
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32": {75: 0, 80: 0, 90: 0, 100: 25, 103: 25, 120: 25},
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc": {75: 0, 80: 0, 90: 0, 100: 28, 120: 28},
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64": {80: 26, 90: 26, 100: 26},
}
"""What ptxas 12.9 (sm_70) and 13.5 (the others) want, 0 where they take any limit."""


def test_products_of_m_8_change_with_the_chip() -> None:
    rows = {row.ptx: row for row in SMALL_PRODUCTS}
    found = {
        ptx: {chip: registers_needed(rows[ptx], Target.parse(f"sm_{chip}")) for chip in stated}
        for ptx, stated in STATED.items()
    }
    assert found == STATED


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("name", [one.name for one in witnessed()])
def test_every_least_limit_of_mma_and_wmma(name: str) -> None:
    assert wrong_limits(name, 1.0) == []


def test_a_product_without_the_registers_is_refused_where_it_is_built() -> None:
    def multiplied(limit: int) -> FinishedKernel:
        k = KernelBuilder("k", "sm_80", threads=32, max_registers=limit, parameters=[Parameter("out", Pointer(f32))])
        word = k.thread_id().bitcast(u32)
        product = k.mma.sync(nvb.mma.sync("m16n8k16", f16, f16, f32), [word] * 4, [word] * 2, [0.0] * 4)
        for place, value in enumerate(product):
            k.arguments[0][place] = value
        return k.finish()

    with pytest.raises(nvb.DiagnosticError) as caught:
        multiplied(27)
    assert [one.rule_id for one in caught.value.diagnostics] == ["machine.register-room"]
    assert caught.value.diagnostics[0].location.function == "multiplied"  # type: ignore[union-attr]
    assert multiplied(28).compile().cubin is not None


def stated_by_ptxas(threads: int, ctas: int) -> int:
    """The registers that ptxas says a thread has at its launch; 255 where it takes a setmaxnreg to 256."""
    body = "setmaxnreg.dec.sync.aligned.u32 256; ret;"
    header = (
        f".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .maxntid {threads} .minnctapersm {ctas}"
    )
    fine, said = assemble(f"{header} {{ {body} }}", "sm_90a")
    return 255 if fine else int(re.search(r"program \((\d+)\)", said)[1])  # type: ignore[index]


@pytest.mark.parametrize("ctas", [1, 2, 3, 5])
def test_what_a_thread_is_launched_with_is_what_ptxas_says(ctas: int) -> None:
    """Warps count in fours, also of several CTAs together: 288 threads have 168 registers each, not 224."""
    for threads in {1024, *range(32, 1025, 96), *range(32, 321, 32)}:
        if threads * ctas <= SM_THREADS.get(90, 2048):
            stated = register_budget.launch_limit(threads, ctas, None)
            assert stated == stated_by_ptxas(threads, ctas), threads


def loaded(columns: int, **bounds: int) -> FinishedKernel:
    """A warp's load of so many columns of tensor memory, at the given launch bounds."""
    parameters = [Parameter("out", Pointer(u32)), Parameter("tmem", Scalar(u32))]
    k = KernelBuilder("k", "sm_100a", parameters=parameters, **bounds)
    out, tmem = k.arguments
    values = k.tcgen05.ld(tmem, "32x32b", columns)
    k.tcgen05.wait_ld(values)
    for place, value in enumerate(values.values):
        out[k.thread_id() * columns + place] = value
    return k.finish()


@pytest.mark.parametrize(
    ("bounds", "room"),
    [
        ({"threads": 1024}, False),
        ({"threads": 512}, False),
        ({"threads": 384}, True),
        ({"threads": 128, "min_ctas": 4}, False),
        ({"threads": 128, "min_ctas": 3}, True),
        ({"threads": 128, "max_registers": 145}, False),
        ({"threads": 128, "max_registers": 146}, True),
        ({"threads": 128, "max_registers": 255, "min_ctas": 4}, False),
    ],
)
def test_a_kernel_without_the_registers_is_refused_where_it_is_built(bounds: dict[str, int], room: bool) -> None:
    """ptxas is the witness: what is built is assembled, and what is refused is refused by it too (C7602)."""
    try:
        built = loaded(128, **bounds)
    except nvb.DiagnosticError as error:
        (found,) = error.diagnostics
        assert found.rule_id == "machine.register-room"
        assert found.location is not None and found.location.function == "loaded"
        assert not room
        needed = found.values["needed"]
        most = max(threads for threads in range(128, 2049, 128) if threads * (-(-needed // 8) * 8) <= 65536)
        assert f"at most {most} threads an SM" in found.fix
        text = loaded(1, **bounds).compile(assemble=False).ptx  # its header, which holds the bounds
        many = loaded(128, threads=bounds["threads"] // 8 if bounds["threads"] > 256 else 32)
        body = many.compile(assemble=False).ptx
        header = re.search(r"\.maxntid.*?(?=\{)", text, re.DOTALL)
        assert header is not None
        accepted, said = assemble(re.sub(r"\.maxntid.*?(?=\{)", header[0], body, flags=re.DOTALL), "sm_100a")
        assert not accepted and "C7602" in said
    else:
        assert room
        assert built.compile().cubin


def test_setmaxnreg_does_not_make_room() -> None:
    """ptxas refuses the kernel with it and without."""
    parameters = [Parameter("tmem", Scalar(u32))]
    k = KernelBuilder("k", "sm_100a", threads=512, min_ctas=1, parameters=parameters)
    with k.if_(k.thread_id() < 128):
        k.instruction(register_budget.setmaxnreg("inc"), registers=160)
        k.tcgen05.wait_ld(k.tcgen05.ld(k.arguments[0], "32x32b", 128))
    with pytest.raises(nvb.DiagnosticError, match=r"machine\.register-room"):
        k.finish()


BOUNDS = list(itertools.product((32, 64, 96, 512, 1024), (1, 2, 3, 4, 16, 17, 21, 22, 24, 25, 32, 33)))


def ignored(target: Target) -> set[tuple[int, int]]:
    """The (threads, min_ctas) that ptxas says it ignores."""
    entries = (
        f".entry k_{threads}_{ctas}() .maxntid {threads}, 1, 1 .minnctapersm {ctas} {{ ret; }}\n"
        for threads, ctas in BOUNDS
    )
    header = f".version {dotted(target.ptx_version)}\n.target {target.name}\n.address_size 64\n"
    accepted, said = assemble(header + "".join(entries), target.name)
    assert accepted, said
    found = re.findall(r"for entry k_(\d+)_(\d+) is out of range", said)
    return {(int(threads), int(ctas)) for threads, ctas in found}


@pytest.mark.parametrize("target", [one for one in witnessed() if not one.suffix], ids=str)
def test_what_an_sm_has_room_for_is_what_ptxas_says(target: Target) -> None:
    refused = set()
    for threads, ctas in BOUNDS:
        try:
            KernelBuilder("k", target, threads=threads, min_ctas=ctas)
        except nvb.DiagnosticError as error:
            (found,) = error.diagnostics
            assert (found.rule_id, found.values["fact"]) == ("kernel.bounds", "min_ctas")
            refused.add((threads, ctas))
    assert refused == ignored(target)
    assert 0 < len(refused) < len(BOUNDS)


def test_the_limits_of_an_sm_are_of_chips_that_there_are() -> None:
    numbers = {Target.parse(name).number for name in target_names()}
    assert {*SM_CTAS, *SM_THREADS} <= numbers


ROOMS = {
    **dict.fromkeys(("sm_70", "sm_72", "sm_80", "sm_90", "sm_100", "sm_103"), (32, 2048)),
    "sm_75": (16, 1024),
    **dict.fromkeys(("sm_86", "sm_87", "sm_88"), (16, 1536)),
    **dict.fromkeys(("sm_89", "sm_101", "sm_110", "sm_120", "sm_121"), (24, 1536)),
}
"""CTAs and threads that an SM has at most: CUDA Programming Guide, Compute Capabilities; sm_101 became sm_110."""


def test_what_an_sm_has_room_for_is_what_the_guide_says() -> None:
    assert {*ROOMS} == {name for name in target_names() if name[-1].isdigit()}
    for name, (ctas, threads) in ROOMS.items():
        for size in (32, 512):
            most = min(ctas, threads // size)
            KernelBuilder("k", name, threads=size, min_ctas=most)
            with pytest.raises(nvb.DiagnosticError, match=f"room for {most} CTAs of {size} threads"):
                KernelBuilder("k", name, threads=size, min_ctas=most + 1)


def test_what_any_limit_does_for_needs_none() -> None:
    """Every thread is launched with 24 registers at least."""
    rows = [*mma.rows(), *wmma.rows()]
    needed = {
        registers_needed(row, target) for row in rows for target in map(Target.parse, ("sm_70", "sm_75", "sm_120a"))
    }
    assert 0 in needed
    assert min(needed - {0}) > 16


@pytest.mark.sampled(1)
@pytest.mark.parametrize("given", [0, -1, 2**31, 2**32, 2**32 + 1, 2**40, 2**64, 10**30])
def test_min_ctas_that_ptxas_would_cut_to_32_bits_are_refused(given: int) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"kernel\.bounds"):
        KernelBuilder("k", "sm_90a", threads=128, min_ctas=given)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("threads", "most"), [(1024, 64), (512, 128), (384, 168), (320, 168), (256, 255), (128, 255)])
def test_max_registers_are_what_an_sm_has_for_all_threads(threads: int, most: int) -> None:
    """ptxas obeys .maxnreg, and the driver then cannot launch the kernel: registers come by eights, 16384 a quarter."""
    KernelBuilder("k", "sm_90a", threads=threads, max_registers=most)
    assert -(-most // 8) * 8 * 32 * math.ceil(threads / 32 / 4) <= 16384
    if most < 255:
        with pytest.raises(nvb.DiagnosticError, match=rf"kernel\.bounds.*{most} for each of {threads}"):
            KernelBuilder("k", "sm_90a", threads=threads, max_registers=most + 1)
        KernelBuilder("k", "sm_90a", threads=threads, max_registers=most + 1, min_ctas=1)  # ptxas takes the lower
