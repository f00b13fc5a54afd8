"""Descriptors that a program packs by itself: their constant bits are decoded and checked like those of a tile."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import InstructionDescriptor, Parameter, Pointer, Scalar, f16, f32, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.value_tracking.addresses.places import Places, word_of
from nvbackend.builder.value_tracking.expressions.bits import Bits
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.isel.machine.function import MemoryUse

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True)
HALF = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
FIFTH = nvb.Tcgen05Request("f16")
HOPPER = 1 << 62 | 64 << 32 | 1 << 16
"""LBO 16, SBO 1024, swizzle of 128 bytes, each field put in its place by hand."""
BLACKWELL = 2 << 61 | 1 << 46 | 64 << 32 | 1 << 16
RESERVED = 1 << 60
ADDRESS = 0x3FFFF


class Scene:
    """A tile's address, an mma of either generation that reads it, and a run-time number."""

    def __init__(self, target):
        parameters = [Parameter("number", Scalar(u32)), Parameter("word", Scalar(u64)), Parameter("out", Pointer(u32))]
        self.k = KernelBuilder("kernel", target, threads=128, parameters=parameters)
        self.number, self.word, self.out = self.k.arguments
        self.memory = self.k.shared(u32, 4096, align=1024, name="memory")
        self.address = (self.memory.bytes & ADDRESS) >> 4
        if target == "sm_90a":
            self.a, self.acc = self.k.wgmma.fragment([self.k.const(0, u32)] * 4, f16), self.k.wgmma.accumulator(64)

    def multiply(self, descriptor):
        """One wgmma or tcgen05.mma with this descriptor as B; what the machine form says of it."""
        if self.k.target.number == 90:
            with self.k.wgmma.group():
                self.k.wgmma.mma_async(self.acc, self.a, descriptor, REQUEST)
        else:
            self.k.tcgen05.mma(FIFTH, 0, 0, descriptor, HALF, accumulate=False)
        return next(one for one in self.k.machine.instructions() if "b_desc" in one.operands)


def test_a_word_all_of_whose_bits_are_known_is_a_constant():
    s, bits = Scene("sm_100a"), Bits()
    for word in (0, 1, 0x8100490, (1 << 32) - 1):
        assert word_of(((s.number ^ s.number) | word).ir, bits, whole=True) == word
        assert word_of(s.k.const(word, u32).ir, bits, whole=True) == word
    assert word_of((s.number & 1 | 0x8100490).ir, bits, whole=True) is None


PACKED = {
    "or": lambda s, word: s.address.to(u64) | word,
    "sum": lambda s, word: s.address.to(u64) + word,
    "or of its parts": lambda s, word: s.address.to(u64) | (word & ADDRESS) | (word & ~ADDRESS),
    "advanced": lambda s, word: (s.address.to(u64) | word) + 2,
    "advanced by a run-time number": lambda s, word: (s.address.to(u64) | word) + s.number.to(u64),
    "advanced by a sum": lambda s, word: (s.address.to(u64) | word) + (s.number.to(u64) + (s.number * 3).to(u64)),
    "advanced twice": lambda s, word: (s.address.to(u64) | word) + s.number.to(u64) + (s.number * 3).to(u64),
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=list(PACKED))
@pytest.mark.parametrize(("target", "word"), [("sm_90a", HOPPER), ("sm_100a", BLACKWELL)])
def test_the_constant_bits_are_known(target, word, packed):
    s = Scene(target)
    assert s.multiply(packed(s, word)).words["b_desc"] == word


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_of_other_words_nothing_is_said(target):
    for descriptor in (
        lambda s: s.word,
        lambda s: s.word | HOPPER,
        lambda s: s.number.to(u64) << 20 | HOPPER,
        lambda s: s.k.const(64, u64),
    ):
        s = Scene(target)
        assert "b_desc" not in s.multiply(descriptor(s)).words


@pytest.mark.parametrize("bit", range(64))
def test_a_word_is_known_where_all_bits_above_the_address_are(bit):
    """Bits 0 to 13 have the address, and a carry of it may reach 14 and 15; the fields of strides begin at 16."""
    s, bits = Scene("sm_90a"), Bits()
    number, rest = s.number.to(u64), HOPPER & ~(1 << bit)
    either = (number << bit if bit < 32 else number << 32 << bit - 32) & 1 << bit | rest
    known = word_of(either.ir, bits, whole=False)
    assert known == (None if bit >= 16 else rest & ~0x3FFF)
    assert word_of((either + s.address.to(u64)).ir, bits, whole=False) == known
    assert word_of(s.k.const(1 << bit, u64).ir, bits, whole=False) == (None if bit < 16 else 1 << bit)
    assert word_of(s.k.const(1 << bit, u64).ir, bits, whole=True) == 1 << bit


