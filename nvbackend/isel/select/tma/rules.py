"""The rules of what a TMA tensor copy may be: their texts. The gates that ask them are in `select`."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

TILEIRAS = "tileiras documents: TMA and im2col validation"
TARGET = Rule(
    id="tma.target",
    message="{target} has no TMA: {instruction} needs compute capability 9.0",
    fix="copy with cp.async and ordinary stores, or compile for sm_90a",
    why="LLVM ends the process where it cannot select the instruction.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5",
)
DIRECTION = Rule(
    id="tma.direction",
    message="a tensor copy has no direction {direction!r}",
    fix="use one of {directions}",
    why="Nothing can be selected for it.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor)",
)
MODE = Rule(
    id="tma.mode",
    message="a tensor {direction} has no mode {mode!r}",
    fix="use one of {modes}{meant}",
    why="ptxas refuses the qualifier, or takes it and documents nothing.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .load_mode; ptxas 13.5",
)
RANK = Rule(
    id="tma.rank",
    message="TMA rank must be in the range 1..5",
    fix="give a tensor map of 1 to 5 dimensions and one coordinate for each; {rank} were given",
    why="The instruction exists for these ranks only, and the rank is part of its spelling.",
    reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor); {TILEIRAS}",
)
IM2COL_RANK = Rule(
    id="tma.im2col-rank",
    message="im2col tensor copies require at least three dimensions",
    fix="use a tensor map of 3 to 5 dimensions (channels, space, batch) in mode {mode}; this one has {rank}",
    why="A patch lies along the dimensions between channels and batch.",
    reference=f"PTX ISA 5.5.4 (im2col mode); {TILEIRAS}",
)
ROWS_RANK = Rule(
    id="tma.rows-rank",
    message="{mode} copies four rows of a tensor of two dimensions, not of {rank}",
    fix="use a tensor map of two dimensions: one column and four rows are the coordinates",
    why="The instruction exists for two dimensions only, with five coordinates.",
    reference="PTX ISA 5.5.3 (tile::gather4 and tile::scatter4); ptxas 13.5",
)
DESTINATION = Rule(
    id="tma.destination",
    message="a load writes to shared memory of the cluster or of the cta, not of {destination!r}",
    fix='use "cluster", or "cta" where the kernel has no cluster',
    why="The destination is part of the instruction's spelling.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .dst",
)
MULTICAST = Rule(
    id="tma.multicast-form",
    message="multicast belongs to a load into shared::cluster, not to a {direction} with destination {destination!r}",
    fix='load with destination "cluster", or leave multicast out',
    why="No other form has a mask of CTAs, and every CTA would have to copy for itself.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .multicast",
)
CTA_GROUP = Rule(
    id="tma.cta-group",
    message="a tensor {direction} has no cta_group {group!r}",
    fix="use 1 or 2 for a load, and leave it out elsewhere",
    why="ptxas refuses the qualifier.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), .cta_group",
)
REDUCTION = Rule(
    id="tma.reduction",
    message="a tensor {direction} has no operation {operation!r}",
    fix="reduce with one of {operations}; other directions take none",
    why="The operation is part of the instruction's spelling.",
    reference="PTX ISA 9.7.9 (cp.reduce.async.bulk.tensor), .redOp",
)
MULTICAST_TARGET = Rule(
    id="tma.multicast-target",
    message="cluster multicast TMA requires a compatible SM target",
    fix="load without multicast, or compile for {instead}; {target} has no clusters",
    why="LLVM ends the process where it cannot select the instruction.",
    reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor); {TILEIRAS}",
)
WIDE_TARGET = Rule(
    id="tma.wide-im2col-target",
    message="wide im2col tensor copies are not supported on this architecture",
    fix="use mode im2col, or compile for {instead}; {target} has no {mode} with this destination",
    why="LLVM ends the process where it cannot select the instruction.",
    reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5; {TILEIRAS}",
)
ROWS_TARGET = Rule(
    id="tma.rows-target",
    message="{target} has no {mode} with this destination",
    fix="copy row by row in mode tile, or compile for {instead}",
    why="LLVM ends the process where it cannot select the instruction.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; ptxas 13.5",
)
TWO_CTA_TARGET = Rule(
    id="tma.two-cta-target",
    message="two-CTA TMA tensor copies are not supported on this architecture",
    fix="leave cta_group out, or compile for {instead}; {target} has no pairs of CTAs",
    why="LLVM ends the process where it cannot select the instruction.",
    reference=f"PTX ISA 9.7.9 (cp.async.bulk.tensor), Target ISA Notes; {TILEIRAS}",
)
PTX_VERSION = Rule(
    id="tma.ptx-version",
    message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="ptxas refuses the instruction, or LLVM ends the process.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), PTX ISA Notes; ptxas 13.5",
)
