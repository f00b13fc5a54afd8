"""What can be wrong with a copy when it runs: its map, its place, its size."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

NOT_A_MAP = Rule(
    id="simulator.tensor-map",
    message="{what} at {address:#x} uses a tensor map that is not one: {problem}",
    fix="pass nvb.TensorMap(...).bind(array) for the parameter, and give the instruction the parameter's address",
    why="The copy engine reads 128 bytes as a tensor map whatever they hold: an illegal instruction, or other memory.",
    reference="PTX ISA 5.5.8 (Tensor-map)",
)
MAP_FIELD = Rule(
    id="simulator.tensor-map-field",
    message="tensormap.replace of {field}{ordinal} with {value}: {problem}",
    fix="give {needs}",
    why="The copy engine reads a map whose fields it does not check: an illegal instruction, or other memory.",
    reference="PTX ISA 9.7.9 (tensormap.replace)",
)
COPY_PLACE = Rule(
    id="simulator.tma-place",
    message="{what}: {problem}",
    fix="{fix}",
    why="The GPU stops the kernel with CUDA_ERROR_ILLEGAL_INSTRUCTION, or copies other elements.",
    reference="PTX ISA 5.5.3 (tiled mode), 5.5.4 (im2col mode), 9.7.9 (cp.async.bulk.tensor)",
)
COPY_SIZE = Rule(
    id="simulator.copy-size",
    message="{what}: {problem}",
    fix="{fix}",
    why="The instruction is undefined for it: an illegal instruction, a misaligned address, or other bytes copied.",
    reference="PTX ISA 9.7.9 (cp.async, cp.async.bulk)",
)
NOT_MODELLED = Rule(
    id="simulator.not-modelled",
    message="{what}: {problem}",
    fix="{fix}",
    why="A guess would give numbers that no hardware gives.",
    reference="docs/architecture.md",
)
