"""Rules on sums whose parts several CTAs have."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_STORES = "PTX ISA 9.7.9 (st.async)"
_PHASES = "PTX ISA 9.7.13.15 (mbarrier phases)"

CLUSTER = Rule(
    id="reduce-scatter.cluster",
    message="k.cluster.reduce_scatter(...) in a kernel without a cluster",
    fix="declare it where the kernel is made: cluster=2; or leave the call out, and store acc.elements(...)",
    why="A CTA that is alone has all sums of its tile already.",
    reference="PTX ISA 5.1.2 (clusters)",
)
TILE = Rule(
    id="reduce-scatter.tile",
    message="{size} CTAs cannot share the sums of a tile of {rows} x {columns}: {problem}",
    fix="{advice}",
    why="Each thread keeps the columns of one part in whole registers, the same ones in every CTA.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)
ACCUMULATOR = Rule(
    id="reduce-scatter.accumulator",
    message="send(...) of {given}: the sums are {rows} x {columns} of {element}{held}",
    fix="send an accumulator of the tiled MMA that k.cluster.reduce_scatter got, or elements of it of this type",
    why="The other CTAs wait for as many bytes as such an accumulator has.",
    reference=_STORES,
)
THREADS = Rule(
    id="reduce-scatter.threads",
    message="{call} is executed by {count} threads; the sums are of {threads}",
    fix="let all warpgroups of the tiled MMA execute it together, and no other thread",
    why="The other CTAs wait for what each of these threads sends: with fewer they hang, with more they go on early.",
    reference=_PHASES,
)
NOT_READY = Rule(
    id="reduce-scatter.not-ready",
    message="send(...) to CTAs that may not have started: no barrier of the cluster follows the call of reduce_scatter",
    fix="call k.mbarrier.ready() after k.cluster.reduce_scatter(...), before the sums are sent",
    why="The stores would go to a CTA that is not running yet, or complete on an mbarrier that is not initialised.",
    reference="PTX ISA 9.7.13.3 (barrier.cluster), 9.7.13.4 (fence.mbarrier_init)",
)
ONCE = Rule(
    id="reduce-scatter.once",
    message="{call} {problem}",
    fix="{advice}",
    why="A place is written once, and the mbarrier has one phase: a second store may come before the first is read.",
    reference=_PHASES,
)
NOT_READ = Rule(
    id="reduce-scatter.not-read",
    message="the sums that are sent here are never read: sums() does not follow",
    fix="call sums() in the same threads after send(...), and store what it gives",
    why="A CTA that does not wait for the others may end while they send to its shared memory; and what they send is "
    "in no result.",
    reference="PTX ISA 9.7.13.3 (barrier.cluster: shared memory of a CTA that has ended)",
)
ORDER = Rule(
    id="reduce-scatter.order",
    message="own_first=True, and nothing asks in which order this CTA multiplies the tile's columns",
    fix="load the right operand part by part, from the columns that parts() gives; or leave own_first out",
    why="The first registers of a thread count as the CTA's own columns, and sums of other columns would be added.",
    reference="docs/guide.md, A depth for several CTAs",
)

_FLAGS = "PTX ISA 9.7.13.14 (atom.cas), 8.4 (release and acquire patterns)"

COUNT = Rule(
    id="shares.count",
    message="k.stream_k divides the steps of all tiles into shares, and {problem}",
    fix="{advice}",
    why="With no step nothing would be stored; numbers of steps have 32 bits, and larger ones wrap.",
    reference="docs/guide.md, Equal shares of all steps",
)
STREAM_CLUSTER = Rule(
    id="shares.cluster",
    message="k.stream_k numbers clusters along x, and those of this kernel are {shape}",
    fix="declare the cluster along x, such as cluster=2, and start a grid along x",
    why="CTAs of two clusters would have the same share, and store to one place.",
    reference="docs/guide.md, Equal shares of all steps",
)
PARTED = Rule(
    id="shares.parted",
    message="{what} not the same in all {whom} that share the steps of tiles",
    fix="{advice}",
    why="Each CTA finds the steps, the sums and the flags of the others by the same numbers and addresses as its own.",
    reference="docs/guide.md, Equal shares of all steps",
)
MEMORY = Rule(
    id="shares.memory",
    message="partial sums have {given}",
    fix="{advice}",
    why="Each CTA leaves its accumulator there as it is, and raises a flag that the others set back by atom.cas.",
    reference=_FLAGS,
)
STREAM_THREADS = Rule(
    id="shares.threads",
    message="{count} threads cannot leave and add partial sums of {size} threads",
    fix="{advice}",
    why="The threads of a group wait for each other, and each of them leaves and adds its part.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)
NOT_CLEARED = Rule(
    id="shares.not-cleared",
    message="the products of a piece are added to what the piece before has left in {accumulator}",
    fix="call acc.clear() in the block of share.pieces(), before the piece's first mma",
    why="A CTA has pieces of several tiles, and only the first mma after a clear overwrites the accumulator.",
    reference="PTX ISA 9.7.15.5 (wgmma.mma_async, scale-d)",
)
PIECE = Rule(
    id="shares.piece",
    message="sums.whole(acc, piece) {problem}",
    fix="{advice}",
    why="Another CTA waits for each piece once: one that is left out leaves it waiting, and one that is left twice "
    "overwrites what it may not have read.",
    reference=_FLAGS,
)
