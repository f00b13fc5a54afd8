"""What PTX ISA 9.7.1, 9.7.2, 9.7.8 and 9.7.9 say of integer instructions, on Python's integers, one lane at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

Operation = Callable[[int, int], int]
Meaning = Callable[..., int | tuple[int, ...]]


def signed(number: int, bits: int) -> int:
    """The number that these bits are in two's complement."""
    return number - (1 << bits) if number >> (bits - 1) else number


def _number(number: int, kind: str) -> int:
    return signed(number, int(kind[1:])) if kind[0] == "s" else number


def _clamped(number: int, kind: str) -> int:
    bits = int(kind[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(number, low), high)


def _divided(a: int, b: int) -> int:
    if b == 0:
        return -1
    size = abs(a) // abs(b)
    return -size if (a < 0) != (b < 0) else size


def _arithmetic(kind: str) -> dict[str, Meaning]:
    bits = int(kind[1:])

    def of(function: Callable[..., int]) -> Meaning:
        return lambda *given: function(*(_number(one, kind) for one in given))

    found = {
        f"add.{kind}": of(lambda a, b: a + b),
        f"sub.{kind}": of(lambda a, b: a - b),
        f"mul.lo.{kind}": of(lambda a, b: a * b),
        f"mul.hi.{kind}": of(lambda a, b: (a * b) >> bits),
        f"mad.lo.{kind}": of(lambda a, b, c: a * b + c),
        f"mad.hi.{kind}": of(lambda a, b, c: ((a * b) >> bits) + c),
        f"sad.{kind}": of(lambda a, b, c: c + abs(a - b)),
        f"div.{kind}": of(_divided),
        f"rem.{kind}": of(lambda a, b: a - b * _divided(a, b) if b else a),
        f"min.{kind}": of(min),
        f"max.{kind}": of(max),
    }
    if bits <= 32:
        wide = f"{kind[0]}{2 * bits}"
        found[f"mul.wide.{kind}"] = of(lambda a, b: a * b)
        found[f"mad.wide.{kind}"] = lambda a, b, c: _number(a, kind) * _number(b, kind) + _number(c, wide)
    if kind[0] == "s":
        found |= {f"abs.{kind}": of(abs), f"neg.{kind}": of(lambda a: -a)}
    if bits >= 32:
        found |= _of_words(kind, bits)
    return found


def _of_words(kind: str, bits: int) -> dict[str, Meaning]:
    def carried(total: int) -> tuple[int, int]:
        return total, int(not 0 <= total < 1 << bits)

    def high(a: int, b: int) -> int:
        return (_number(a, kind) * _number(b, kind)) >> bits & ((1 << bits) - 1)

    def low(a: int, b: int) -> int:
        return a * b & ((1 << bits) - 1)

    return {
        f"add.cc.{kind}": lambda a, b: carried(a + b),
        f"addc.{kind}": lambda a, b, cc: a + b + cc,
        f"addc.cc.{kind}": lambda a, b, cc: carried(a + b + cc),
        f"sub.cc.{kind}": lambda a, b: (a - b, int(a >= b)),  # the flag is no borrow: docs/divergences.md
        f"subc.{kind}": lambda a, b, cc: a - b - 1 + cc,
        f"subc.cc.{kind}": lambda a, b, cc: (a - b - 1 + cc, int(a - b - 1 + cc >= 0)),
        f"mad.lo.cc.{kind}": lambda a, b, c: carried(low(a, b) + c),
        f"mad.hi.cc.{kind}": lambda a, b, c: carried(high(a, b) + c),
        f"madc.lo.cc.{kind}": lambda a, b, c, cc: carried(low(a, b) + c + cc),
        f"madc.hi.cc.{kind}": lambda a, b, c, cc: carried(high(a, b) + c + cc),
        f"madc.hi.{kind}": lambda a, b, c, cc: high(a, b) + c + cc,
        f"bfe.{kind}": lambda a, b, c: _extracted(a, _counted(b, bits), _counted(c, bits), kind),
        f"bfind.{kind}": lambda a: _found(a, kind),
        f"bfind.shiftamt.{kind}": lambda a: bits - 1 - _found(a, kind) if _found(a, kind) >= 0 else -1,
    }


def _counted(number: int, bits: int) -> int:
    """A start or a length: of 64-bit fields the chips do not take the lowest eight bits alone, as PTX ISA says."""
    return number & 255 if bits == 32 else min(number, 255)


def _extracted(a: int, start: int, count: int, kind: str) -> int:
    top = int(kind[1:]) - 1
    fill = 0 if kind[0] == "u" or count == 0 else a >> min(start + count - 1, top) & 1
    return sum(
        (a >> (start + place) & 1 if place < count and start + place <= top else fill) << place
        for place in range(top + 1)
    )


def _found(a: int, kind: str) -> int:
    bits = int(kind[1:])
    if kind[0] == "s" and a >> (bits - 1):
        a = ~a & ((1 << bits) - 1)
    return a.bit_length() - 1


def _inserted(a: int, b: int, start: int, count: int, bits: int) -> int:
    for place in range(_counted(count, bits)):
        target = _counted(start, bits) + place
        if target < bits:
            b = b & ~(1 << target) | (a >> place & 1) << target
    return b


def _sized(bits: int) -> dict[str, Meaning]:
    kind = f"b{bits}"
    mask = (1 << bits) - 1
    found: dict[str, Meaning] = {
        f"and.{kind}": lambda a, b: a & b,
        f"or.{kind}": lambda a, b: a | b,
        f"xor.{kind}": lambda a, b: a ^ b,
        f"not.{kind}": lambda a: ~a,
        f"cnot.{kind}": lambda a: int(a == 0),
        f"shl.{kind}": lambda a, b: a << min(b, bits),
        f"shr.{kind}": lambda a, b: a >> min(b, bits),
        f"shr.u{bits}": lambda a, b: a >> min(b, bits),
        f"shr.s{bits}": lambda a, b: signed(a, bits) >> min(b, bits),
        f"mov.{kind}": lambda a: a,
        f"selp.{kind}": lambda a, b, c: a if c else b,
        f"slct.{kind}.s32": lambda a, b, c: a if signed(c, 32) >= 0 else b,
    }
    if bits >= 32:
        found |= {
            f"popc.{kind}": lambda a: bin(a).count("1"),
            f"clz.{kind}": lambda a: bits - a.bit_length(),
            f"brev.{kind}": lambda a: int(f"{a & mask:0{bits}b}"[::-1], 2),
            f"bfi.{kind}": lambda a, b, c, d: _inserted(a, b, c, d, bits),
        }
    return found


def _twenty_four(a: int, kind: str) -> int:
    return signed(a & 0xFFFFFF, 24) if kind == "s32" else a & 0xFFFFFF


def _of_24(kind: str) -> dict[str, Meaning]:
    def product(a: int, b: int) -> int:
        return _twenty_four(a, kind) * _twenty_four(b, kind)

    return {
        f"mul24.lo.{kind}": product,
        f"mul24.hi.{kind}": lambda a, b: product(a, b) >> 16,
        f"mad24.lo.{kind}": lambda a, b, c: product(a, b) + c,
        f"mad24.hi.{kind}": lambda a, b, c: (product(a, b) >> 16) + c,
    }


def _extended(a: int, b: int, kind: str, mode: str) -> int:
    if mode == "clamp" and b >= 32:
        return a
    count = b & 31
    if count == 0:
        return 0
    low = a & ((1 << count) - 1)
    return signed(low, count) if kind == "s32" else low


def _masked(a: int, b: int, mode: str) -> int:
    if mode == "clamp":
        a, b = min(a, 32), min(b, 32)
    else:
        a, b = a & 31, b & 31
    return sum(1 << place for place in range(a, min(a + b, 32)))


def _funnelled(a: int, b: int, c: int, direction: str, mode: str) -> int:
    count = min(c, 32) if mode == "clamp" else c & 31
    both = b << 32 | a
    return (both << count) >> 32 if direction == "l" else both >> count


def _byte(both: int, selector: int) -> int:
    byte = both >> 8 * (selector & 7) & 255
    return (255 if byte >> 7 else 0) if selector & 8 else byte


_SELECTORS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "f4e": lambda c: tuple(c + place for place in range(4)),
    "b4e": lambda c: tuple((c - place) % 8 for place in range(4)),
    "rc8": lambda c: (c,) * 4,
    "ecl": lambda c: tuple(max(c, place) for place in range(4)),
    "ecr": lambda c: tuple(min(c, place) for place in range(4)),
    "rc16": lambda c: (2 * (c & 1), 2 * (c & 1) + 1) * 2,
}
"""The sources of bytes 0 to 3."""