@pytest.mark.parametrize("made", ["or", "add"])
def test_a_word_that_is_packed_of_ever_so_many_parts(made):
    """Of few parts the place is known; with thousands nothing is, and nothing breaks."""
    for length in (1, 5, 3000):
        s, places = Scene("sm_90a"), Places()
        places.addresses[s.memory.bytes.ir] = places.allocate("memory", 4096, 4)
        word, llvm = s.address.to(u64).ir, s.k.core.llvm
        for _ in range(length):
            word = getattr(llvm, {"or": "or_"}.get(made, made))(word, ir.Constant(word.type, 1 << 32))
        found = places.of_descriptor(word)
        assert (found is None) is (length > 100)
        assert found is None or (found.object.name, found.offset) == ("memory", 0)


@pytest.mark.parametrize(
    ("packed", "offset"), [("or", 0), ("sum", 0), ("or of its parts", 0), ("advanced", 32)], ids=str
)
def test_the_place_is_known_too(packed, offset):
    s = Scene("sm_90a")
    (touch,) = (one for one in s.multiply(PACKED[packed](s, HOPPER)).memory if one.operand == "b_desc")
    assert (touch.object.name, touch.use, touch.offset) == ("memory", MemoryUse.ASYNC_READ, offset)


@pytest.mark.parametrize(("advanced", "offset"), [(0, 0), (2, 32)])
def test_the_place_is_known_of_a_made_descriptor_with_a_bit_more(advanced, offset):
    s = Scene("sm_100a")
    made = s.k.tcgen05.smem_descriptor(s.memory, nvb.Tcgen05SmemDescriptor.decode(BLACKWELL))
    (touch,) = (one for one in s.multiply((made + advanced) | 1 << 49).memory if one.operand == "b_desc")
    assert (touch.object.name, touch.offset) == ("memory", offset)


@pytest.mark.parametrize(
    ("target", "word", "rule"),
    [
        ("sm_90a", HOPPER | RESERVED, "descriptor.reserved-bits"),
        ("sm_90a", HOPPER | 1 << 14, "descriptor.reserved-bits"),
        ("sm_100a", BLACKWELL | 1 << 53, "descriptor.reserved-bits"),
        ("sm_100a", BLACKWELL ^ 1 << 46, "descriptor.range"),
        ("sm_100a", BLACKWELL | 7 << 61, "descriptor.range"),
        ("sm_100a", HOPPER, "descriptor.range"),
    ],
)
def test_bits_without_a_meaning_are_found(target, word, rule):
    s = Scene(target)
    s.multiply(s.address.to(u64) | word)
    with pytest.raises(nvb.DiagnosticError) as caught:
        s.k.finish()
    (found,) = [one for one in caught.value.diagnostics if one.rule_id.startswith("descriptor.")]
    assert found.rule_id == rule
    assert found.location.function == "multiply"


def test_the_source_of_a_copy_to_tensor_memory():
    s = Scene("sm_100a")
    s.k.tcgen05.cp(0, s.address.to(u64) | BLACKWELL | 1 << 53, "128x256b")
    with pytest.raises(nvb.DiagnosticError) as caught:
        s.k.finish()
    assert "descriptor.reserved-bits" in [one.rule_id for one in caught.value.diagnostics]


def test_words_of_an_instruction_that_is_given_as_a_row():
    row = tcgen05.mma("f16")
    for change, expected in ((0, []), (1 << 29, ["descriptor.reserved-bits"])):
        s = Scene("sm_100a")
        given = {"d": 0, "a_desc": 0, "b_desc": s.address.to(u64) | BLACKWELL, "enable_d": False}
        s.k.instruction(row, **given, idesc=HALF.encode() | change)
        instr = next(one for one in s.k.machine.instructions() if one.opcode == row.opcode)
        assert instr.words["b_desc"] == BLACKWELL
        try:
            found = s.k.finish().diagnostics
        except nvb.DiagnosticError as error:
            found = error.diagnostics
        assert [one.rule_id for one in found if one.rule_id.startswith("descriptor.")] == expected
        assert "tcgen05.no-control-word" not in [one.rule_id for one in found]
