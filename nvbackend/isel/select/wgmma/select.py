"""The selector of wgmma: from a request and the exact target to the row, or to every reason against one.

The legal values are in the tables of `intrinsics.mma.wgmma`; nothing here repeats one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import Multiplicands, common_multiplicands, multiplicands_of
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, b1, e4m3, f32, f64, s4, s8, s32, tf32, u4
from nvbackend.isel.select.wgmma import rules
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted, why_not

_Gate = Gate[WgmmaRequest]


def _spelled(types: Sequence[ElementType]) -> str:
    return "/".join(map(str, types))


def _both(request: WgmmaRequest) -> Multiplicands | None:
    return common_multiplicands(request.a, request.b)


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
    rules.TARGET, lambda _, target: None if target.has_wgmma else {"target": target, "instead": _instead(target)}
)


def _old_ptx(request: WgmmaRequest, target: Target) -> Values | None:
    if _both(request) is None or not target.has_wgmma:
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


PTX_VERSION = _Gate(rules.PTX_VERSION, _old_ptx)


def _is_four_bit(request: WgmmaRequest) -> bool:
    return request.a in (s4, u4) or request.b in (s4, u4)


def _four_bit(request: WgmmaRequest, _: Target) -> Values | None:
    wider = multiplicands_of(s8)
    if wider is None or not _is_four_bit(request):
        return None
    return {"product": _product(request), "wider": _spelled(wider.types), "k": wider.k(request.sparse), "d": s32}


FOUR_BIT = _Gate(rules.FOUR_BIT, _four_bit)

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
    kind = _both(request)
    if _is_four_bit(request) or (kind is not None and request.d in kind.d):
        return None
    kinds = [kind for kind in map(multiplicands_of, dict.fromkeys((request.a, request.b))) if kind is not None]
    if not kinds:
        every = tuple(element for known in wgmma.MULTIPLICANDS for element in known.types)
        expects = f"multiplies {', '.join(map(str, every))}"
        instead = _STAND_INS.get(request.a, "use A and B of one of these types")
    else:
        ways = [f"A/B of type {_spelled(kind.types)} and D of type {_spelled(kind.d)}" for kind in dict.fromkeys(kinds)]
        legal = ", or ".join(ways)
        expects, instead = _EXPECTATIONS.get(kinds[0].types[0], f"expects {legal}"), f"use {legal}"
    return {"expects": expects, "product": _product(request), "instead": instead}


TYPES = _Gate(rules.TYPES, _other_types)

M_EXTENT = _Gate(
    rules.M_EXTENT, lambda request, _: None if request.m == wgmma.M else {"legal": wgmma.M, "m": request.m}
)


def _n(request: WgmmaRequest) -> Values:
    kind = _both(request)
    legal = sorted(kind.n if kind else wgmma.N_VALUES)
    values = {"step": wgmma.N_STEP, "lowest": legal[0], "highest": legal[-1], "nearest": _nearest(request.n, legal)}
    return {**_types(request), **values, "n": request.n}


def _nearest(n: int, legal: Sequence[int]) -> str:
    """The legal numbers on either side of `n`."""
    above = bisect(legal, n)
    return " or ".join(map(str, legal[max(above - 1, 0) : above + 1]))


N_STEP = _Gate(rules.N_STEP, lambda request, _: None if request.n % wgmma.N_STEP == 0 else _n(request))

N_RANGE = _Gate(
    rules.N_RANGE,
    lambda request, _: _n(request) if not wgmma.N_VALUES[0] <= request.n <= wgmma.N_VALUES[-1] else None,
)

N_INTEGER = _Gate(
    rules.N_INTEGER,
    lambda request, _: (
        _n(request) if (kind := _both(request)) and request.n in wgmma.N_VALUES and request.n not in kind.n else None
    ),
)

K_EXTENT = _Gate(
    rules.K_EXTENT,
    lambda request, _: (
        {**_types(request), "legal": kind.k(request.sparse), "k": request.k}
        if (kind := _both(request)) and request.k != kind.k(request.sparse)
        else None
    ),
)

SPARSE = _Gate(
    rules.SPARSE,
    lambda request, _: (
        {
            **_types(request),
            "legal": ", ".join(
                str(element) for each in wgmma.MULTIPLICANDS if each.selectors for element in each.types
            ),
        }
        if (kind := _both(request)) and request.sparse and not kind.selectors
        else None
    ),
)


def _other_selector(request: WgmmaRequest, _: Target) -> Values | None:
    kind = _both(request)
    legal = kind.selectors if kind is not None and request.sparse else (0,)
    if not legal or request.selector in legal:
        return None
    return {**_types(request), "selector": request.selector, "legal": " or ".join(map(str, legal))}


SELECTOR = _Gate(rules.SELECTOR, _other_selector)

POPC = _Gate(
    rules.POPC,
    lambda request, _: (
        {**_types(request), "popc": request.popc, "legal": wgmma.POPC_OPERATION}
        if (kind := _both(request)) and kind.operation and request.popc != wgmma.POPC_OPERATION
        else None
    ),
)

SATFINITE = _Gate(
    rules.SATFINITE,
    lambda request, _: (
        {
            "product": _product(request),
            "legal": _spelled([element for each in wgmma.MULTIPLICANDS if each.saturates for element in each.types]),
        }
        if (kind := _both(request)) and request.satfinite and not kind.saturates
        else None
    ),
)

NEGATE = _Gate(
    rules.NEGATE,
    lambda request, _: (
        _types(request)
        if (kind := _both(request)) and not kind.negates and (request.negate_a or request.negate_b)
        else None
    ),
)


def _transposed(request: WgmmaRequest, _: Target) -> Values | None:
    kind = _both(request)
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


TRANSPOSE = _Gate(rules.TRANSPOSE, _transposed)

GATES = (
    *(TARGET, PTX_VERSION, FOUR_BIT, TYPES, M_EXTENT, N_STEP, N_RANGE, N_INTEGER, K_EXTENT),
    *(SPARSE, SELECTOR, POPC, SATFINITE, NEGATE, TRANSPOSE),
)
"""Every gate. A request that breaks none has a row that ptxas takes for the target."""


def row_of(request: WgmmaRequest) -> Row:
    """The row of a request that breaks no rule."""
    return wgmma.mma_async(
        request.n,
        request.d,
        request.a,
        request.b,
        a_in_registers=request.a_in_registers,
        sparse=request.sparse,
        satfinite=request.satfinite,
    )


@user_facing
def select_wgmma(request: WgmmaRequest, target: Target) -> Row:
    """The row of `wgmma.mma_async` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wgmma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