def _permuted(a: int, b: int, selectors: tuple[int, ...]) -> int:
    return sum(_byte(b << 32 | a, one) << 8 * place for place, one in enumerate(selectors))


def _nth(mask: int, base: int, offset: int) -> int:
    offset, place = signed(offset, 32), base
    if offset == -(1 << 31):
        return 0  # by what ptxas makes of it
    count = abs(offset) - 1
    if offset == 0:
        return base if mask >> base & 1 else -1
    while 0 <= place < 32:
        if mask >> place & 1:
            if count == 0:
                return place
            count -= 1
        place += 1 if offset > 0 else -1
    return -1


def _parts(word: int, bits: int, kind: str) -> list[int]:
    fields = [word >> place & ((1 << bits) - 1) for place in range(0, 32, bits)]
    return [signed(one, bits) if kind[0] == "s" else one for one in fields]


def _dots() -> dict[str, Meaning]:
    found: dict[str, Meaning] = {}
    for x in ("u32", "s32"):
        for y in ("u32", "s32"):
            found[f"dp4a.{x}.{y}"] = lambda a, b, c, x=x, y=y: (
                c + sum(p * q for p, q in zip(_parts(a, 8, x), _parts(b, 8, y), strict=True))
            )
            for place, half in ((0, "lo"), (2, "hi")):
                found[f"dp2a.{half}.{x}.{y}"] = lambda a, b, c, x=x, y=y, place=place: (
                    c + sum(p * q for p, q in zip(_parts(a, 16, x), _parts(b, 8, y)[place : place + 2], strict=True))
                )
    return found


