"""Mbarriers over whole kernels: each mistake where it stands, and no false alarm on the programs beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather
from nvbackend.intrinsics.row.types import u64
from nvbackend.signature import Parameter, Scalar, TensorMap
from tests.rules.programs.program import Program
from tests.rules.registry import right, wrong
from tests.support.rule_catalogue import rules_of

BYTES = 64 * 64 * 2


def built(
    program: Callable[..., object], cluster: int = 1, threads: int = 256, target: str = "sm_90a"
) -> nvb.FinishedKernel:
    parameters = [Parameter("a", TensorMap(f16, (64, 64))), Parameter("n", Scalar(i32))]
    k = KernelBuilder("kernel", target, threads=threads, cluster=cluster, parameters=parameters)
    program(k, *k.arguments)
    return k.finish()


def found(program: Callable[..., object], **options: int) -> list[str]:
    """The rules that it breaks, all of them at lines that are marked."""
    try:
        diagnostics = built(program, **options).diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    marked = program.marked if isinstance(program, Program) else set()
    for one in diagnostics:
        assert one.location is not None
        assert one.location.line in marked, str(one)
    return [one.rule_id for one in diagnostics]


@pytest.mark.parametrize(
    ("parity", "text"), [(lambda k, n: 1, "1"), (lambda k, n: n & 1, "a value from before the loop")]
)
def test_a_parity_that_no_round_changes_is_shown(parity, text):
    def program(k, a, n):
        full = k.mbarrier.array(1, arrivals=256)
        k.mbarrier.ready()
        phase = parity(k, n)
        with k.range(8):
            k.mbarrier.arrive(full)
            k.mbarrier.wait(full, phase)

    with pytest.raises(nvb.DiagnosticError) as caught:
        built(program)
    told = [one.message for one in caught.value.diagnostics if one.rule_id == "mbarrier.parity-fixed"]
    assert len(told) == 1
    assert text in told[0]


@pytest.mark.parametrize("of_memory", [True, False])
def test_of_a_parity_from_memory_nothing_is_known(of_memory):
    """Another thread may have changed it in each round."""

    def program(k, a, n):
        full, kept = k.mbarrier.array(1, arrivals=256), k.shared(i32, 256)
        kept[k.thread_id()] = 0
        k.mbarrier.ready()
        with k.range(8):
            k.mbarrier.arrive(full)
            k.mbarrier.wait(full, kept[k.thread_id()] & 1 if of_memory else 0)

    try:
        told = built(program).diagnostics
    except nvb.DiagnosticError as error:
        told = error.diagnostics
    assert ("mbarrier.parity-fixed" in [one.rule_id for one in told]) is not of_memory


@pytest.mark.parametrize("around", [True, False])
def test_a_parity_belongs_to_a_loop_only_if_that_is_around(around):
    """What another loop changes later is a value from before the ring's own loop."""

    def program(k, a, n):
        full = k.mbarrier.array(4, arrivals=256)
        k.mbarrier.ready()
        phase = k.var(0)
        with k.range(2) if around else contextlib.nullcontext():
            with k.range(8) as turn:
                k.mbarrier.arrive(full + turn % 4)
                k.mbarrier.wait(full + turn % 4, phase)
            if around:
                phase.set(phase ^ 1)
        with k.range(2):
            phase.set(phase ^ 1)

    with pytest.raises(nvb.DiagnosticError) as caught:
        built(program)
    told = [one.rule_id for one in caught.value.diagnostics if one.rule_id.startswith("mbarrier.parity-")]
    assert told == ["mbarrier.parity-counter" if around else "mbarrier.parity-fixed"]


RINGS = {
    "remainder": lambda k, turn, stage, stages: turn % stages,
    "mask": lambda k, turn, stage, stages: turn & (stages - 1),
    "variable": lambda k, turn, stage, stages: stage,
}


@pytest.mark.parametrize("index", RINGS)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_parity_that_flips_in_each_round_is_right_for_one_stage(stages, index):
    """Written for a ring of any length: of one stage, each round is a phase."""

    def program(k, a, n):
        full = k.mbarrier.array(stages, arrivals=256)
        k.mbarrier.ready()
        phase, stage = k.var(0), k.var(0)
        with k.range(n) as turn:
            barrier = full + RINGS[index](k, turn, stage, stages)
            k.mbarrier.arrive(barrier)
            k.mbarrier.wait(barrier, phase)
            phase.set(phase ^ 1)
            stage.set((stage + 1) % stages)

    if stages == 1:
        built(program)
    else:
        with pytest.raises(nvb.DiagnosticError, match="parity-counter"):
            built(program)


