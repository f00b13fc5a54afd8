"""Which mma instructions a chip has, and which ptxas expands: measured from the SASS of every variant and chip.

Every documented variant of `mma.sync`, `mma.sp` and `wmma.mma` is written here in a separate kernel, from the PTX ISA
(9.7.14) and without nvbackend's rows. It is assembled for each chip and disassembled. A variant is native if its SASS
has only MMA instructions of its own kind, no call, and one MMA where PTX has one (wmma tiles are several by design).
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nvbackend.codegen import find_disassembler, find_ptxas

CHIPS = (
    *("sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a"),
    *("sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f"),
    *("sm_120", "sm_120a", "sm_120f", "sm_121a", "sm_121f"),
)
PTX_VERSION = "9.0"
BITS = {
    **dict.fromkeys(("f64",), 64),
    **dict.fromkeys(("f32", "s32", "tf32"), 32),
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
    "b1": 1,
}
"""Bits of an element in registers; fp6 and fp4 take a byte but for the kinds of mxf4."""
PIPES = {
    **dict.fromkeys(("f16", "bf16", "tf32"), frozenset({"HMMA"})),
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), frozenset({"QMMA", "OMMA"})),
    **dict.fromkeys(("s8", "u8", "s4", "u4"), frozenset({"IMMA"})),
    "b1": frozenset({"BMMA"}),
    "f64": frozenset({"DMMA"}),
}
"""The SASS opcodes of the instruction's own kind, by the type of A."""
SMALL_FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")

_KERNEL_LINES = 4
_HEADER_LINES = 3
_REGISTERS = 24
_ERROR_LINE = re.compile(r"line (\d+); error")
_SECTION = re.compile(r"\s*\.section\s+(?:\.text\.k(\d+)\b)?")
_OPCODE = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][A-Z0-9]*)")


@dataclass(frozen=True, slots=True)
class Variant:
    """An instruction: its spelling with all qualifiers, the type of A, and its operands."""

    ptx: str
    a: str
    operands: str
    pieces: bool = False
    """Whether it is several MMA instructions even on chips that have it."""


def _vector(element: str, elements: int, bits: int | None = None) -> str:
    """The registers of a warp's fragment of this many elements."""
    kind = {"f32": "f", "f64": "d"}.get(element, "r")
    per_thread = elements * (bits or BITS[element]) // (64 * 32 if element == "f64" else 32 * 32)
    return "{" + ", ".join(f"%{kind}{index}" for index in range(max(1, per_thread))) + "}"


def mma(
    shape: tuple[int, int, int],
    types: str,
    *,
    form: str = "mma",
    before: str = "",
    after: str = "",
    nibbles: bool = False,
    scaled: bool = False,
) -> Variant:
    """`mma.sync` or `mma.sp` of types "d.a.b.c", with qualifiers before and after the types."""
    m, n, k = shape
    d, a, b, c = types.split(".")
    bits = 4 if nibbles else None
    stored = k // 2 if form != "mma" else k
    # m8n8k4 is four products of quads side by side.
    copies = 4 if (shape, a) == ((8, 8, 4), "f16") else 1
    operands = [
        _vector(d, copies * m * n),
        _vector(a, copies * m * stored, bits),
        _vector(b, copies * n * k, bits),
        _vector(c, copies * m * n),
    ]
    if form != "mma":
        operands += ["%r20", "0"]
    if scaled:
        operands += ["{%r21}, {0, 0}, {%r22}, {0, 0}"]
    ptx = f"{form}.sync.aligned.m{m}n{n}k{k}.row.col{before}.{types}{after}"
    return Variant(ptx, a, ", ".join(operands), pieces=copies > 1)


