"""What a wgmma instruction may be: every rule and its gate, for selector and verifier alike.

The legal values are in the tables of `intrinsics.mma.wgmma`; nothing here repeats one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import multiplicands_of
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.types import ElementType, b1, e4m3, f32, f64, s4, s8, s32, tf32, u4
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted

_Gate = Gate[WgmmaRequest]


def _spelled(types: Sequence[ElementType]) -> str:
    return "/".join(map(str, types))


def _product(request: WgmmaRequest) -> str:
    return f"{request.a} x {request.b} -> {request.d}"


def _types(request: WgmmaRequest) -> Values:
    return {"a": request.a, "b": request.b, "dense": "sparse" if request.sparse else "dense"}


_FIRST_WITH_MMA_SYNC = 75


def _instead(target: Target) -> str:
    if not target.has(Feature.SM_90):
        return "use wmma" if target.number < _FIRST_WITH_MMA_SYNC else "use mma.sync or wmma"
    full = Target.parse(f"sm_{target.number}a")
    compiled = "" if target.suffix else f", compiled for {full}"
    if full.has_wgmma:
        return f"compile for {full}: plain {target} leaves out what only this chip has"
    if full.has_tmem:
        return f"use tcgen05.mma over tensor memory{compiled}"
    return f"use mma.sync, with a block scale for the types of 8, 6 and 4 bits{compiled}"


TARGET = _Gate(
    Rule(
        id="wgmma.target",
        message="{target} has no wgmma",
        fix="{instead}",
        why="LLVM passes the asm on as it is, and ptxas refuses it.",
        reference="PTX ISA 9.7.15.5.2 (Target ISA Notes)",
    ),
    lambda _, target: None if target.has_wgmma else {"target": target, "instead": _instead(target)},
)


def _old_ptx(request: WgmmaRequest, target: Target) -> Values | None:
    if request.multiplicands is None or not target.has_wgmma:
        return None
    needed = wgmma.lowest_ptx_version(request.a, request.b, request.sparse)
    return (
        None
        if target.ptx_version >= needed
        else {
            "what": f"{'sparse ' if request.sparse else ''}wgmma {request.a} x {request.b}",
            "needed": dotted(needed),
            "target": target,
            "given": dotted(target.ptx_version),
        }
    )


PTX_VERSION = _Gate(
    Rule(
        id="wgmma.ptx-version",
        message="{what} needs PTX {needed} or later; {target} is compiled with PTX {given}",
        fix="leave the PTX version of the target out, or give {needed} or later",
        why="ptxas refuses the instruction.",
        reference="PTX ISA 9.7.15.5.2 and 9.7.15.6.3 (PTX ISA Notes); ptxas 13.5",
    ),
    _old_ptx,
)


def _is_four_bit(request: WgmmaRequest) -> bool:
    return request.a in (s4, u4) or request.b in (s4, u4)


def _four_bit(request: WgmmaRequest, _: Target) -> Values | None:
    wider = multiplicands_of(s8)
    if wider is None or not _is_four_bit(request):
        return None
    return {"product": _product(request), "wider": _spelled(wider.types), "k": wider.k(request.sparse), "d": s32}


FOUR_BIT = _Gate(
    Rule(
        id="wgmma.four-bit",
        message="WGMMA has no s4/u4 multiplicands ({product})",
        fix="widen them to {wider} (k={k}, D of type {d}), or use mma.sync, which emulates 4-bit integers on sm_90",
        why="One document lists them; no ptxas takes them.",
        reference="PTX ISA 9.7.15.3; ptxas 13.5",
    ),
    _four_bit,
)
_EXPECTATIONS: dict[ElementType, str] = {
    # The texts of the document on MMA atoms, which calls b1 u1 and s32 i32.
    e4m3: "expects A/B of the e5m2/e4m3 type",
    s8: "expects A/B of type s8/u8 and D of type i32",
    b1: "expects A/B of type u1 and D of type i32",
}
_STAND_INS = {
    f32: f"round A and B to {tf32}",
    f64: "use mma.sync m16n8k16 f64, which multiplies f64 on sm_90",
}


def _other_types(request: WgmmaRequest, _: Target) -> Values | None:
    kind = request.multiplicands
    if _is_four_bit(request) or (kind is not None and request.d in kind.d):
        return None
    kind = multiplicands_of(request.a) or multiplicands_of(request.b)
    if kind is None:
        every = tuple(element for known in wgmma.MULTIPLICANDS for element in known.types)
        expects = f"multiplies {', '.join(map(str, every))}"
        instead = _STAND_INS.get(request.a, "use A and B of one of these types")
    else:
        legal = f"A/B of type {_spelled(kind.types)} and D of type {_spelled(kind.d)}"
        expects, instead = _EXPECTATIONS.get(kind.types[0], f"expects {legal}"), f"use {legal}"
    return {"expects": expects, "product": _product(request), "instead": instead}


TYPES = _Gate(
    Rule(
        id="wgmma.types",
        message="WGMMA {expects}, not {product}",
        fix="{instead}",
        why="ptxas refuses the combination; one that it took would be read with the wrong width.",
        reference="PTX ISA 9.7.15.3; ptxas 13.5",
    ),
    _other_types,
)
M_EXTENT = _Gate(
    Rule(
        id="wgmma.m",
        message="WGMMA M is {legal}, not {m}",
        fix="use m={legal} for each warpgroup, and more warpgroups or more instructions for more rows",
        why="The four warps of the warpgroup hold 16 rows each.",
        reference="PTX ISA 9.7.15.2",
    ),
    lambda request, _: None if request.m == wgmma.M else {"legal": wgmma.M, "m": request.m},
)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _n(request: WgmmaRequest) -> Values:
    kind = request.multiplicands
    legal = sorted(kind.n if kind else wgmma.N_VALUES)
    values = {"step": wgmma.N_STEP, "lowest": legal[0], "highest": legal[-1], "nearest": _nearest(request.n, legal)}
    return {**_types(request), **values, "n": request.n}


def _nearest(n: int, legal: Sequence[int]) -> str:
    """The legal numbers on either side of `n`."""
    if not _is_integer(n):
        return f"one of {legal[0]} to {legal[-1]}"
    above = bisect(legal, n)
    return " or ".join(map(str, legal[max(above - 1, 0) : above + 1]))


N_STEP = _Gate(
    Rule(
        id="wgmma.n-step",
        message="WGMMA N must be a multiple of {step}, not {n}",
        fix="use n={nearest}",
        why="The instruction writes D in blocks of eight columns; no other N has an encoding.",
        reference="PTX ISA 9.7.15.2; ptxas 13.5",
    ),
    lambda request, _: None if _is_integer(request.n) and request.n % wgmma.N_STEP == 0 else _n(request),
)
N_RANGE = _Gate(
    Rule(
        id="wgmma.n-range",
        message="WGMMA N is {lowest} to {highest}, not {n}",
        fix="use n={nearest}, and several instructions for a wider tile",
        why="No other N has an encoding.",
        reference="PTX ISA 9.7.15.2",
    ),
    lambda request, _: (
        _n(request) if _is_integer(request.n) and not wgmma.N_VALUES[0] <= request.n <= wgmma.N_VALUES[-1] else None
    ),
)
N_INTEGER = _Gate(
    Rule(
        id="wgmma.n-integer",
        message="WGMMA {a} x {b} has no N of {n}: above 32, integer and b1 multiplicands take every second N only",
        fix="use n={nearest}",
        why="ptxas refuses the shape, though one document lists it.",
        reference="PTX ISA 9.7.15.2; ptxas 13.5",
    ),
    lambda request, _: (
        _n(request)
        if (kind := request.multiplicands) and request.n in wgmma.N_VALUES and request.n not in kind.n
        else None
    ),
)
K_EXTENT = _Gate(
    Rule(
        id="wgmma.k",
        message="WGMMA K must be {legal} for {dense} {a} x {b}, not {k}",
        fix="use k={legal} in each instruction, and one instruction for each {legal} columns of A",
        why="An instruction reads 256 bits of each stored row of A; ptxas knows no shape with another K.",
        reference="PTX ISA 9.7.15.2; ptxas 13.5",
    ),
    lambda request, _: (
        {**_types(request), "legal": kind.k(request.sparse), "k": request.k}
        if (kind := request.multiplicands) and request.k != kind.k(request.sparse)
        else None
    ),
)
SPARSE = _Gate(
    Rule(
        id="wgmma.sparse",
        message="WGMMA {a} x {b} has no sparse form",
        fix="use the dense instruction, or A and B of one of the types {legal}",
        why="ptxas knows no shape for it.",
        reference="PTX ISA 9.7.15.6.3; ptxas 13.5",
    ),
    lambda request, _: (
        {
            **_types(request),
            "legal": ", ".join(
                str(element) for each in wgmma.MULTIPLICANDS if each.selectors for element in each.types
            ),
        }
        if (kind := request.multiplicands) and request.sparse and not kind.selectors
        else None
    ),
)


def _other_selector(request: WgmmaRequest, _: Target) -> Values | None:
    kind = request.multiplicands
    legal = kind.selectors if kind is not None and request.sparse else (0,)
    if not legal or request.selector in legal:
        return None
    return {**_types(request), "selector": request.selector, "legal": " or ".join(map(str, legal))}


SELECTOR = _Gate(
    Rule(
        id="wgmma.selector",
        message="the sparsity selector of {dense} wgmma {a} x {b} is {legal}, not {selector}",
        fix="use selector {legal}",
        why="It names the threads whose metadata counts: with another one ptxas stops, or metadata is not read.",
        reference="PTX ISA 9.7.15.6.3; ptxas 13.5",
    ),
    _other_selector,
)
POPC = _Gate(
    Rule(
        id="wgmma.popc",
        message="WGMMA {a} x {b} has no .{popc}.popc, only .{legal}.popc",
        fix="use .{legal}.popc: popc(a ^ b) is popc(a) + popc(b) - 2 * popc(a & b); "
        "or use mma.sync, which emulates .xor.popc on sm_90",
        why="One document lists .xor.popc; no ptxas takes it for wgmma.",
        reference="PTX ISA 9.7.15.5.2; ptxas 13.5",
    ),
    lambda request, _: (
        {**_types(request), "popc": request.popc, "legal": wgmma.POPC_OPERATION}
        if (kind := request.multiplicands) and kind.operation and request.popc != wgmma.POPC_OPERATION
        else None
    ),
)
SATFINITE = _Gate(
    Rule(
        id="wgmma.satfinite",
        message="WGMMA {product} has no .satfinite",
        fix="leave satfinite out; only A/B of type {legal} have it",
        why="ptxas refuses the modifier.",
        reference="PTX ISA 9.7.15.5.2; ptxas 13.5",
    ),
    lambda request, _: (
        {
            "product": _product(request),
            "legal": _spelled([element for each in wgmma.MULTIPLICANDS if each.saturates for element in each.types]),
        }
        if (kind := request.multiplicands) and request.satfinite and not kind.saturates
        else None
    ),
)
NEGATE = _Gate(
    Rule(
        id="wgmma.negate",
        message="WGMMA {a} x {b} cannot negate an operand",
        fix="negate the values where they are made, or the accumulator where it is read",
        why="The instruction has no place for the sign, and would add where it should subtract.",
        reference="PTX ISA 9.7.15.5.2 (imm-scale-a, imm-scale-b)",
    ),
    lambda request, _: (
        _types(request)
        if (kind := request.multiplicands) and not kind.negates and (request.negate_a or request.negate_b)
        else None
    ),
)


def _transposed(request: WgmmaRequest, _: Target) -> Values | None:
    kind = request.multiplicands
    if kind is None:
        return None
    legal_b = wgmma.TRANSPOSES if kind.transposes else (0,)
    legal_a = (0,) if request.a_in_registers else legal_b
    if request.trans_a in legal_a and request.trans_b in legal_b:
        return None
    if not kind.transposes:
        reason = f"WGMMA reads {request.a} x {request.b} K-major only, not MN-major: 16-bit types alone can be either"
        instead = "store the operand K-major, or transpose it on its way into shared memory"
    elif request.a_in_registers and request.trans_a:
        reason = "WGMMA cannot transpose an A in registers"
        instead = "leave trans_a 0 and put each element where its fragment has it, or give A by descriptor"
    else:
        reason = "a transpose flag of WGMMA is 0 (K-major) or 1 (MN-major)"
        instead = "use 0 or 1"
    return {"reason": reason, "instead": instead, "trans_a": request.trans_a, "trans_b": request.trans_b}


TRANSPOSE = _Gate(
    Rule(
        id="wgmma.transpose",
        message="{reason} (trans_a={trans_a}, trans_b={trans_b})",
        fix="{instead}",
        why="The instruction has no place for the flag: the operand would be read as if it were K-major.",
        reference="PTX ISA 9.7.15.5.2 (imm-trans-a, imm-trans-b)",
    ),
    _transposed,
)
GATES = (
    *(TARGET, PTX_VERSION, FOUR_BIT, TYPES, M_EXTENT, N_STEP, N_RANGE, N_INTEGER, K_EXTENT),
    *(SPARSE, SELECTOR, POPC, SATFINITE, NEGATE, TRANSPOSE),
)
"""Every gate. A request that breaks none has a row that ptxas takes for the target."""
WAIT_RANGE = Rule(
    id="wgmma.wait-range",
    message="wgmma.wait_group {given}: the number of groups that may stay in flight is {legal}",
    fix="use {legal}; 0 drains every committed group",
    why="The field holds no more: ptxas takes a larger number without a word and encodes the highest.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
)
