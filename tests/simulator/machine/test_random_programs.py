"""Random programs of two warps: exchange between lanes, votes, matches, reductions, and integer instructions on bits.

Each instruction is drawn, written as PTX, and done lane by lane on Python's integers by PTX ISA's pseudo-code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from nvbackend.simulator.scalar import find
from tests.simulator.calls.bodies import run
from tests.simulator.scalar.integer_meaning import meanings, signed
from tests.simulator.scalar.operands import width_of

WARP, THREADS, REGISTERS, LENGTH = 32, 64, 6, 30
ALL = 0xFFFFFFFF
FAMILIES = ("shfl", "vote", "match", "redux", "word", "word", "atom")
VALUES = (0, 1, 2, 31, 32, 255, 0x7FFFFFFF, 0x80000000, ALL)
SCRATCH = 4
"""Words of shared memory that atomics go to."""


def _words() -> dict[str, Callable[..., int]]:
    """Instructions on words of 32 bits alone."""
    found = {}
    for opcode, meaning in meanings().items():
        pure = find(tuple(opcode.split(".")))
        assert pure is not None
        kinds = [*pure.operands, *pure.results]
        is_signed_division = opcode.startswith(("div", "rem"))  # by 0 it is what a chip makes of it
        if not is_signed_division and "pred" not in kinds and "cc" not in kinds and {*map(width_of, kinds)} == {32}:
            found[opcode] = meaning
    return found


WORDS = _words()


class Program:
    """The text so far, and what the registers of each thread hold after it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.registers = [[self._value() for _ in range(REGISTERS)] for _ in range(THREADS)]
        self.scratch = [[self._value() for _ in range(SCRATCH)] for _ in range(THREADS // WARP)]
        self.start = np.array(self.registers, np.uint32), np.array(self.scratch, np.uint32)
        self.lines: list[str] = []
        for _ in range(LENGTH):
            self._draw()

    def _value(self) -> int:
        return int(self.rng.choice(VALUES)) if self.rng.random() < 0.3 else int(self.rng.integers(0, 1 << 32))

    def _pick(self, *choices: str) -> str:
        return str(self.rng.choice(choices))

    def _draw(self) -> None:
        """One instruction, for all lanes of each warp or for those of a mask."""
        mask = ALL if self.rng.random() < 0.5 else int(self.rng.integers(1, 1 << 32))
        members = [lane for lane in range(WARP) if mask >> lane & 1]
        target, *sources = (int(one) for one in self.rng.integers(0, REGISTERS, 5))
        family = self._pick(*FAMILIES)
        drawn = getattr(self, f"_{family}")(mask, members, target, sources)
        if drawn is None:
            return
        text, change = drawn
        for first in range(0, THREADS, WARP):
            warp = self.registers[first : first + WARP]
            new = {lane: change(first // WARP, warp, lane) for lane in members}
            for lane, value in new.items():
                if value is not None:
                    warp[lane][target] = value & ALL
        number = len(self.lines)
        guard = f"shr.u32 %r4, {mask}, %r3; and.b32 %r4, %r4, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra L{number};"
        self.lines.append(f"{guard}\n{text}\nL{number}: bar.warp.sync -1;")

    def _shfl(self, mask, members, target, sources):
        mode, a = self._pick("idx", "up", "down", "bfly"), sources[0]
        b, width = int(self.rng.integers(0, 32)), int(self.rng.choice([32, 16, 8, 2]))
        c = (32 - width) << 8 | (0 if mode == "up" else 31)

        def lane_read(lane):
            clamp, segment = c & 31, c >> 8 & 31
            high, low = (lane & segment) | (clamp & ~segment), lane & segment
            source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}[mode]
            inside = source >= high if mode == "up" else source <= high
            return (source if inside else lane), inside

        if any(lane_read(lane)[0] not in members for lane in members):
            return None
        text = f"shfl.sync.{mode}.b32 %r{10 + target}|%p2, %r{10 + a}, {b}, {c}, {mask};"
        text += f"@!%p2 not.b32 %r{10 + target}, %r{10 + target};"

        def change(_number, warp, lane):
            source, inside = lane_read(lane)
            return warp[source][a] if inside else ~warp[source][a]

        return text, change

    def _vote(self, mask, members, target, sources):
        mode, a = self._pick("all", "any", "uni", "ballot"), sources[0]
        start = f"and.b32 %r5, %r{10 + a}, 1; setp.ne.u32 %p2, %r5, 0;"
        if mode == "ballot":
            text = f"{start} vote.sync.ballot.b32 %r{10 + target}, %p2, {mask};"
        else:
            text = f"{start} vote.sync.{mode}.pred %p3, %p2, {mask}; selp.u32 %r{10 + target}, 1, 0, %p3;"

        def change(_number, warp, _lane):
            votes = {lane: warp[lane][a] & 1 for lane in members}
            if mode == "ballot":
                return sum(one << lane for lane, one in votes.items())
            every, some = all(votes.values()), any(votes.values())
            return int({"all": every, "any": some, "uni": every or not some}[mode])

        return text, change

    def _match(self, mask, members, target, sources):
        mode, a = self._pick("any", "all"), sources[0]
        start = f"and.b32 %r5, %r{10 + a}, 3;"
        if mode == "any":
            text = f"{start} match.any.sync.b32 %r{10 + target}, %r5, {mask};"
        else:
            text = f"{start} match.all.sync.b32 %r{10 + target}|%p2, %r5, {mask};"
            text += f"@%p2 add.u32 %r{10 + target}, %r{10 + target}, 1;"

        def change(_number, warp, lane):
            equal = [one for one in members if warp[one][a] & 3 == warp[lane][a] & 3]
            if mode == "any":
                return sum(1 << one for one in equal)
            return mask + 1 if equal == members else 0

        return text, change

    def _redux(self, mask, members, target, sources):
        kind, a = (
            self._pick(
                "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"
            ),
            sources[0],
        )
        name, _, of = kind.partition(".")
        text = f"redux.sync.{name}.{of} %r{10 + target}, %r{10 + a}, {mask};"

        def change(_number, warp, _lane):
            values = [warp[lane][a] for lane in members]
            values = [signed(one, 32) for one in values] if of == "s32" else values
            if name in ("and", "or", "xor"):
                return int(
                    {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name].reduce(
                        np.array(values, np.uint32)
                    )
                )
            return {"add": sum, "min": min, "max": max}[name](values)

        return text, change

    def _word(self, _mask, _members, target, sources):
        opcode = self._pick(*WORDS)
        count = len(find(tuple(opcode.split("."))).operands)
        chosen = sources[:count]
        if opcode == "fns.b32":
            return None
        text = f"{opcode} {', '.join(f'%r{10 + one}' for one in (target, *chosen))};"
        return text, lambda _number, warp, lane: WORDS[opcode](*(warp[lane][one] for one in chosen))

    def _atom(self, _mask, members, target, sources):
        """The order of lanes is open: what is in memory afterwards counts, and nothing comes back."""
        kind, (a, place) = (
            self._pick("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32"),
            sources[:2],
        )
        name, _, of = kind.partition(".")
        text = (
            f"and.b32 %r5, %r{10 + place}, {SCRATCH - 1}; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r6;"
            f"{'or.b32 %r7, %r' + str(10 + a) + ', 0x40000000;' if name == 'inc' else f'mov.b32 %r7, %r{10 + a};'}"
            f"red.shared.{name}.{of} [%r5], %r7;"
        )
        if name == "inc" and any(one > 0x40000000 - THREADS for each in self.scratch for one in each):
            return None

        def change(number, warp, lane):
            at, value = warp[lane][place] & (SCRATCH - 1), warp[lane][a]
            old = self.scratch[number][at]
            if name in ("min", "max") and of == "s32":
                new = {"min": min, "max": max}[name](signed(old, 32), signed(value, 32))
            else:
                new = {
                    "add": old + value,
                    "max": max(old, value),
                    "and": old & value,
                    "or": old | value,
                    "xor": old ^ value,
                    "inc": old + 1,
                }[name]
            self.scratch[number][at] = new & ALL

        return text, change


def simulated(program: Program, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What the registers and the words of shared memory hold in the simulator."""
    registers, scratch = (one.copy() for one in program.start)
    moves = [f"[%rd3+{4 * place}], %r{10 + place};" for place in range(REGISTERS)]
    loads = [f"ld.global.u32 %r{10 + place}, [%rd3+{4 * place}];" for place in range(REGISTERS)]
    shared = " ".join(
        f"ld.global.u32 %r8, [%rd4+{4 * one}]; st.shared.u32 [%r6+{4 * one}], %r8;" for one in range(SCRATCH)
    )
    back = " ".join(
        f"ld.shared.u32 %r8, [%r6+{4 * one}]; st.global.u32 [%rd4+{4 * one}], %r8;" for one in range(SCRATCH)
    )
    body = "\n".join(
        [
            f"and.b32 %r3, %r0, 31; mul.wide.u32 %rd2, %r0, {4 * REGISTERS}; add.u64 %rd3, %rd0, %rd2;",
            f"shr.u32 %r9, %r0, 5; mad.lo.u32 %r6, %r9, {4 * SCRATCH}, %r1;",
            f"mul.wide.u32 %rd2, %r9, {4 * SCRATCH}; add.u64 %rd4, %rd1, %rd2;",
            *loads,
            f"setp.eq.u32 %p4, %r3, 0; @!%p4 bra START; {shared}\nSTART: bar.warp.sync -1;",
            *program.lines,
            *(f"st.global.u32 {one}" for one in moves),
            f"@!%p4 bra END; {back}\nEND:",
        ]
    )
    run(body, registers, scratch, threads=THREADS, seed=seed)
    return registers, scratch


def assert_right(seed: int) -> None:
    program = Program(seed)
    registers, scratch = simulated(program, seed % 3)
    assert np.array_equal(registers, np.array(program.registers, np.uint32))
    assert np.array_equal(scratch, np.array(program.scratch, np.uint32))


@pytest.mark.parametrize("seed", range(12))
def test_a_random_program(seed):
    assert_right(seed)


def test_programs_have_every_family():
    text = "".join(itertools.chain.from_iterable(Program(seed).lines for seed in range(12)))
    assert all(f"{one}." in text for one in ("shfl.sync", "vote.sync", "match", "redux", "red.shared", "prmt", "v"))


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("block", range(10))
def test_many_random_programs(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        assert_right(seed)