def _pairs(types: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.product(types, repeat=2)


def dense() -> Iterator[Variant]:
    """`mma.sync` without sparsity and block scale."""
    for types in ("f16.f16.f16.f16", "f32.f16.f16.f16", "f32.f16.f16.f32"):
        yield mma((8, 8, 4), types)
    for types in ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.bf16.bf16.f32"):
        yield from (mma((16, 8, k), types) for k in (8, 16))
    yield from (mma((16, 8, k), "f32.tf32.tf32.f32") for k in (4, 8))
    for shape in ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)):
        yield mma(shape, "f64.f64.f64.f64")
    for bits, names in ((8, ("s8", "u8")), (4, ("s4", "u4"))):
        for (a, b), saturate in itertools.product(_pairs(names), ("", ".satfinite")):
            for m, k in ((8, 128), (16, 128), (16, 256)):
                yield mma((m, 8, k // bits), f"s32.{a}.{b}.s32", before=saturate)
    for operation, (m, k) in itertools.product(("xor", "and"), ((8, 128), (16, 128), (16, 256))):
        yield mma((m, 8, k), "s32.b1.b1.s32", after=f".{operation}.popc")
    for (a, b), d, k in itertools.product(_pairs(("e4m3", "e5m2")), ("f16", "f32"), (16, 32)):
        yield mma((16, 8, k), f"{d}.{a}.{b}.{d}")
    for (a, b), d in itertools.product(_pairs(SMALL_FLOATS), ("f16", "f32")):
        yield mma((16, 8, 32), f"{d}.{a}.{b}.{d}", before=".kind::f8f6f4")


def sparse() -> Iterator[Variant]:
    """`mma.sp` and `mma.sp::ordered_metadata` without block scale."""
    for form in ("mma.sp", "mma.sp::ordered_metadata"):
        for types in ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.bf16.bf16.f32"):
            yield from (mma((16, 8, k), types, form=form) for k in (16, 32))
        yield from (mma((16, 8, k), "f32.tf32.tf32.f32", form=form) for k in (8, 16))
        for bits, names in ((8, ("s8", "u8")), (4, ("s4", "u4"))):
            for (a, b), k in itertools.product(_pairs(names), (256, 512)):
                yield mma((16, 8, k // bits), f"s32.{a}.{b}.s32", form=form)
        for (a, b), d in itertools.product(_pairs(("e4m3", "e5m2")), ("f16", "f32")):
            yield mma((16, 8, 64), f"{d}.{a}.{b}.{d}", form=form)
        for (a, b), d in itertools.product(_pairs(SMALL_FLOATS), ("f16", "f32")):
            yield mma((16, 8, 64), f"{d}.{a}.{b}.{d}", form=form, before=".kind::f8f6f4")


def block_scaled() -> Iterator[Variant]:
    """`mma.sync` with a scale for each block of A and B."""
    for a, b in _pairs(SMALL_FLOATS):
        kind = ".kind::mxf8f6f4.block_scale.scale_vec::1X"
        yield mma((16, 8, 32), f"f32.{a}.{b}.f32", before=kind, after=".ue8m0", scaled=True)
    for kind, blocks, scale in (("mxf4", "2X", "ue8m0"), ("mxf4nvf4", "2X", "ue8m0"), ("mxf4nvf4", "4X", "ue4m3")):
        before = f".kind::{kind}.block_scale.scale_vec::{blocks}"
        yield mma((16, 8, 64), "f32.e2m1.e2m1.f32", before=before, after=f".{scale}", nibbles=True, scaled=True)


def wmma() -> Iterator[Variant]:
    """`wmma.mma`."""

    def one(shape: tuple[int, int, int], spelled: str, types: str, doubled: int = 1, operation: str = "") -> Variant:
        m, n, k = shape
        d, a, b, c = types.split(".")
        sizes = ((d, m * n), (a, doubled * m * k), (b, doubled * n * k), (c, m * n))
        operands = ", ".join(_vector(element, elements) for element, elements in sizes)
        ptx = f"wmma.mma{operation}.sync.aligned.row.col.m{m}n{n}k{k}.{spelled}"
        return Variant(ptx, a, operands, pieces=True)

    for shape in ((16, 16, 16), (32, 8, 16), (8, 32, 16)):
        for d, c in _pairs(("f16", "f32")):
            # Every element of A and B is in two threads; with 16 x 16 each holds 16 of them.
            m, n, k = shape
            registers = "{" + ", ".join(f"%r{index}" for index in range(8)) + "}"
            ptx = f"wmma.mma.sync.aligned.row.col.m{m}n{n}k{k}.{d}.{c}"
            yield Variant(ptx, "f16", ", ".join((_vector(d, m * n), registers, registers, _vector(c, m * n))), True)
        yield one(shape, "f32.bf16.bf16.f32", "f32.bf16.bf16.f32")
        yield from (one(shape, f"s32.{a}.{a}.s32", f"s32.{a}.{a}.s32") for a in ("s8", "u8"))
    yield one((16, 16, 8), "f32.tf32.tf32.f32", "f32.tf32.tf32.f32")
    yield one((8, 8, 4), "f64.f64.f64.f64", "f64.f64.f64.f64")
    yield from (one((8, 8, 32), f"s32.{a}.{a}.s32", f"s32.{a}.{a}.s32") for a in ("s4", "u4"))
    for name in ("xor", "and"):
        yield one((8, 8, 128), "s32.b1.b1.s32", "s32.b1.b1.s32", operation=f".{name}.popc")


def variants() -> list[Variant]:
    """Every variant, in the order of the PTX ISA's tables."""
    return [*wmma(), *dense(), *sparse(), *block_scaled()]


def _kernel(index: int, variant: Variant) -> str:
    """A kernel that reads every register from memory, executes `variant` and writes every register back."""
    files = (("r", "b32", 4, 0), ("f", "f32", 4, 256), ("d", "f64", 8, 512))
    places = [
        (kind, type_, place, base + size * place) for kind, type_, size, base in files for place in range(_REGISTERS)
    ]
    loads = " ".join(f"ld.global.{type_} %{kind}{place}, [%q0+{at}];" for kind, type_, place, at in places)
    stores = " ".join(f"st.global.{type_} [%q0+{at}], %{kind}{place};" for kind, type_, place, at in places)
    registers = ".reg .b32 %r<24>; .reg .f32 %f<24>; .reg .f64 %d<24>; .reg .b64 %q<1>;"
    lines = (
        f".visible .entry k{index}(.param .u64 p) {{ {registers} ld.param.u64 %q0, [p];",
        loads,
        f"{variant.ptx} {variant.operands};",
        f"{stores} ret; }}",
    )
    return "\n".join(lines) + "\n"


def measure(chip: str, wanted: Sequence[Variant]) -> dict[str, Counter[str]]:
    """The SASS opcodes, without modifiers, of each of `wanted` that ptxas takes for `chip`, by spelling."""
    left = list(wanted)
    with tempfile.TemporaryDirectory(prefix="nvbackend-") as name:
        folder = Path(name)
        while left and (refused := _assemble(chip, left, folder)):
            left = [variant for place, variant in enumerate(left) if place not in refused]
        return _disassemble(left, folder) if left else {}


def _assemble(chip: str, given: Sequence[Variant], folder: Path) -> set[int]:
    """The places of the variants that ptxas refuses; none where it wrote the cubin."""
    header = f".version {PTX_VERSION}\n.target {chip}\n.address_size 64\n"
    (folder / "k.ptx").write_text(header + "".join(itertools.starmap(_kernel, enumerate(given))), encoding="utf-8")
    done = find_ptxas().run([f"-arch={chip}", "-O3", "k.ptx", "-o", "k.cubin"], folder)
    if done.returncode == 0:
        return set()
    refused = {(int(line) - _HEADER_LINES - 1) // _KERNEL_LINES for line in _ERROR_LINE.findall(done.stderr)}
    if not refused:
        raise subprocess.CalledProcessError(done.returncode, "ptxas", done.stdout, done.stderr)
    return refused


def _disassemble(given: Sequence[Variant], folder: Path) -> dict[str, Counter[str]]:
    """Opcodes by spelling; a function that a kernel calls is in the kernel's section."""
    found: dict[str, Counter[str]] = {variant.ptx: Counter() for variant in given}
    current: Counter[str] | None = None
    for line in find_disassembler().run(["--print-code", "k.cubin"], folder).stdout.splitlines():
        if section := _SECTION.match(line):
            current = found[given[int(section[1])].ptx] if section[1] else None
        elif current is not None and (opcode := _OPCODE.match(line)):
            current[opcode[1]] += 1
    return found


def mma_opcodes(opcodes: Mapping[str, int]) -> dict[str, int]:
    """The MMA instructions and the calls among `opcodes`."""
    return {name: count for name, count in opcodes.items() if name.endswith("MMA") or name == "CALL"}


def is_native(variant: Variant, opcodes: Mapping[str, int]) -> bool:
    """Whether the chip has the instruction, by the SASS that came out."""
    found = mma_opcodes(opcodes)
    return bool(found) and found.keys() <= PIPES[variant.a] and (variant.pieces or sum(found.values()) == 1)


def main() -> None:
    """Print, for each variant, which chips have it and what the others get."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="also print the variants that every chip has natively")
    chips = parser.add_argument("chips", nargs="*", help="the chips to measure; all for none")
    chips.metavar = "CHIP"
    arguments = parser.parse_args()
    every = variants()
    measured = {chip: measure(chip, every) for chip in arguments.chips or CHIPS}
    for variant in every:
        ways: dict[str, list[str]] = {}
        for chip, found in measured.items():
            if variant.ptx in found:
                opcodes = mma_opcodes(found[variant.ptx])
                spelled = " + ".join(f"{count} {name}" for name, count in sorted(opcodes.items()))
                verdict = "native" if is_native(variant, found[variant.ptx]) else "emulated"
                ways.setdefault(f"{verdict} ({spelled})", []).append(chip)
        if arguments.all or any(way.startswith("emulated") for way in ways):
            print(variant.ptx)
            for way, names in ways.items():
                print(f"    {way}: {' '.join(names)}")


if __name__ == "__main__":
    main()