def in_memory(access: Callable[..., object]) -> list[str]:
    """What is said of an access to the four words of which the first is an mbarrier in use."""

    def program(k, a, n):
        memory = k.shared(u64, 4, align=8)
        with k.if_(k.thread_id() == 0):
            k.mbarrier.init(memory, 256)
        k.mbarrier.ready()
        k.mbarrier.arrive(memory)
        k.mbarrier.wait(memory, 0)
        access(memory, n)

    try:
        return [one.rule_id for one in built(program).diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def test_only_a_write_that_certainly_meets_an_mbarrier_overwrites_it():
    assert in_memory(lambda memory, n: (memory + 0).store(1)) == ["mbarrier.overwritten"]
    assert in_memory(lambda memory, n: (memory + 1).store(1)) == []
    assert in_memory(lambda memory, n: (memory + n).store(1)) == []
    assert in_memory(lambda memory, n: (memory + 0).load()) == []


def test_what_leaves_an_mbarrier_arrives_in_one_phase_only():
    """Of 96: 64 that leave and 32 complete the first phase, and the next one is of 32."""

    def program(k, a, n):
        done = k.mbarrier.array(1, 96, name="done")
        k.mbarrier.ready()
        with k.if_(k.warp_id() < 2):
            k.mbarrier.arrive(done, drop=True, state=True)
        k.barrier.sync()
        with k.if_(k.warp_id() >= 6):
            k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 0)

    assert found(program) == []


@pytest.mark.parametrize("program", right("mbarrier"), ids=lambda one: one.name)
@pytest.mark.parametrize("cluster", [1, 2])
def test_right_programs_raise_no_alarm(program, cluster):
    assert found(program, cluster=cluster) == []


@pytest.mark.parametrize(("is_seen", "rules"), [(True, ["mbarrier.missing-bytes"]), (False, [])])
def test_what_an_attached_builder_does_not_see_is_not_missed(is_seen, rules):
    """The owner's own init is known; the copy may be in a function of the owner's that nobody has seen."""
    module = ir.Module("m")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, "sm_90a", threads=128)
    full = k.shared(u64, 1, align=8)
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)])
    builder.asm(kind, "mbarrier.init.shared.b64 [$0], 128;", "r", [full.bytes.ir], side_effect=True)
    k.mbarrier.arrive(full, expect_tx=BYTES)
    if not is_seen:
        builder.call(ir.Function(module, kind, "copy"), [full.bytes.ir])
    k.mbarrier.wait(full, 0)
    builder.ret_void()
    assert [one.rule_id for one in gather(k.verify)] == rules


@pytest.mark.parametrize("program", wrong("mbarrier"), ids=lambda one: one.name)
def test_each_mistake_is_found_at_its_line_and_nothing_else(program):
    assert found(program) == [program.rule]


def test_every_rule_has_a_program_that_breaks_it():
    of_a_cluster = {
        rule.id for rule in rules_of("isel.protocols.mbarrier.rules") if rule.id.endswith("-in-peer")
    }  # test_cluster_sums.py has theirs
    assert {rule.id for rule in rules_of("isel.protocols.mbarrier.rules")} == {
        one.rule for one in wrong("mbarrier")
    } | of_a_cluster


@pytest.mark.parametrize(("other", "is_wrong"), [(1, True), (0, False)])
def test_one_right_wait_for_the_first_phase_is_enough(other: int, is_wrong: bool) -> None:
    """The wait by parity 1 may then be for the phase after it."""
    k = KernelBuilder("kernel", "sm_90a", threads=256, parameters=[Parameter("a", TensorMap(f16, (64, 64)))])
    full = k.mbarrier.array(1, arrivals=1)
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, k.arguments[0], (0, 0), full)
    k.mbarrier.wait(full, other)
    k.mbarrier.wait(full, 1)
    try:
        diagnostics = k.finish(check=False).diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    assert ("mbarrier.parity-first" in {one.rule_id for one in diagnostics}) is is_wrong


def test_a_flip_that_the_counter_of_the_loop_takes_back_is_right():
    """`flip` is the counter modulo 2: with that, it leaves the parity of the pass over all four stages."""

    def program(k, a, n):
        done, flip = k.mbarrier.array(4, arrivals=256), k.var(0)
        k.mbarrier.ready()
        with k.range(n) as step:
            k.mbarrier.arrive(done + step % 4)
            k.mbarrier.wait(done + step % 4, (flip ^ step ^ step // 4) & 1)
            flip ^= 1

    assert list(built(program).diagnostics) == []
