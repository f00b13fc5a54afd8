"""What a chip has, what the command line knows, and what only machine code built elsewhere can get wrong."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import MachineFunction, MachineInstr, Target, e4m3, f16, f32, i32, i64, verify
from nvbackend.intrinsics.fragments import warpgroup as fragments
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import register_budget, special_registers
from nvbackend.isel.select.rows import check_row
from tests.rules.example import kernel, program
from tests.rules.setup import HOPPER


@program("target.unknown")
def target_that_is_none():
    Target.parse("sm_90b")  # breaks
    Target.parse("sm_90a")  # keeps


@program("target.ptx-version")
def ptx_before_the_chip():
    Target.parse("sm_90a", (7, 8))  # breaks
    Target.parse("sm_90a", (8, 0))  # keeps


@program("target.ptx-version-form")
def version_as_a_number():
    Target.parse("sm_90a", 8.0)  # breaks
    Target.parse("sm_90a", (8, 0))  # keeps


@program("target.feature")
def fence_before_hopper():
    k = nvb.KernelBuilder("k", "sm_80", threads=32)  # breaks
    k = nvb.KernelBuilder("k", "sm_90", threads=32)  # keeps
    k.fence.mbarrier_init()


@program("target.row-ptx-version")
def register_that_came_later():
    target = Target.parse("sm_90", (8, 0))  # breaks
    target = Target.parse("sm_90", (8, 1))  # keeps
    check_row(special_registers.special_register("aggr_smem_size"), target, {})


@program("machine.immediate")
def registers_by_ten():
    row = register_budget.setmaxnreg("inc")
    check_row(row, HOPPER, {"registers": 100})  # breaks
    check_row(row, HOPPER, {"registers": 104})  # keeps


@kernel("machine.operand")
def wide_value_for_a_narrow_operand(k, wide: i64):
    k.uniform(wide)  # breaks
    k.uniform(wide.to(i32))  # keeps


@program("machine.successor")
def branch_to_nowhere():
    function = MachineFunction("k", HOPPER)
    function.block("entry").successors = ["end"]
    function.block("entry").instructions = [MachineInstr("branch", location=nvb.diagnostics.caller_location())]
    function.block("end")  # keeps
    return verify(function)


@program("cluster.size")
def cluster_of_seventeen():
    nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=17)  # breaks
    nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=8)  # keeps


@program("cluster.portable-size")
def cluster_of_sixteen():
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=16)  # breaks
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=8)  # keeps
    return k.finish()


@program("cluster.target")
def cluster_before_hopper():
    nvb.KernelBuilder("k", "sm_89", threads=128, cluster=2)  # breaks
    nvb.KernelBuilder("k", "sm_90", threads=128, cluster=2)  # keeps


@kernel("instruction.variant")
def vote_of_no_kind(k, out: nvb.Pointer[i32]):
    k.warp.vote("most", k.lane_id() == 0)  # breaks
    k.warp.vote("any", k.lane_id() == 0)  # keeps


@program("fragment.range")
def thread_that_is_not_there():
    fragments.accumulator_position(128, 0)  # breaks
    fragments.accumulator_position(127, 0)  # keeps


@program("fragment.type")
def fragment_of_four_bits():
    fragments.a_position(0, 0, 4)  # breaks
    fragments.a_position(0, 0, 8)  # keeps


@program("row.axis")
def fence_of_a_space_without_one():
    sync.fence_proxy_async("local")  # breaks
    sync.fence_proxy_async("global")  # keeps


@program("row.operand")
def immediate_without_values():
    nvb.rows.immediate("count", ())  # breaks
    nvb.rows.immediate("count", range(1, 9))  # keeps


@kernel("row.emulated", "sm_90a")
def mma_sync_in_fp8(k):
    request = nvb.mma.sync("m16n8k32", e4m3, e4m3, f32)  # breaks
    request = nvb.mma.sync("m16n8k16", f16, f16, f32)  # keeps
    k.mma.sync(request, [0] * 4, [0] * 2, [0.0] * 4)
