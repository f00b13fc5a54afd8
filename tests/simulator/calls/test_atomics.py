"""atom and red at places that lanes share, drawn at random, against a transcription in Python's numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nvbackend.simulator import Simulator

LANES, PLACES = 32, 5
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
KERNEL = """.version 8.6
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 memory, .param .u64 places, .param .u64 operands, .param .u64 results) {{
.shared .align 8 .b8 shared[{bytes}];
.reg .pred %p;
.reg .b32 %t, %at;
.reg .b64 %memory, %shared, %place, %places, %operands, %results, %own, %wide;
.reg .b{bits} %a, %b, %old;
ld.param.u64 %memory, [memory];
ld.param.u64 %places, [places];
ld.param.u64 %operands, [operands];
ld.param.u64 %results, [results];
mov.u32 %t, %tid.x;
mul.wide.u32 %wide, %t, {size};
cvta.shared.u64 %shared, shared;
setp.ge.u32 %p, %t, {places};
add.u64 %own, %memory, %wide;
add.u64 %place, %shared, %wide;
@%p bra filled;
ld.global.b{bits} %a, [%own];
st.b{bits} [%place], %a;
filled:
bar.sync 0;
add.u64 %own, %operands, %wide;
ld.global.b{bits} %a, [%own];
ld.global.b{bits} %b, [%own+{row}];
mul.wide.u32 %place, %t, 4;
add.u64 %place, %places, %place;
ld.global.b32 %at, [%place];
mad.wide.u32 %place, %at, {size}, {base};
mov.b{bits} %old, %a;
{instruction};
add.u64 %own, %results, %wide;
st.global.b{bits} [%own], %old;
bar.sync 0;
add.u64 %own, %memory, %wide;
add.u64 %place, {base}, %wide;
@%p bra done;
ld.b{bits} %a, [%place];
st.global.b{bits} [%own], %a;
done:
ret;
}}
"""


def as_number(bits, kind):
    """The number in these bits."""
    width = int(kind[1:])
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def of_floats(operation, kind, old, value):
    """Bits of f16, bf16, f32 or f64; of a pair, each half."""
    if kind.endswith("x2"):
        half = kind.removesuffix("x2")
        parts = [of_floats(operation, half, old >> one & 0xFFFF, value >> one & 0xFFFF) for one in (0, 16)]
        return parts[0] | parts[1] << 16
    dtype = FLOATS[kind]
    unsigned = f"uint{8 * np.dtype(dtype).itemsize}"
    a, b = (np.array(one, unsigned).view(dtype).astype(np.float64) for one in (old, value))
    return int((a + b).astype(dtype).view(unsigned))


def changed(operation, kind, old, a, b):
    """What an operation leaves where `old` was. PTX ISA 9.7.13.6."""
    bits = int(kind.lstrip("usbf")[:2]) if "f" not in kind else 0
    if operation == "add" and "f" in kind:
        return of_floats(operation, kind, old, a)
    return {
        "add": lambda: (old + a) % (1 << bits),
        "min": lambda: min(old, a, key=lambda one: as_number(one, kind)),
        "max": lambda: max(old, a, key=lambda one: as_number(one, kind)),
        "inc": lambda: 0 if old >= a else old + 1,
        "dec": lambda: a if old == 0 or old > a else old - 1,
        "and": lambda: old & a,
        "or": lambda: old | a,
        "xor": lambda: old ^ a,
        "exch": lambda: a,
        "cas": lambda: b if old == a else old,
    }[operation]()


FORMS = [
    *(("add", kind) for kind in ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2")),
    *((name, kind) for name in ("min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *(("inc", "u32"), ("dec", "u32")),
    *((name, kind) for name in ("and", "or", "xor", "exch") for kind in ("b32", "b64")),
    *(("cas", kind) for kind in ("b16", "b32", "b64")),
]


def bits_of(kind):
    return 32 if kind.endswith("x2") else int(kind.lstrip("usbf"))


def drawn(kind, rng, count):
    """Words of the type: few different ones, so that comparisons hold now and then; no NaN of floats."""
    bits = bits_of(kind)
    unsigned = np.dtype(f"uint{bits}")
    if "f" in kind:
        dtype = FLOATS[kind.removesuffix("x2")]
        return rng.integers(-64, 65, count * (1 + kind.endswith("x2"))).astype(dtype).view(unsigned)
    most = np.iinfo(unsigned).max
    chosen = np.concatenate((rng.integers(0, most, 6, unsigned, endpoint=True), np.array([0, 1, 3, most], unsigned)))
    return chosen[rng.integers(0, len(chosen), count)]


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize(("operation", "kind"), FORMS, ids=[".".join(one) for one in FORMS])
def test_lanes_change_a_place_one_after_another(operation, kind, space):
    bits, rng = bits_of(kind), np.random.default_rng([*operation.encode(), *kind.encode()])
    noftz = ".noftz" if "16" in kind and "f" in kind else ""
    second = ", %b" if operation == "cas" else ""
    where = f".{space}" if space else ""
    base = {"global": "%memory", "shared": "%shared", "": "%shared"}[space]
    convert = "cvta.to.shared.u64 %place, %place;\n" if space == "shared" else ""
    for is_red in (False, True)[: 1 + (operation not in ("exch", "cas"))]:
        name = f"{'red' if is_red else 'atom'}{where}.{operation}{noftz}.{kind}"
        target = "" if is_red else "%old, "
        text = KERNEL.format(
            bits=bits,
            size=bits // 8,
            row=LANES * bits // 8,
            bytes=PLACES * bits // 8,
            places=PLACES,
            base=base,
            instruction=f"{convert}{name} {target}[%place], %a{second}",
        )
        memory, operands = drawn(kind, rng, PLACES), drawn(kind, rng, 2 * LANES)
        places = rng.integers(0, PLACES, LANES).astype(np.uint32)
        wanted, olds = [int(one) for one in memory], [int(one) for one in operands[:LANES]]
        for lane, place in enumerate(places):
            if not is_red:
                olds[lane] = wanted[place]
            a, b = (int(operands[row * LANES + lane]) for row in range(2))
            wanted[place] = changed(operation, kind, wanted[place], a, b)
        results = np.zeros(LANES, f"uint{bits}")
        Simulator().load(text).launch("kernel", block=(LANES,), args=[memory, places, operands, results])
        assert memory.tolist() == wanted, name
        assert results.tolist() == olds, name
