"""What the dry run computes: values that something needs, once, and before loops what does not change in them."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.kernel.dry_run import subject_of
from nvbackend.dry_run.program.code import CodeBlock, Program
from nvbackend.dry_run.subject import compiled


def _kernel(repeats: int, turns: int = 1) -> Program:
    """A loop that stores to `repeats` places at a distance from one that moves, which takes some `turns` to compute."""
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, parameters=[nvb.Parameter("n", i32)])
    words, t = k.shared(f32, 1 << 14), k.thread_id()
    with k.range(k.arguments[0]) as i:
        for number in range(repeats):
            place = t
            for _ in range(turns):
                place = (place * 5) ^ (t & 31)
            words[i * 128 + place + 8 * number] = 0.0
            k.barrier.sync()
    k.finish(check=False)
    return compiled(subject_of(k.core, k.signature))


def _inside(program: Program) -> list[CodeBlock]:
    return [block for block, around in zip(program.blocks, program.around, strict=True) if around]


def _operations(blocks: list[CodeBlock]) -> int:
    return sum(len(part.operations) for block in blocks for part in block.parts)


def test_a_loop_computes_only_what_changes_in_it() -> None:
    short, long = _kernel(1, turns=1), _kernel(1, turns=9)
    assert _operations(_inside(short)) == _operations(_inside(long)) > 0
    assert _operations(long.blocks) - _operations(short.blocks) == 2 * 8


def test_one_more_place_is_one_more_sum() -> None:
    few, many = (_operations(_inside(_kernel(repeats))) for repeats in (2, 12))
    assert many - few == 10


def test_what_nothing_needs_is_not_computed() -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, parameters=[nvb.Parameter("y", nvb.Pointer[f32])])
    t = k.thread_id()
    k.arguments[0][(t * 7 ^ 5) + t] = 0.0
    k.barrier.sync()
    k.finish(check=False)
    assert _operations(compiled(subject_of(k.core, k.signature)).blocks) == 0
