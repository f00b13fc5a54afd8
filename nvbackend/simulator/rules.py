"""What a run can find wrong with a kernel or with its launch."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

UNKNOWN = Rule(
    id="simulator.unknown",
    message="line {line}: the simulator does not know {what}: {text}",
    fix="run the kernel on a GPU, or write the instruction in a form that the simulator knows",
    why="Passing over an instruction would give wrong numbers.",
    reference="PTX ISA 9.7 (Instructions)",
)
BOUNDS = Rule(
    id="simulator.bounds",
    message="{thread} {does} {size} bytes at {space} address {address}: {problem} (PTX line {line}: {text})",
    fix="keep the address inside the allocation, or guard the access",
    why="The hardware reads or overwrites what happens to be there, or ends the launch with an illegal address.",
    reference="PTX ISA 6.4.1 (Addresses as Operands)",
)
MISALIGNED = Rule(
    id="simulator.misaligned",
    message="{thread} {does} {size} bytes at {space} address {address}, which is not a multiple of {size} "
    "(PTX line {line}: {text})",
    fix="align the address to the {size} bytes of the access",
    why="The hardware ends the launch with a misaligned address.",
    reference="PTX ISA 6.4.1.1 (Address Operands: alignment)",
)
UNWRITTEN = Rule(
    id="simulator.unwritten",
    message="{thread} reads {size} bytes at {space} address {address}, which nothing has written "
    "(PTX line {line}: {text})",
    fix="write the memory before it is read, or guard the read",
    why="The hardware gives what an earlier kernel left there.",
    reference="PTX ISA 5.1.8 (Shared State Space)",
)
UNSET = Rule(
    id="simulator.unset",
    message="{thread} uses register {register}, which it has never set (PTX line {line}: {text})",
    fix="set the register on every path to this line: an accumulator to 0, or let its first multiply overwrite it",
    why="A register holds what the last code that had it left there.",
    reference="PTX ISA 5.1.1 (Register State Space)",
)
READ_ONLY = Rule(
    id="simulator.read-only",
    message="{thread} writes {size} bytes at {space} address {address}: {problem} (PTX line {line}: {text})",
    fix="write to memory that the kernel may write",
    why="Constants and kernel parameters are cached as read-only: the write is lost or ends the launch.",
    reference="PTX ISA 5.1.3 (Constant State Space), 5.1.6 (Parameter State Space)",
)
DEADLOCK = Rule(
    id="simulator.deadlock",
    message="no thread of {kernel} can go on: {waits}",
    fix="make sure that every thread and operation that a barrier counts arrives there",
    why="On the hardware the launch never ends.",
    reference="PTX ISA 9.7.13 (Parallel Synchronization and Communication Instructions)",
)
LIVELOCK = Rule(
    id="simulator.livelock",
    message="{kernel} never ends: threads repeat a loop, and all that decides where they go is the same each time "
    "({loops}); {reads}",
    fix="make the loop end: set the variable that its condition compares, or let another thread write what it reads",
    why="On the hardware the launch never ends.",
    reference="PTX ISA 9.7.12 (Control Flow Instructions)",
)
LIMIT = Rule(
    id="simulator.limit",
    message="{kernel} has not ended after {limit} instructions of the CTAs that run together: {where}",
    fix="look for a loop that does not end; launch with a higher limit= (--limit) where the kernel needs more",
    why="A launch that never ends says nothing; the limit says where its threads are.",
    reference="docs/simulator.md, Run any PTX",
)
STACK = Rule(
    id="simulator.stack",
    message="{thread} calls {function} {depth} calls deep (PTX line {line}); the stack of each of {threads} threads "
    "that run at once has {most} KB at most",
    fix="let the recursion of {function} end sooner, or write it as a loop",
    why="A thread has 512 KB of local memory at most, by default 1 KB of stack: the launch ends with an error.",
    reference="CUDA Programming Guide, Technical Specifications per Compute Capability (local memory per thread)",
)
TRAP = Rule(
    id="simulator.trap",
    message="{thread} runs into {what} (PTX line {line})",
    fix="find out why the kernel gets there",
    why="The hardware ends the launch with an error.",
    reference="PTX ISA 9.7.19 (Miscellaneous Instructions)",
)
ASSERTION = Rule(
    id="simulator.assertion",
    message="{thread}: the assertion {text!r} failed (PTX line {line})",
    fix="find out why the condition does not hold there",
    why="The hardware prints it and ends the launch with an error.",
    reference="CUDA C++ Programming Guide, Assertion",
)
ASKED_AGAIN = Rule(
    id="simulator.asked-again",
    message="{thread} asks for another cluster by try_cancel (PTX line {line}), and its warp has read an answer that "
    "none is left",
    fix="leave the loop at the first such answer: k.break_if(~canceled), before the next try_cancel",
    why="If a CTA has seen a request fail and asks again, the result is undefined.",
    reference="PTX ISA 9.7.13 (clusterlaunchcontrol.try_cancel)",
)
NO_CLUSTER = Rule(
    id="simulator.no-cluster",
    message="{thread} executes {what} in a kernel that is launched without a cluster",
    fix="launch in clusters, of one CTA if there are no peers: .explicitcluster .reqnctapercluster 1, 1, 1 in the PTX, "
    "or the launch attribute of the cluster's dimensions: here cluster=(1, 1, 1), or --cluster 1 on the command line",
    why="The hardware ends the launch with an illegal instruction, also where the address is the CTA's own.",
    reference="docs/divergences.md, mbarriers and clusters",
)
LAUNCH = Rule(
    id="simulator.launch",
    message="{kernel} cannot be launched: {problem}",
    fix="{advice}",
    why="The driver refuses the launch, or the kernel reads arguments that are not there.",
    reference="CUDA driver API, cuLaunchKernelEx",
)
NOT_KEPT = "it has not been kept"
"""Of what a report has where the launch was asked for it."""
REPORT = Rule(
    id="simulator.report",
    message="no {what} of {kernel}: {problem}",
    fix="launch it with report=True{more}",
    why="Recording a run takes time, so it is done only on request, and only for the first cluster.",
    reference="docs/simulator.md, The report of a launch",
)
STEP = Rule(
    id="simulator.step",
    message="{kernel}: {problem}",
    fix="before its end, ask for what it has: its CTAs, warps, variables and bytes",
    why="Only a launch that runs has registers, memory and barriers, and only its own.",
    reference="nvbackend.simulator.SteppedLaunch",
)
