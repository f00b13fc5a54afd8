"""Random statements on values: arithmetic of all types, conversions, variables, bits, and what warps exchange."""

from __future__ import annotations

import operator

from nvbackend.intrinsics.row.types import BY_NAME, f32, pred, s32, u32
from tests.support.random_kernels.writer import Writer

NUMERIC = ("s8", "u8", "s16", "u16", "s32", "s32", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f32", "f64")
CONVERTED = (*NUMERIC, "e4m3", "e5m2", "s4", "u4", "pred")
BINARY = (operator.add, operator.sub, operator.mul, operator.truediv)
INTEGER = (operator.floordiv, operator.mod, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
AXES = ("x", "y", "z")
MEMBERS = (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF, 0x1, 0x0F0F0F0F)


def arithmetic(w: Writer) -> None:
    """An operator of two values of one type, or of a value and a number on either side."""
    element = w.element(*NUMERIC)
    functions = BINARY[:3] + INTEGER if element.is_integer else BINARY
    if w.odd():
        functions = BINARY + INTEGER
    pair = [w.value(element), w.operand(element)]
    if w.chance(0.25):
        pair.reverse()
    w.keep(w.call(w.rng.choice(functions), *pair))


def predicate(w: Writer) -> None:
    """Predicates combined."""
    w.keep(w.call(w.one(operator.and_, operator.or_, operator.xor), w.value(pred), w.value(pred)))


def unary(w: Writer) -> None:
    """Negation, or all bits turned over."""
    element = w.element(*NUMERIC, "pred")
    function = w.one(operator.neg, operator.invert) if element.is_integer or w.odd() else operator.neg
    w.keep(w.call(operator.invert if element is pred else function, w.value(element)))


def comparison(w: Writer) -> None:
    element = w.element(*NUMERIC)
    w.keep(w.call(w.rng.choice(COMPARISONS), w.value(element), w.operand(element)))


def conversion(w: Writer) -> None:
    value = w.value()
    target = w.element(*CONVERTED)
    if value is not None and hasattr(value, "to"):
        w.keep(w.call(value.to, target))


def bits(w: Writer) -> None:
    """The same bits as another type."""
    value = w.value(w.element(*NUMERIC))
    if hasattr(value, "bitcast"):
        fitting = [name for name in NUMERIC if BY_NAME[name].bits == value.type.bits] or NUMERIC
        w.keep(w.call(value.bitcast, w.element(*fitting)))


def chosen(w: Writer) -> None:
    """select, min, max, fma."""
    element = w.element(*NUMERIC)
    match w.rng.randrange(4):
        case 0:
            w.keep(w.call(w.k.select, w.value(pred), w.value(element), w.operand(element)))
        case 1:
            w.keep(w.call(w.k.math.min, w.value(element), w.operand(element)))
        case 2:
            w.keep(w.call(w.k.math.max, w.operand(element), w.value(element)))
        case 3:
            kind = w.element("f32", "f64")
            w.keep(w.call(w.k.math.fma, w.value(kind), w.operand(kind), w.operand(kind)))


def function(w: Writer) -> None:
    """The chip's own functions of f32."""
    call = w.one(w.k.math.exp2, w.k.math.log2, w.k.math.sqrt, w.k.math.rsqrt, w.k.math.reciprocal)
    w.keep(w.call(call, w.operand(f32)))


def packed(w: Writer) -> None:
    """Bytes permuted, pairs packed."""
    if w.chance(0.5):
        w.keep(w.call(w.k.math.permute_bytes, w.value(u32), w.operand(u32), w.operand(u32)))
    else:
        pair = w.one("f16x2", "bf16x2", "e4m3x2", "e5m2x2", "x")
        w.keep(w.call(w.k.convert.pack, pair, w.operand(f32), w.operand(f32), relu=w.chance(0.3)))


def variable(w: Writer) -> None:
    """A new variable, or one that is set."""
    found = [one for pool in w.values for one in pool if hasattr(one, "set")]
    if found and w.chance(0.6):
        target = w.rng.choice(found)
        if w.chance(0.5):
            w.call(target.set, w.operand(target.type))
        else:
            w.call(w.one(operator.iadd, operator.isub, operator.imul), target, w.operand(target.type))
        return
    element = w.element(*NUMERIC, "pred")
    w.keep(w.call(w.k.var, w.operand(element), element, name=w.one("x", "total", "x.1", "a b", "")))


def index(w: Writer) -> None:
    """Who and where a thread is."""
    k = w.k
    calls = [k.lane_id, k.warp_id, k.warpgroup_id, k.cluster.rank, k.cluster.id, k.cluster.count, k.cluster.peer_rank]
    if w.chance(0.6):
        w.keep(w.call(w.one(k.thread_id, k.block_id, k.block_count), w.one(*AXES, "x", "x")))
    elif w.chance(0.5):
        w.keep(w.call(w.rng.choice(calls)))
    else:
        names = ("laneid", "warpid", "nwarpid", "smid", "nsmid", "clock", "clock64", "globaltimer", "lanemask_lt", "x")
        w.keep(w.call(k.special_register, w.one("tid.x", "ntid.y", "ctaid.z", "nctaid.x", *names)))


def named(w: Writer) -> None:
    """A name for a value, odd ones too."""
    value = w.value()
    if hasattr(value, "named"):
        w.call(value.named, w.one("x", "a.b", "x y", "%0", '"', "\\", "é", "a" * 200, ""))


def exchange(w: Writer) -> None:
    """What the lanes of a warp do together."""
    k, members = w.k, {"members": w.rng.choice(MEMBERS)} if w.chance(0.3) else {}
    element = w.element("s32", "u32", "f32", "s64", "u64", "f64", "f16")
    match w.rng.randrange(9):
        case 0 | 1:
            more = w.one({}, {}, {"in_range": True})
            width = {"width": w.one(32, 16, 8, 4, 1, 0, 33)} if w.chance(0.3) else {}
            mode = w.one("idx", "up", "down", "bfly", "x") if w.odd() else w.one("idx", "up", "down", "bfly")
            w.keep(w.call(k.warp.shuffle, w.value(element), mode, w.operand(s32), **members, **width, **more))
        case 2:
            w.keep(w.call(k.warp.vote, w.one("all", "any", "uni", "ballot"), w.value(pred), **members))
        case 3:
            w.keep(w.call(k.warp.match, "any", w.value(w.element("u32", "u64", "s32")), **members))
        case 4:
            w.keep(w.call(k.warp.match, "all", w.value(w.element("u32", "u64", "s32")), **members, equal=True))
        case 5:
            operation = w.one("add", "min", "max", "and", "or", "xor")
            w.keep(w.call(k.warp.reduce, operation, w.value(w.element("u32", "s32", "f32")), **members))
        case 6:
            w.keep(w.call(w.one(k.elect, k.warp.active_lanes)))
        case 7:
            w.call(k.warp.sync, *members.values())
        case 8:
            w.keep(w.call(k.uniform, w.value(w.element("s32", "u32"))))


STATEMENTS = [
    *((10, arithmetic), (2, predicate), (2, unary), (4, comparison), (4, conversion), (2, bits), (4, chosen)),
    *((2, function), (1, packed), (4, variable), (3, index), (0.5, named)),
]
TOGETHER = [(1, exchange)]
"""What all threads of a warp must execute."""
