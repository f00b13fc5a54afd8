"""Small modules in LLVM IR, written by hand."""

from __future__ import annotations

SCALE = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define ptx_kernel void @scale(ptr addrspace(1) %data, float %factor) "nvvm.maxntid"="128" {
entry:
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %variable = alloca float
  %place = getelementptr float, ptr addrspace(1) %data, i32 %thread
  %before = load float, ptr addrspace(1) %place
  store float %before, ptr %variable
  %again = load float, ptr %variable
  %after = fmul float %again, %factor
  store float %after, ptr addrspace(1) %place
  ret void
}
"""

TCGEN05_FENCE = """
declare void @llvm.nvvm.tcgen05.fence.before.thread.sync()

define ptx_kernel void @fence() {
  call void @llvm.nvvm.tcgen05.fence.before.thread.sync()
  ret void
}
"""


def empty_kernel(triple: str = "") -> str:
    head = f'target triple = "{triple}"\n' if triple else ""
    return f"{head}define ptx_kernel void @k() {{\n  ret void\n}}\n"


def wgmma_loop(n: int = 256, chain: int = 4) -> str:
    """A main loop over m64nNk16 f16 mma, `chain` a step, whose accumulators are variables in memory (allocas)."""
    count = n // 2
    registers = ", ".join(f"${index}" for index in range(count))
    accumulators = ", ".join(["float"] * count)
    ties = [str(index) for index in range(count)]
    asm = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{registers}}}, ${count}, ${count + 1}, 1, 1, 1, 0, 0;"
    constraints = ",".join([*["=f"] * count, "l", "l", *ties, "~{memory}"])
    wait = ",".join([*["=f"] * count, *ties, "~{memory}"])
    lines = [
        "declare void @llvm.nvvm.wgmma.fence.sync.aligned()",
        "declare void @llvm.nvvm.wgmma.commit_group.sync.aligned()",
        'define ptx_kernel void @gemm(ptr addrspace(1) %out, i64 %a, i64 %b, i32 %n) "nvvm.maxntid"="128" {',
        "entry:",
        *(f"  %acc{index} = alloca float\n  store float 0.0, ptr %acc{index}" for index in range(count)),
        "  %step = alloca i32\n  store i32 0, ptr %step\n  br label %head",
        "head:",
        "  %now = load i32, ptr %step\n  %more = icmp slt i32 %now, %n\n  br i1 %more, label %body, label %exit",
        "body:\n  call void @llvm.nvvm.wgmma.fence.sync.aligned()",
    ]

    def call(name: str, text: str, how: str, operands: str) -> None:
        values = ", ".join(f"float %{name}in{index}" for index in range(count))
        lines.extend(f"  %{name}in{index} = load float, ptr %acc{index}" for index in range(count))
        lines.append(f'  %{name} = call {{{accumulators}}} asm sideeffect "{text}", "{how}"({operands}{values}) #0')
        for index in range(count):
            lines.append(f"  %{name}out{index} = extractvalue {{{accumulators}}} %{name}, {index}")
            lines.append(f"  store float %{name}out{index}, ptr %acc{index}")

    for link in range(chain):
        lines.append(f"  %a{link} = add i64 %a, {2 * link}\n  %b{link} = add i64 %b, {2 * link}")
        call(f"mma{link}", asm, constraints, f"i64 %a{link}, i64 %b{link}, ")
    lines.append("  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()")
    call("wait", "wgmma.wait_group.sync.aligned 0;", wait, "")
    lines.append("  %next = add i32 %now, 1\n  store i32 %next, ptr %step\n  br label %head\nexit:")
    for index in range(count):
        lines.append(f"  %end{index} = load float, ptr %acc{index}")
        lines.append(f"  %place{index} = getelementptr float, ptr addrspace(1) %out, i32 {index}")
        lines.append(f"  store float %end{index}, ptr addrspace(1) %place{index}")
    lines.append("  ret void\n}\nattributes #0 = { convergent nounwind }")
    return "\n".join(lines)
