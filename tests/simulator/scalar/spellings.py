"""Spellings of scalar instructions, legal and not, each with the types of its operands: to ask ptxas which exist."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

INTEGERS = tuple(f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64))
SIZES = tuple(f"b{bits}" for bits in (8, 16, 32, 64))
FLOATS = ("f16", "bf16", "f32", "f64")
PACKED = ("f16x2", "bf16x2", "f32x2", "u16x2", "s16x2")
TYPES = (*INTEGERS, *SIZES, *FLOATS, *PACKED, "pred")
ROUNDINGS = ("", "rn", "rz", "rm", "rp")
BOOLEANS = ("", "and", "or", "xor")
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
COMPARISONS = (*ORDERED, "lo", "ls", "hi", "hs", *(f"{one}u" for one in ORDERED), "num", "nan")
NARROW = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
FLAG, SCALED = ("",), "scaled::n2::ue8m0"
Spelling = tuple[str, tuple[str, ...], tuple[str, ...]]
"""An opcode, the types of its destinations and those of its sources."""

_UNTYPED = {
    "mul24": 2,
    "mad24": 3,
    "sad": 3,
    "div": 2,
    "rem": 2,
    "abs": 1,
    "neg": 1,
    "min": 2,
    "max": 2,
    "add": 2,
    "sub": 2,
    "mul": 2,
    "mad": 3,
    "fma": 3,
    "addc": 2,
    "subc": 2,
    "madc": 3,
    "rcp": 1,
    "sqrt": 1,
    "rsqrt": 1,
    "sin": 1,
    "cos": 1,
    "lg2": 1,
    "ex2": 1,
    "tanh": 1,
    "and": 2,
    "or": 2,
    "xor": 2,
    "not": 1,
    "cnot": 1,
    "brev": 1,
    "copysign": 2,
}
"""Instructions whose operands all have the type, and how many there are."""
_OPTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mul24": (("lo", "hi", "wide"), ("", "sat")),
    "mad24": (("lo", "hi"), ("", "sat")),
    "div": (("", "approx", "full", *ROUNDINGS[1:]), ("", "ftz")),
    "abs": (("", "ftz"),),
    "neg": (("", "ftz"),),
    "min": (("", "ftz"), ("", "NaN", "relu"), ("", "xorsign.abs")),
    "max": (("", "ftz"), ("", "NaN", "relu"), ("", "xorsign.abs")),
    "add": (ROUNDINGS, ("", "ftz"), ("", "sat", "cc")),
    "sub": (ROUNDINGS, ("", "ftz"), ("", "sat", "cc")),
    "mul": (("lo", "hi", *ROUNDINGS), ("", "ftz"), ("", "sat")),
    "mad": (("lo", "hi", *ROUNDINGS), ("", "ftz"), ("", "sat", "cc")),
    "fma": (ROUNDINGS, ("", "ftz"), ("", "sat", "relu")),
    "addc": (("", "cc"), ("", "sat")),
    "subc": (("", "cc"), ("", "sat")),
    "madc": (("lo", "hi"), ("", "cc")),
    **dict.fromkeys(("rcp", "sqrt", "rsqrt"), (("", "approx", *ROUNDINGS[1:]), ("", "ftz"))),
    **dict.fromkeys(("sin", "cos", "lg2", "ex2", "tanh"), (("approx",), ("", "ftz"))),
}


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _of_one_type() -> Iterator[Spelling]:
    for name, count in _UNTYPED.items():
        for *options, kind in itertools.product(*_OPTIONS.get(name, ()), TYPES):
            yield _joined(name, *options, kind), (kind,), (kind,) * count


def _wide() -> Iterator[Spelling]:
    for kind in INTEGERS:
        twice = f"{kind[0]}{min(2 * int(kind[1:]), 64)}"
        yield f"mul.wide.{kind}", (twice,), (kind, kind)
        yield f"mad.wide.{kind}", (twice,), (kind, kind, twice)


def _with_counts() -> Iterator[Spelling]:
    for kind in (*INTEGERS, *SIZES, "f32", "pred"):
        for name in ("shl", "shr"):
            yield f"{name}.{kind}", (kind,), (kind, "u32")
        for name in ("popc", "clz", "bfind", "bfind.shiftamt"):
            yield f"{name}.{kind}", ("u32",), (kind,)
        yield f"bfe.{kind}", (kind,), (kind, "u32", "u32")
        yield f"bfi.{kind}", (kind,), (kind, kind, "u32", "u32")
        yield f"fns.{kind}", (kind,), (kind, "u32", "s32")
        yield f"prmt.{kind}", (kind,), (kind,) * 3
        for mode in ("clamp", "wrap"):
            yield f"szext.{mode}.{kind}", (kind,), (kind, "u32")
            yield f"bmsk.{mode}.{kind}", (kind,), (kind, "u32")
            for direction in "lr":
                yield f"shf.{direction}.{mode}.{kind}", (kind,), (kind, kind, "u32")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16", "rc32"):
        yield f"prmt.b32.{mode}", ("b32",), ("b32",) * 3
    for first, second in itertools.product(("u32", "s32", "b32", "u16"), repeat=2):
        total = "u32" if first == second == "u32" else "s32"
        yield f"dp4a.{first}.{second}", (total,), (first, second, total)
        for half in ("lo", "hi"):
            yield f"dp2a.{half}.{first}.{second}", (total,), (first, second, total)


def _compared() -> Iterator[Spelling]:
    for name, boolean, ftz, kind in itertools.product(COMPARISONS, BOOLEANS[:2], ("", "ftz"), TYPES):
        c = ("pred",) if boolean else ()
        destinations = ("pred", "pred") if kind in ("f16x2", "bf16x2") else ("pred",)
        yield _joined("setp", name, boolean, ftz, kind), destinations, (kind, kind, *c)
    results = ("u16", "s16", "u32", "s32", "f32", "f16", "bf16", "f16x2", "bf16x2", "u64")
    for name, result, kind in itertools.product(("eq", "ltu", "lo"), results, TYPES):
        yield f"set.{name}.{result}.{kind}", (result,), (kind, kind)
    for kind in TYPES:
        yield f"selp.{kind}", (kind,), (kind, kind, "pred")
        yield f"slct.{kind}.s32", (kind,), (kind, kind, "s32")
        yield f"slct.ftz.{kind}.f32", (kind,), (kind, kind, "f32")
    for name, kind in itertools.product(("finite", "number", "notanumber", "normal", "subnormal", "zero"), TYPES):
        yield f"testp.{name}.{kind}", ("pred",), (kind,)


def _converted() -> Iterator[Spelling]:
    roundings = (*ROUNDINGS, "rni", "rzi", "rmi", "rpi")
    numbers = (*INTEGERS, *FLOATS)
    for rounding, ftz, sat, to, source in itertools.product(roundings, ("", "ftz"), ("", "sat"), numbers, numbers):
        yield _joined("cvt", rounding, ftz, sat, to, source), (to,), (source,)


def _narrowed() -> Iterator[Spelling]:
    modifiers = (("rn", "rz", "rna", "rs", "rp"), ("", "relu"), ("", "satfinite"))
    for rounding, relu, satfinite in itertools.product(*modifiers):
        start = _joined("cvt", rounding, relu, satfinite)
        flipped = _joined("cvt", rounding, satfinite, relu)
        random = ("b32",) if rounding == "rs" else ()
        for half in ("f16", "bf16", "tf32"):
            if relu or satfinite or half == "tf32":
                yield f"{flipped if half == 'tf32' else start}.{half}.f32", (half,), ("f32", *random)
        for half in ("f16x2", "bf16x2"):
            yield f"{start}.{half}.f32", (half,), ("f32", "f32", *random)
        for narrow in (*NARROW, "ue8m0x2", "s2f6x2"):
            yield f"{flipped}.{narrow}.f32", (narrow,), ("f32", "f32", *random)
            if rounding != "rs":
                for half in ("f16x2", "bf16x2"):
                    yield f"{flipped}.{narrow}.{half}", (narrow,), (half,)
                    yield f"{start}.{half}.{narrow}", (half,), (narrow,)
        for narrow in NARROW:
            four = narrow.replace("x2", "x4")
            if rounding == "rs":
                yield f"{start}.{four}.f32", (four,), ("{f32", "f32", "f32", "f32}", "b32")
    for kind in ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16", "u32"):
        yield f"cvt.pack.sat.{kind}.s32", ("u32",), ("s32", "s32")
        yield f"cvt.pack.sat.{kind}.s32.b32", ("u32",), ("s32", "s32", "b32")


def _mixed() -> Iterator[Spelling]:
    for rounding, sat, half in itertools.product(ROUNDINGS, ("", "sat"), ("f16", "bf16", "f64")):
        yield _joined("add", rounding, sat, "f32", half), ("f32",), (half, "f32")
        yield _joined("sub", rounding, sat, "f32", half), ("f32",), (half, "f32")
        yield _joined("fma", rounding, sat, "f32", half), ("f32",), (half, half, "f32")
    for relu, kind in itertools.product(("", "relu"), ("f16", "f16x2", "bf16", "bf16x2", "f32")):
        yield _joined("fma.rn.oob", relu, kind), (kind,), (kind,) * 3
    for ftz, nan, sizes in itertools.product(("", "ftz"), ("", "NaN"), ("", "abs")):
        yield _joined("min", ftz, nan, sizes, "f32"), ("f32",), ("f32",) * 3


def _video() -> Iterator[Spelling]:
    kinds = ("u32", "s32")
    for name, parts in itertools.product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), ("", "2", "4")):
        lasts = ("", "sat", *(f"{sat}{last}" for sat in ("", "sat.") for last in ("add", "min", "max")))
        for to, a, b, last in itertools.product(kinds, kinds, kinds, lasts):
            third = (to,) if parts or last not in ("", "sat") else ()
            yield _joined(f"{name}{parts}", to, a, b, last), (to,), (a, b, *third)
    for name, kind in itertools.product(("min", "max"), ("s16x2", "s32", "u32", "u16x2")):
        yield f"{name}.{kind}.relu", (kind,), (kind, kind)


def candidates() -> list[Spelling]:
    """All of them, each once."""
    every = (_of_one_type, _wide, _with_counts, _compared, _converted, _narrowed, _mixed, _video)
    return list(dict.fromkeys(one for make in every for one in make()))


_WIDTHS = {
    **{kind: int(kind[1:]) for kind in (*INTEGERS, *SIZES)},
    **dict.fromkeys(("f16", "bf16", "e2m1x4"), 16),
    **dict.fromkeys(("f32", "tf32"), 32),
    **dict.fromkeys(("f64", "f32x2"), 64),
    "e2m1x2": 8,
    **dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2"), 32),
    **dict.fromkeys(("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "s2f6x2"), 16),
    **dict.fromkeys(("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), 32),
}
REGISTERS = " ".join(
    [*(f".reg .b{bits} %v{bits}_<9>;" for bits in (8, 16, 32, 64)), ".reg .pred %vp_<9>;", ".reg .b32 %i<2>;"]
)


def register(kind: str, number: int) -> str:
    """The register of a type with this number."""
    opening, closing = kind.startswith("{"), kind.endswith("}")
    kind = kind.strip("{}")
    name = f"%vp_{number}" if kind == "pred" else f"%v{_WIDTHS[kind]}_{number}"
    return "{" * opening + name + "}" * closing


def statement(spelling: Spelling) -> str:
    """The instruction with registers."""
    opcode, destinations, sources = spelling
    first = "|".join(register(kind, place) for place, kind in enumerate(destinations))
    rest = [register(kind, 2 + place) for place, kind in enumerate(sources)]
    return f"{opcode} {', '.join([first, *rest])};"
