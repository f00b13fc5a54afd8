"""What a wgmma instruction may be: every rule and its predicate, for selector and verifier alike.

The legal values are in the tables of `intrinsics.mma.wgmma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import multiplicands_of
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import PtxVersion
from nvbackend.intrinsics.row.types import ElementType, b1, e4m3, f32, f64, s4, s8, s32, tf32, u4, u8
from nvbackend.isel.select.wgmma import shape_rules as wgmma_shape_rules
from nvbackend.isel.select.wgmma.request import Gate, Values, WgmmaRequest, request_of
from nvbackend.isel.target.target import Target, dotted

__all__ = ["GATES", "RULES", "Gate", "WgmmaRequest", "request_of", "violations"]


def _spelled(types: Sequence[ElementType]) -> str:
    return "/".join(str(element) for element in types)


def _product(request: WgmmaRequest) -> str:
    return f"{request.a} x {request.b} -> {request.d}"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TARGET = Rule(
    id="wgmma.target",
    message="{target} has no wgmma",
    fix="{instead}",
    why="LLVM passes the asm on as it is, and ptxas refuses it.",
    reference="PTX ISA 9.7.15.5.2 (Target ISA Notes)",
)
_FIRST_WITH_MMA_SYNC = 75


def _target_holds(_: WgmmaRequest, target: Target) -> bool:
    return target.has_wgmma


def _target_values(_: WgmmaRequest, target: Target) -> Values:
    return {"target": target, "instead": _instead(target)}


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


PTX_VERSION = Rule(
    id="wgmma.ptx-version",
    message="{what} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="ptxas refuses the instruction.",
    reference="PTX ISA 9.7.15.5.2 and 9.7.15.6.3 (PTX ISA Notes); ptxas 13.5",
)


def _needed_ptx(request: WgmmaRequest) -> PtxVersion:
    return wgmma.lowest_ptx_version(request.a, request.b, request.sparse)


def _ptx_holds(request: WgmmaRequest, target: Target) -> bool:
    undecided = request.multiplicands is None or not target.has_wgmma
    return undecided or target.ptx_version >= _needed_ptx(request)


def _ptx_values(request: WgmmaRequest, target: Target) -> Values:
    return {
        "what": f"{'sparse ' if request.sparse else ''}wgmma {request.a} x {request.b}",
        "needed": dotted(_needed_ptx(request)),
        "target": target,
        "given": dotted(target.ptx_version),
    }


TYPES = Rule(
    id="wgmma.types",
    message="WGMMA {expects}, not {product}",
    fix="{instead}",
    why="ptxas refuses the combination; one that it took would be read with the wrong width.",
    reference="PTX ISA 9.7.15.3; ptxas 13.5",
)
FOUR_BIT = Rule(
    id="wgmma.four-bit",
    message="WGMMA has no s4/u4 multiplicands ({product})",
    fix="widen them to {wider} (k={k}, D of type {d}), or use mma.sync, which emulates 4-bit integers on sm_90",
    why="One document lists them; no ptxas takes them.",
    reference="PTX ISA 9.7.15.3; ptxas 13.5",
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


def _is_four_bit(request: WgmmaRequest) -> bool:
    return request.a in (s4, u4) or request.b in (s4, u4)


def _four_bit_holds(request: WgmmaRequest, _: Target) -> bool:
    return not _is_four_bit(request)


def _four_bit_values(request: WgmmaRequest, _: Target) -> Values:
    kind = multiplicands_of(s8)
    k = kind.k(request.sparse) if kind else 0
    return {"product": _product(request), "wider": _spelled((s8, u8)), "k": k, "d": s32}


def _types_hold(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return _is_four_bit(request) or (kind is not None and request.d in kind.d)


def _types_values(request: WgmmaRequest, _: Target) -> Values:
    kind = multiplicands_of(request.a) or multiplicands_of(request.b)
    if kind is None:
        every = tuple(element for found in wgmma.MULTIPLICANDS for element in found.types)
        default = "use A and B of one of these types"
        expects = f"multiplies {', '.join(map(str, every))}"
        return {"expects": expects, "product": _product(request), "instead": _STAND_INS.get(request.a, default)}
    legal = f"A/B of type {_spelled(kind.types)} and D of type {_spelled(kind.d)}"
    return {
        "expects": _EXPECTATIONS.get(kind.types[0], f"expects {legal}"),
        "product": _product(request),
        "instead": f"use {legal}",
    }


POPC = Rule(
    id="wgmma.popc",
    message="WGMMA {a} x {b} has no .{popc}.popc, only .{legal}.popc",
    fix="use .{legal}.popc: popc(a ^ b) is popc(a) + popc(b) - 2 * popc(a & b); "
    "or use mma.sync, which emulates .xor.popc on sm_90",
    why="One document lists .xor.popc; no ptxas takes it for wgmma.",
    reference="PTX ISA 9.7.15.5.2; ptxas 13.5",
)


def _popc_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return kind is None or kind.operation is None or request.popc == wgmma.POPC_OPERATION


def _popc_values(request: WgmmaRequest, _: Target) -> Values:
    return {"a": request.a, "b": request.b, "popc": request.popc, "legal": wgmma.POPC_OPERATION}


SPARSE = Rule(
    id="wgmma.sparse",
    message="WGMMA {a} x {b} has no sparse form",
    fix="use the dense instruction, or A and B of one of the types {legal}",
    why="ptxas knows no shape for it.",
    reference="PTX ISA 9.7.15.6.3; ptxas 13.5",
)
SELECTOR = Rule(
    id="wgmma.selector",
    message="the sparsity selector of {dense} wgmma {a} x {b} is {legal}, not {selector}",
    fix="use selector {legal}",
    why="It names the threads whose metadata counts: with another one ptxas stops, or metadata is not read.",
    reference="PTX ISA 9.7.15.6.3; ptxas 13.5",
)


def _sparse_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return kind is None or not request.sparse or bool(kind.selectors)


def _sparse_values(request: WgmmaRequest, _: Target) -> Values:
    legal = (element for kind in wgmma.MULTIPLICANDS if kind.selectors for element in kind.types)
    return {"a": request.a, "b": request.b, "legal": ", ".join(map(str, legal))}


def _legal_selectors(request: WgmmaRequest) -> tuple[int, ...]:
    kind = request.multiplicands
    return kind.selectors if kind is not None and request.sparse else (0,)


def _selector_holds(request: WgmmaRequest, _: Target) -> bool:
    legal = _legal_selectors(request)
    return not legal or request.selector in legal


def _selector_values(request: WgmmaRequest, _: Target) -> Values:
    return {
        "dense": "sparse" if request.sparse else "dense",
        "a": request.a,
        "b": request.b,
        "selector": request.selector,
        "legal": " or ".join(map(str, _legal_selectors(request))),
    }


SATFINITE = Rule(
    id="wgmma.satfinite",
    message="WGMMA {product} has no .satfinite",
    fix="leave satfinite out; only A/B of type {legal} have it",
    why="ptxas refuses the modifier.",
    reference="PTX ISA 9.7.15.5.2; ptxas 13.5",
)


def _satfinite_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return kind is None or not request.satfinite or kind.saturates


def _satfinite_values(request: WgmmaRequest, _: Target) -> Values:
    legal = tuple(element for kind in wgmma.MULTIPLICANDS if kind.saturates for element in kind.types)
    return {"product": _product(request), "legal": _spelled(legal)}


NEGATE = Rule(
    id="wgmma.negate",
    message="WGMMA {a} x {b} cannot negate an operand",
    fix="negate the values where they are made, or the accumulator where it is read",
    why="The instruction has no place for the sign, and would add where it should subtract.",
    reference="PTX ISA 9.7.15.5.2 (imm-scale-a, imm-scale-b)",
)


def _negate_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return kind is None or kind.negates or not (request.negate_a or request.negate_b)


def _negate_values(request: WgmmaRequest, _: Target) -> Values:
    return {"a": request.a, "b": request.b}


TRANSPOSE = Rule(
    id="wgmma.transpose",
    message="{reason} (trans_a={trans_a}, trans_b={trans_b})",
    fix="{instead}",
    why="The instruction has no place for the flag: the operand would be read as if it were K-major.",
    reference="PTX ISA 9.7.15.5.2 (imm-trans-a, imm-trans-b)",
)


def _transpose_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    if kind is None:
        return True
    legal_b = wgmma.TRANSPOSES if kind.transposes else (0,)
    legal_a = (0,) if request.a_in_registers else legal_b
    return request.trans_a in legal_a and request.trans_b in legal_b


def _transpose_values(request: WgmmaRequest, _: Target) -> Values:
    kind = request.multiplicands
    if kind is not None and not kind.transposes:
        reason = f"WGMMA reads {request.a} x {request.b} K-major only, not MN-major: 16-bit types alone can be either"
        instead = "store the operand K-major, or transpose it on its way into shared memory"
    elif request.a_in_registers and request.trans_a:
        reason = "WGMMA cannot transpose an A in registers"
        instead = "leave trans_a 0 and put each element where its fragment has it, or give A by descriptor"
    else:
        reason = "a transpose flag of WGMMA is 0 (K-major) or 1 (MN-major)"
        instead = "use 0 or 1"
    return {"reason": reason, "instead": instead, "trans_a": request.trans_a, "trans_b": request.trans_b}


GATES: tuple[Gate, ...] = (
    Gate(TARGET, _target_holds, _target_values),
    Gate(PTX_VERSION, _ptx_holds, _ptx_values),
    Gate(FOUR_BIT, _four_bit_holds, _four_bit_values),
    Gate(TYPES, _types_hold, _types_values),
    *wgmma_shape_rules.GATES,
    Gate(SPARSE, _sparse_holds, _sparse_values),
    Gate(SELECTOR, _selector_holds, _selector_values),
    Gate(POPC, _popc_holds, _popc_values),
    Gate(SATFINITE, _satfinite_holds, _satfinite_values),
    Gate(NEGATE, _negate_holds, _negate_values),
    Gate(TRANSPOSE, _transpose_holds, _transpose_values),
)
"""Every gate. A request with no broken one has a row that ptxas takes for the target."""
RULES: tuple[Rule, ...] = tuple(gate.rule for gate in GATES)


def violations(request: WgmmaRequest, target: Target, at: Location | None = None) -> list[Diagnostic]:
    """Every rule that `request` breaks on `target`, in the order of GATES, at `at` or else at the caller's line."""
    return [
        gate.rule.diagnose(at=at, **gate.values(request, target)) for gate in GATES if not gate.holds(request, target)
    ]
