"""Who comes to an instruction of a whole group: each mistake at its line, and no alarm where the group comes together.

Lines of a program that are wrong end in `# breaks`; warnings count as well.
"""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import Location, Severity, gather
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster
from nvbackend.isel.machine.function import Branch, MachineFunction, MachineInstr
from nvbackend.isel.protocols.convergence.convergence import check_convergence
from nvbackend.isel.protocols.registers.budget import check_register_budget
from nvbackend.isel.target.target import Target
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.rules.programs.program import Program, breaks
from tests.rules.registry import right, wrong
from tests.support.rule_catalogue import rules_of

OF_WHOLE_KERNELS = ("mma.unread", "async.empty-group")


def found(program, threads=256, cluster=1):
    """The rules that it breaks, and the lines that are marked but were not told of.

    The programs are parts of kernels, whose products nothing reads.
    """
    parameters = [Parameter("n", Scalar(i32)), Parameter("a", Pointer(i32))]
    k = KernelBuilder("kernel", "sm_90a", threads=threads, cluster=cluster, parameters=parameters)
    try:
        program(k, *k.arguments)
        diagnostics = k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    diagnostics = [one for one in diagnostics if one.rule_id not in OF_WHOLE_KERNELS]
    marked = (program if isinstance(program, Program) else breaks("")(program)).marked
    assert {one.location.line for one in diagnostics} == marked, "\n".join(map(str, diagnostics))
    return [one.rule_id for one in diagnostics]


def test_registers_come_down_from_what_the_kernel_is_launched_with():
    """ptxas 13.5 refuses it: C7406, the count is larger than the largest of the program."""

    def refused(count, **bounds):
        k = KernelBuilder("kernel", "sm_90a", threads=256, **bounds)
        k.setmaxnreg.dec(count)
        return [one.rule_id for one in gather(k.finish)]

    assert refused(72, min_ctas=1, max_registers=64) == ["setmaxnreg.order"]
    assert refused(64, min_ctas=1, max_registers=64) == []
    assert refused(136, min_ctas=2) == ["setmaxnreg.order"]
    assert refused(128, min_ctas=2) == []


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_gives_what_its_lanes_have(mode):
    """Of one value of all threads that value, of others each lane its own, or each warp."""

    def same(k, n, a):
        with k.if_(k.warp.shuffle(n, mode, 1) < 40):
            k.barrier.sync()

    def another(k, n, a):
        with k.if_(k.warp.shuffle(k.thread_id(), mode, 1) < 40):
            k.barrier.sync()  # breaks

    assert found(same) == []
    assert found(another) == ["barrier.divergent"]


def test_nothing_is_said_of_values_that_nobody_knows():
    def matrix(k, n, a):
        tile = k.shared(i32, 256, align=128)
        tile[k.thread_id()] = n
        k.barrier.sync()
        with k.if_(k.mma.ldmatrix(tile + k.lane_id() * 4, 1)[0] < 40):
            k.barrier.sync()

    assert found(matrix) == []


@pytest.mark.parametrize("program", right("convergence"), ids=lambda one: one.name)
@pytest.mark.parametrize("size", [1, 2])
def test_groups_that_come_together_raise_no_alarm(program, size):
    assert found(program, cluster=size) == []


@pytest.mark.parametrize("program", wrong("convergence"), ids=lambda one: one.name)
def test_each_mistake_is_found_at_its_line_and_nothing_else(program):
    assert set(found(program, **program.bounds)) == {program.rule}


def test_every_rule_has_a_program_that_breaks_it():
    assert {one.rule for one in wrong("convergence")} == {
        rule.id for rule in rules_of("isel.protocols.convergence.rules")
    }
    assert [rule.id for rule in rules_of("isel.protocols.convergence.rules") if rule.severity is Severity.WARNING] == [
        "cluster.skipped"
    ]


@pytest.mark.parametrize(
    ("who", "rules"),
    [
        ("thread_id", ["convergence.warp"]),
        ("warp_id", ["cluster.skipped"]),
        ("warpgroup_id", ["cluster.skipped"]),
        ("block_id", ["cluster.skipped"]),
    ],
)
def test_a_cluster_waits_for_no_warp_that_has_ended(who, rules):
    """PTX ISA 9.7.13.4: it waits for the non-exited threads, and .aligned needs all threads of a warp."""

    def kernel(k, n, a):
        k.return_if(getattr(k, who)() >= n)
        k.cluster.sync()  # breaks

    assert found(kernel, cluster=2) == rules


# -- what is said ---------------------------------------------------------------------------------------------------