def _packed() -> dict[str, Meaning]:
    found: dict[str, Meaning] = {}
    functions: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "add.sat": lambda a, b: a + b,
        "min": min,
        "max": max,
        "min.relu": lambda a, b: max(min(a, b), 0),
        "max.relu": lambda a, b: max(a, b, 0),
    }
    for name, function in functions.items():
        clamped = (lambda number, kind: _clamped(number, kind[:3])) if "sat" in name else (lambda number, _: number)
        for kind in ("s16x2",) if "relu" in name else ("u16x2", "s16x2"):
            found[f"{name}.{kind}"] = lambda a, b, kind=kind, function=function, clamped=clamped: sum(
                (clamped(function(*pair), kind) & 0xFFFF) << 16 * place
                for place, pair in enumerate(zip(_parts(a, 16, kind), _parts(b, 16, kind), strict=True))
            )
    for kind in ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"):
        bits = int(kind[1:])

        def pack(a: int, b: int, c: int = 0, kind: str = kind, bits: int = bits) -> int:
            upper, lower = (_clamped(signed(one, 32), kind) & ((1 << bits) - 1) for one in (a, b))
            return c << 2 * bits | upper << bits | lower

        found[f"cvt.pack.sat.{kind}.s32{'' if bits == 16 else '.b32'}"] = pack
    return found


def _averaged(a: int, b: int) -> int:
    return (a + b + (a + b >= 0)) >> 1


_VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": _averaged,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}


def _video() -> dict[str, Meaning]:
    found: dict[str, Meaning] = {}
    for (name, function), (parts, bits), to, x, y in itertools.product(
        _VIDEO.items(), (("2", 16), ("4", 8)), "us", "us", "us"
    ):
        opcode = f"{name}{parts}.{to}32.{x}32.{y}32"

        def each(a: int, b: int, x: str = x, y: str = y, bits: int = bits, function: Operation = function) -> list[int]:
            return [function(*pair) for pair in zip(_parts(a, bits, x), _parts(b, bits, y), strict=True)]

        def packed(numbers: list[int], bits: int = bits) -> int:
            return sum((one & ((1 << bits) - 1)) << bits * place for place, one in enumerate(numbers))

        def clamped(numbers: list[int], kind: str = f"{to}{bits}") -> list[int]:
            return [_clamped(one, kind) for one in numbers]

        found[opcode] = lambda a, b, _c, each=each, packed=packed: packed(each(a, b))
        found[f"{opcode}.sat"] = lambda a, b, _c, each=each, packed=packed, clamped=clamped: packed(clamped(each(a, b)))
        found[f"{opcode}.add"] = lambda a, b, c, each=each: c + sum(each(a, b))
    return found


