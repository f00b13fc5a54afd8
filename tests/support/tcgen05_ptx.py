"""tcgen05 instructions as PTX text, legal and not, written from the PTX ISA's grammar and not from the rows.

The neighbourhood of the mma is every instruction that the grammar's tables allow, and each of those with one choice
replaced by every other one; that of the rest is all its choices crossed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

DECLARATIONS = """
.reg .b64 a_desc, b_desc, zero_mask, source, pointer; .reg .b16 multicast_mask; .reg .pred enable_d;
.reg .b32 d, a, idesc, metadata, scale_a, scale_b, tmem, columns, lanes<8>, values<256>, reduced;
.reg .f32 fvalues<256>, freduced; .shared .align 16 .b64 cell[2];
mov.b64 a_desc, 0; mov.b64 b_desc, 0; mov.b64 zero_mask, 0; mov.b64 source, 0; mov.b64 pointer, 0;
mov.b32 d, 0; mov.b32 a, 0; mov.b32 idesc, 0; mov.b32 metadata, 0; mov.b32 scale_a, 0; mov.b32 scale_b, 0;
mov.b32 tmem, 0; mov.b32 columns, 32; mov.b16 multicast_mask, 1; setp.eq.s32 enable_d, d, 0;
""".replace("\n", " ")
"""Registers for every operand below."""

BRACKETED = ("d", "a", "metadata", "scale_a", "scale_b", "tmem")
STAND_INS = {"scale_d": "5", "half_split": "3"}


class Instruction(NamedTuple):
    """A spelling with all qualifiers, and its operands in order: name and number of registers."""

    spelling: str
    operands: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """As a line of PTX over DECLARATIONS."""
        shared = "shared" in self.spelling
        return f"{self.spelling} {', '.join(self._written(name, count, shared) for name, count in self.operands)};"

    def _written(self, name: str, count: int, shared: bool) -> str:
        if name in BRACKETED and not (name == "tmem" and "dealloc" in self.spelling):
            return f"[{name}]"
        if name in ("address", "barrier"):
            return "[cell]" if shared else "[pointer]"
        if name in ("values", "lanes"):
            prefix = "f" if self.spelling.endswith(".f32") else ""
            return "{" + ", ".join(f"{prefix}{name}{index}" for index in range(count)) + "}"
        if name == "reduced" and self.spelling.endswith(".f32"):
            return "freduced"
        return STAND_INS.get(name, name)


DENSE = ("f16", "tf32", "f8f6f4", "i8")
VECTORS = {
    "mxf8f6f4": (None, "scale_vec::1X", "block32"),
    "mxf4": (None, "scale_vec::2X", "block32"),
    "mxf4nvf4": ("scale_vec::2X", "scale_vec::4X", "block16", "block32"),
}
A_USES = (None, "a::fill", "a::use", "a::lastuse", "a::discard")
B_USES = tuple(f"b{number}::{use}" for number in range(4) for use in ("fill", "use", "lastuse", "discard"))
BOTH = (False, True)
AXES: dict[str, tuple[Any, ...]] = {
    "kind": (*DENSE, *VECTORS, "f32"),
    "group": (1, 2, 4),
    "a_in_tmem": BOTH,
    "sparse": BOTH,
    "ws": BOTH,
    "block": BOTH,
    "vector": (None, "scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"),
    "ashift": BOTH,
    "collector": (*A_USES, "b0::fill", "b3::use"),
    "lanes": (0, 4, 8),
    "scaled": BOTH,
    "masked": BOTH,
}
"""Choices of an mma. `lanes` is the number of words of disable-output-lane, `masked` the zero-column mask."""
PLAIN = dict.fromkeys(AXES, False) | {"group": 1, "vector": None, "collector": None, "lanes": 0}


def mma(choice: dict[str, Any]) -> Instruction:
    """The instruction of a choice."""
    spelling = ["tcgen05.mma", "ws" if choice["ws"] else "", "sp" if choice["sparse"] else ""]
    spelling += [f"cta_group::{choice['group']}", f"kind::{choice['kind']}"]
    spelling += ["block_scale" if choice["block"] else "", choice["vector"] or "", "ashift" if choice["ashift"] else ""]
    spelling += [f"collector::{choice['collector']}" if choice["collector"] else ""]
    operands = [("d", 1), ("a" if choice["a_in_tmem"] else "a_desc", 1), ("b_desc", 1)]
    operands += [("metadata", 1)] if choice["sparse"] else []
    operands += [("idesc", 1)]
    operands += [("scale_a", 1), ("scale_b", 1)] if choice["block"] else []
    operands += [("lanes", choice["lanes"])] if choice["lanes"] else []
    operands += [("enable_d", 1)]
    operands += [("scale_d", 1)] if choice["scaled"] else []
    operands += [("zero_mask", 1)] if choice["masked"] else []
    return Instruction(".".join(filter(None, spelling)), tuple(operands))


def _documented() -> Iterator[dict[str, Any]]:
    for kind, group, a, sparse in itertools.product(DENSE, (1, 2), BOTH, BOTH):
        chosen = PLAIN | {"kind": kind, "group": group, "a_in_tmem": a, "sparse": sparse}
        scales = BOTH if kind in ("f16", "tf32") else (False,)
        for lanes, scaled, shift in itertools.product((0, 4 * group), scales, BOTH if a else (False,)):
            for use in (None, "a::lastuse", "a::discard") if shift else A_USES:
                yield chosen | {"lanes": lanes, "scaled": scaled, "ashift": shift, "collector": use}
    for kind, group, a, sparse, use in itertools.product(VECTORS, (1, 2), BOTH, BOTH, A_USES):
        chosen = PLAIN | {"kind": kind, "group": group, "a_in_tmem": a, "sparse": sparse, "collector": use}
        yield from (chosen | {"block": True, "vector": vector} for vector in VECTORS[kind])
    for kind, a, sparse, masked, use in itertools.product(DENSE, BOTH, BOTH, BOTH, (None, *B_USES)):
        chosen = PLAIN | {"kind": kind, "a_in_tmem": a, "sparse": sparse, "ws": True}
        yield chosen | {"masked": masked, "collector": use}


def mma_neighbourhood() -> list[Instruction]:
    """What the PTX ISA documents, and all that is one choice away from it, each once, in a fixed order."""
    found: dict[Instruction, None] = {}
    for choice in _documented():
        found[mma(choice)] = None
        for axis, values in AXES.items():
            found.update((mma(choice | {axis: value}), None) for value in values if _is_asked(choice, axis, value))
    return list(found)


def _is_asked(choice: dict[str, Any], axis: str, value: Any) -> bool:
    """A scale-input-d of a weight-stationary instruction is the same text as a zero-column mask."""
    after = choice | {axis: value}
    return not (after["ws"] and after["scaled"])


def is_undocumented(instruction: Instruction) -> bool:
    """What ptxas 13.5 takes although the PTX ISA says that it is not there, and no row has.

    scale-input-d is documented for kind::f16 and kind::tf32 alone (9.7.16.10.9.1); an integer has no such scale, and
    ptxas itself refuses it with both metadata and an output mask.
    """
    return "kind::i8" in instruction.spelling and ("scale_d", 1) in instruction.operands


SHAPES = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}
COUNTS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256)
COPIES = ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b", "64x256b")
REPEATS = ("", ".warpx2::02_13", ".warpx2::01_23", ".warpx4")
UNPACKED = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64", ".b6x16_p32", ".b8x16")


def memory_neighbourhood() -> list[Instruction]:
    """Allocation, loads, stores, waits, copies, shifts, commits and fences, all choices of each crossed."""
    return list(dict.fromkeys((*_moves(), *_reductions(), *_of_groups(), *_without_operands())))


def _moves() -> Iterator[Instruction]:
    for (shape, each), count in itertools.product(SHAPES.items(), COUNTS):
        registers = each * count
        if registers > 256:
            continue
        split = (("half_split", 1),) if shape == "16x32bx2" else ()
        for pack in ("", ".pack::16b", ".unpack::16b"):
            load = f"tcgen05.ld.sync.aligned.{shape}.x{count}{pack}.b32"
            yield Instruction(load, (("values", registers), ("tmem", 1), *split))
            store = f"tcgen05.st.sync.aligned.{shape}.x{count}{pack}.b32"
            yield Instruction(store, (("tmem", 1), *split, ("values", registers)))


def _reductions() -> Iterator[Instruction]:
    for (shape, each), count in itertools.product(SHAPES.items(), (1, 2, 16, 128)):
        split = (("half_split", 1),) if shape == "16x32bx2" else ()
        for operation, absolute, nan in itertools.product(("min", "max", "add"), ("", ".abs"), ("", ".NaN")):
            for kind in ("u32", "s32", "f32", "b32"):
                spelling = f"tcgen05.ld.red.sync.aligned.{shape}.x{count}.{operation}{absolute}{nan}.{kind}"
                if each * count <= 128:
                    yield Instruction(spelling, (("values", each * count), ("reduced", 1), ("tmem", 1), *split))


def _of_groups() -> Iterator[Instruction]:
    for group in (1, 2, 3):
        wide = f"cta_group::{group}.sync.aligned"
        for space in ("", ".shared::cta", ".shared::cluster"):
            yield Instruction(f"tcgen05.alloc.{wide}{space}.b32", (("address", 1), ("columns", 1)))
        yield Instruction(f"tcgen05.dealloc.{wide}.b32", (("tmem", 1), ("columns", 1)))
        yield Instruction(f"tcgen05.relinquish_alloc_permit.{wide}")
        for way in ("down", "up"):
            yield Instruction(f"tcgen05.shift.cta_group::{group}.{way}", (("tmem", 1),))
        for space, many in itertools.product(("", ".shared::cluster", ".shared::cta"), BOTH):
            cast, mask = (".multicast::cluster", (("multicast_mask", 1),)) if many else ("", ())
            spelling = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one{space}{cast}.b64"
            yield Instruction(spelling, (("barrier", 1), *mask))
        for shape, repeat, unpack in itertools.product(COPIES, REPEATS, UNPACKED):
            yield Instruction(f"tcgen05.cp.cta_group::{group}.{shape}{repeat}{unpack}", (("tmem", 1), ("source", 1)))


def _without_operands() -> Iterator[Instruction]:
    for name in ("ld", "st", "cp"):
        yield Instruction(f"tcgen05.wait::{name}.sync.aligned")
    for name in ("before_thread_sync", "after_thread_sync", "thread_sync"):
        yield Instruction(f"tcgen05.fence::{name}")
