"""Rules on rings and roles: their stages, who fills and reads them, and whose registers they are."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

RING = Rule(
    id="pipeline.stages",
    message="a ring of {stages} stage(s){problem}; {because}",
    fix="{advice}",
    why="A stage is filled while another is read, and given back when nothing reads it any more.",
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
RING_TILES = Rule(
    id="pipeline.tiles",
    message="a ring has {given}",
    fix="give each tile a name other than {taken}, and its layout: k.pipeline(3, 1, a=mma.smem_a(64))",
    why="A stage has its tiles by their names, and no bytes would ever arrive in one that has none.",
    reference="docs/guide.md, A ring",
)
RING_BYTES = Rule(
    id="pipeline.bytes",
    message="{given} for tile {name} of a ring: {problem}",
    fix="{advice}",
    why="Bulk copies move multiples of 16 bytes; bytes that are announced and never come leave the stage waiting.",
    reference="PTX ISA 9.7.9 (cp.async.bulk, size)",
)
RING_APART = Rule(
    id="pipeline.apart",
    message="apart={given} of a ring of {tiles}: {problem}",
    fix="name each tile once, alone or in a tuple with those that it is released with; or give apart=True",
    why="A tile in no part would have no barriers, and one in two parts would be released twice.",
    reference="docs/guide.md, A ring",
)
RING_PARTS = Rule(
    id="pipeline.parts",
    message="ring.{call} of a ring whose parts are released apart: {parts}",
    fix="use one of its parts, such as ring.{first}.drain()",
    why="Each part has barriers and a place in the ring of its own.",
    reference="docs/guide.md, A ring",
)
RING_CONSUMERS = Rule(
    id="pipeline.consumers",
    message="the ring waits for {given}, and {there} drain it",
    fix="make it with k.pipeline(stages{advice}, ...)",
    why="A stage is free when every consumer has arrived: with one too many it never is.",
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
RING_ROLE = Rule(
    id="pipeline.role",
    message="ring.{call}() is for {who}, and is in {block}",
    fix="fill in `with k.producer(...)` or `with k.one_thread()`; drain in `with k.consumers(...)`; feed tcgen05 in "
    "`with k.one_thread()`",
    why="The arrivals would be counted wrongly, and the other side would wait forever or not at all.",
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
RING_IN_FLIGHT = Rule(
    id="pipeline.in-flight",
    message="{call} gives back {stage}, which the {reader}{line} may still be reading: "
    "the wait leaves its group in flight",
    fix="{advice}",
    why="The producer fills the stage again while the tensor core reads it, and the sums have parts of another step.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group), 9.7.13.15 (mbarrier phases)",
)
RING_NOT_READY = Rule(
    id="pipeline.not-ready",
    message="{call}() waits at mbarriers that no barrier has made visible since they were initialised",
    fix="call k.mbarrier.ready() after the last {made}(...), before {use}",
    why="A thread may wait at a barrier before it is initialised, and wait forever.",
    reference="PTX ISA 9.7.13.15 (mbarrier.init), 9.7.13.4 (fence.mbarrier_init)",
)
RING_TURN = Rule(
    id="pipeline.turn",
    message="{call} {problem}",
    fix="{advice}",
    why="Each stage is drained by one ping-pong consumer. Out of turn it would take the stage of another, or wait for "
    "a phase two ahead of the one in progress, which a parity cannot tell from the last one.",
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
ROLES = Rule(
    id="pipeline.roles",
    message="a producer and its consumers are whole warpgroups of {warpgroup} threads; the kernel has {threads}",
    fix="use a multiple of {warpgroup} threads, at least {least}",
    why="setmaxnreg moves registers between whole warpgroups, and one of them has to consume.",
    reference="PTX ISA 9.7.19 (setmaxnreg)",
)
ROLE_REGISTERS = Rule(
    id="pipeline.registers",
    message="a producer with {producer} and {consumers} consumer warpgroup(s) with {registers} registers a thread want "
    "{wanted} registers; the CTA is launched with {pool}",
    fix="give the consumers {most} at most, or the producer fewer",
    why="setmaxnreg.inc waits until there are enough registers, which would be never.",
    reference="PTX ISA 9.7.19 (setmaxnreg)",
)