def _video_of_words() -> dict[str, Meaning]:
    """As ptxas makes them of other instructions: on two words, of which saturation and comparisons see more or less."""
    found: dict[str, Meaning] = {}
    names = (name for name in _VIDEO if name != "vavrg")
    for name, sat, then, *kinds in itertools.product(
        names, ("", ".sat"), ("", ".add", ".min", ".max"), *[("u32", "s32")] * 3
    ):
        opcode = f"{name}.{'.'.join(kinds)}{sat}{then}"
        found[opcode] = lambda a, b, c=0, name=name, sat=sat, then=then, kinds=kinds: _of_two_words(
            name, bool(sat), then[1:], kinds, (a, b, c)
        )
    return found


def _of_two_words(name: str, sat: bool, then: str, kinds: list[str], given: tuple[int, int, int]) -> int:
    to, first, second = kinds
    a, b, c = given
    wide = _VIDEO[name](_number(a, first), _number(b, second))
    if sat and to == "s32":
        wide = _clamped(wide, to)
    elif sat and wide < 0:
        wide = 0
    if then == "add" or not then:
        return wide + c
    if name in ("vadd", "vsub"):
        wide = signed(wide & 0xFFFFFFFF, 32)
    if to == "u32":
        wide &= 0xFFFFFFFFFFFFFFFF  # compared as unsigned
    return {"min": min, "max": max}[then](wide, _number(c, to))


def meanings() -> dict[str, Meaning]:
    """Opcodes and what they mean: operands as unsigned integers to a result, or to several."""
    found: dict[str, Meaning] = {}
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        found |= _arithmetic(kind)
    for bits in (16, 32, 64):
        found |= _sized(bits)
    for kind in ("u32", "s32"):
        found |= _of_24(kind)
    for mode in ("clamp", "wrap"):
        for kind in ("u32", "s32"):
            found[f"szext.{mode}.{kind}"] = lambda a, b, kind=kind, mode=mode: _extended(a, b, kind, mode)
        for direction in "lr":
            found[f"shf.{direction}.{mode}.b32"] = lambda a, b, c, d=direction, mode=mode: _funnelled(a, b, c, d, mode)
        found[f"bmsk.{mode}.b32"] = lambda a, b, mode=mode: _masked(a, b, mode)
    for mode, selectors in _SELECTORS.items():
        found[f"prmt.b32.{mode}"] = lambda a, b, c, selectors=selectors: _permuted(a, b, selectors(c & 3))
    found["prmt.b32"] = lambda a, b, c: _permuted(a, b, tuple(c >> 4 * place & 15 for place in range(4)))
    found["fns.b32"] = lambda mask, base, offset: _nth(mask, base & 31, offset)
    found["add.sat.s32"] = lambda a, b: _clamped(signed(a, 32) + signed(b, 32), "s32")
    found["add.sat.u32"] = lambda a, b: _clamped(a + b, "u32")
    found["sub.sat.s32"] = lambda a, b: _clamped(signed(a, 32) - signed(b, 32), "s32")
    found["mad.hi.sat.s32"] = lambda a, b, c: _clamped(((signed(a, 32) * signed(b, 32)) >> 32) + signed(c, 32), "s32")
    found["min.relu.s32"] = lambda a, b: max(min(signed(a, 32), signed(b, 32)), 0)
    found["max.relu.s32"] = lambda a, b: max(signed(a, 32), signed(b, 32), 0)
    for name in ("and", "or", "xor"):
        found[f"{name}.pred"] = found[f"{name}.b32"]
    found["not.pred"] = lambda a: 1 - a
    return found | _dots() | _packed() | _video() | _video_of_words()