def test_the_branch_is_named_with_its_condition_and_its_line():
    k = KernelBuilder("kernel", "sm_90a", threads=256, parameters=[Parameter("n", Scalar(i32))])
    with k.if_(k.thread_id() % 4 == k.arguments[0]):
        k.elect()
        k.elect()
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.finish()
    (diagnostic,) = caught.value.diagnostics
    assert "elect.sync is executed by the 32 threads of a warp together" in diagnostic.message
    assert "on `(tid.x & 3) == n` parts them" in diagnostic.message
    ((text, place),) = diagnostic.notes
    assert text == "the threads part here"
    assert place.source == "with k.if_(k.thread_id() % 4 == k.arguments[0]):"


@pytest.mark.parametrize("number", range(3))
def test_of_several_branches_the_one_around_it_is_named(number):
    """Before and after it others part the same threads, which have met again by then."""
    k = KernelBuilder("kernel", "sm_90a", threads=256)
    for place in range(3):
        with k.if_(k.thread_id() % 4 == place):
            if place == number:
                k.elect()
            else:
                k.fence.thread()
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.finish()
    (diagnostic,) = caught.value.diagnostics
    assert f"on `(tid.x & 3) == {number}` parts them" in diagnostic.message


# -- machine forms that nobody's builder has made -------------------------------------------------------------------


def function(uniform, row, *, operands=None, attributes=None):
    """A branch over a block with one instruction."""
    made = MachineFunction("kernel", Target.parse("sm_90a"), attributes=attributes or {})
    made.block("entry").successors = ["inside", "end"]
    made.block("entry").branch = uniform if uniform is None else Branch(uniform, fixed=True)
    made.block("inside").successors = ["end"]
    made.block("inside").instructions.append(
        MachineInstr(row.opcode, row, operands or {}, location=Location("kernel.py", 2, "kernel"))
    )
    made.block("end").instructions.append(MachineInstr("ret"))
    return made


def test_a_branch_of_which_nothing_is_known_parts_nobody():
    assert check_convergence(function(None, sync.elect(), operands={"mask": "-1"})) == []
    assert check_convergence(function(Scope.GRID, cluster.barrier_arrive())) == []


@pytest.mark.parametrize("uniform", list(Scope))
def test_a_group_is_parted_by_branches_of_smaller_groups_only(uniform):
    rules = {
        "convergence.warp": (sync.elect(), {"mask": "-1"}, Scope.WARP),
        "barrier.divergent": (sync.barrier_sync(aligned=False), {"id": "0"}, Scope.CTA),
        "cluster.divergent": (cluster.barrier_wait(), {}, Scope.CLUSTER),
    }
    for rule, (row, operands, needed) in rules.items():
        told = [one.rule_id for one in check_convergence(function(uniform, row, operands=operands))]
        if uniform >= needed:
            assert told == []
        elif (rule, uniform) == ("cluster.divergent", Scope.THREAD):
            assert told == ["cluster.divergent"]
        else:
            assert told == [rule]


def test_registers_are_not_checked_where_the_threads_are_not_known():
    from nvbackend.intrinsics.sync.register_budget import setmaxnreg

    made = function(Scope.GRID, setmaxnreg("inc"))
    assert check_register_budget(made) == []


def test_work_grows_with_the_text():
    """Many parted blocks one after another: the blocks that all branches together are followed through."""
    from nvbackend.isel.flow.graphs import ControlFlow
    from nvbackend.isel.protocols.convergence.regions import Divergence

    class Counted(ControlFlow):
        visited = 0

        def reached(self, starts, ends=()):
            result = super().reached(starts, ends)
            self.visited += len(result)
            return result

    work = []
    for length in (50, 200, 800):
        made = MachineFunction("kernel", Target.parse("sm_90a"))
        for index in range(length):
            made.block(f"b{index}").successors = [f"exit{index}" if index % 2 else f"in{index}", f"b{index + 1}"]
            made.block(f"b{index}").branch = Branch(Scope.THREAD)
            if index % 2:
                made.block(f"exit{index}")
            else:
                made.block(f"in{index}").successors = [f"b{index + 1}"]
        made.block(f"b{length}")
        flow = Counted({name: block.successors for name, block in made.blocks.items()})
        Divergence(made, flow)
        work.append(flow.visited / length)
    assert max(work) / min(work) < 1.1


@pytest.mark.parametrize("first", [0, 3, 7])
@pytest.mark.parametrize("second", [0, 5, 7, None])
def test_the_lane_that_never_comes_is_named(first, second):
    """Data decides whether threads come. Each warp lacks a lane of the mask, and the first one's is told."""
    k = KernelBuilder("kernel", "sm_90a", threads=64, parameters=[Parameter("n", Scalar(i32))])
    thread = k.thread_id()
    kept = (thread != first) if second is None else (thread != first) & (thread != 32 + second)
    with k.if_(((thread & 31) < 8) & kept & (k.arguments[0] > 0)):
        k.warp.sync(0xFF)
    told = [one.message for one in gather(k.finish)]
    named = [f"bar.warp.sync: lane {first} never comes here, and is among the members 0xff"]
    assert told == (named if second is not None else [])
