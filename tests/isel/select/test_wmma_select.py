"""The selectors of wmma against ptxas, which is asked in PTX written without the rows; and the texts of their rules."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import count_instructions, disassemble
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.types import ELEMENT_TYPES, b1, bf16, e4m3, f16, f32, f64, s4, s8, s32, tf32, u4, u8
from nvbackend.isel.select.rows import faults
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest, request_of
from nvbackend.isel.select.wmma.select import GATES, MOVE_GATES, select_wmma, select_wmma_move
from nvbackend.isel.target.target import Target, dotted, target_names, why_not
from tests.support.ptxas import refusals, witnessed
from tests.support.wmma_text import DECLARATIONS, move, multiplication

AnyRequest = WmmaRequest | WmmaMoveRequest
HOPPER = Target.parse("sm_90a")

DEEP = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
LEGAL_KINDS = (
    *((shape, f16, c, d) for shape in DEEP for c in (f16, f32) for d in (f16, f32)),
    *((shape, bf16, f32, f32) for shape in DEEP),
    ((16, 16, 8), tf32, f32, f32),
    ((8, 8, 4), f64, f64, f64),
    *((shape, element, s32, s32) for shape in DEEP for element in (s8, u8)),
    *(((8, 8, 32), element, s32, s32) for element in (s4, u4)),
    ((8, 8, 128), b1, s32, s32),
)
"""Shape, type of A and B, C and D: typed from PTX ISA 9.7.14.4.5."""
LEGAL_FRAGMENTS = (
    *((which, shape, element) for which in "ab" for shape in DEEP for element in (f16, bf16, s8, u8)),
    *((which, shape, element) for which in "cd" for shape in DEEP for element in (f16, f32, s32)),
    *((which, (16, 16, 8), tf32 if which in "ab" else f32) for which in "abcd"),
    *((which, (8, 8, 4), f64) for which in "abcd"),
    *((which, (8, 8, 32), element) for which in "ab" for element in (s4, u4)),
    *((which, (8, 8, 128), b1) for which in "ab"),
    *((which, shape, s32) for which in "cd" for shape in ((8, 8, 32), (8, 8, 128))),
)
"""Typed from PTX ISA 9.7.14.4.3 and 9.7.14.4.4."""
SHAPES = (
    *(*DEEP, (16, 16, 8), (8, 8, 4), (8, 8, 32), (8, 8, 128)),
    *((8, 32, 8), (32, 8, 8), (16, 16, 4), (16, 16, 32), (8, 8, 16), (16, 8, 16), (16, 8, 8), (8, 8, 64)),
)
TYPES = (f16, bf16, tf32, f32, f64, s8, u8, s4, u4, b1, s32, e4m3)
ACCUMULATORS = (f16, bf16, f32, f64, s32)
FLAGS = (False, True)


def undocumented_multiplication(request: AnyRequest) -> bool:
    if not isinstance(request, WmmaRequest):
        return False
    types = (request.a, request.b, request.c, request.d)
    return types == (f64,) * 4 and request.shape in ((16, 16, 16), (16, 16, 8))


def undocumented_accumulator(request: AnyRequest) -> bool:
    if not isinstance(request, WmmaMoveRequest) or request.fragment not in "cd":
        return False
    return request.element is f32 and request.shape in ((8, 8, 32), (8, 8, 128))


def another_name_of_shared(request: AnyRequest) -> bool:
    return isinstance(request, WmmaMoveRequest) and request.space == "shared::cta"


LEFT_OUT: dict[str, Callable[[AnyRequest], bool]] = {
    "wmma.mma f64 m16n16k16 and m16n16k8": undocumented_multiplication,
    "wmma.load.c and wmma.store.d f32 m8n8k32 and m8n8k128": undocumented_accumulator,
    "wmma.load and wmma.store .shared::cta": another_name_of_shared,
}
"""What ptxas takes at the newest PTX version and selection refuses."""


def popc_of(element: object) -> str | None:
    return "xor" if element is b1 else None


def legal_kinds() -> Iterator[WmmaRequest]:
    for shape, a, c, d in LEGAL_KINDS:
        yield WmmaRequest(shape, a, a, c, d, popc=popc_of(a))


def legal_moves() -> Iterator[WmmaMoveRequest]:
    for which, shape, element in LEGAL_FRAGMENTS:
        operation = "store" if which == "d" else "load"
        yield WmmaMoveRequest(operation, which, shape, element, "col" if which == "b" else "row")


def every_type_and_shape() -> list[AnyRequest]:
    accumulators = [(one, one) for one in ACCUMULATORS] + [(f16, f32), (f32, f16), (s32, f32)]
    axes = itertools.product(SHAPES, TYPES, TYPES, accumulators)
    # Where the multiplicands differ, one accumulator of each arithmetic is enough to see that they may not.
    return [
        WmmaRequest(shape, a, b, c, d, popc=popc_of(a))
        for shape, a, b, (c, d) in axes
        if a is b or (c, d) in ((f32, f32), (s32, s32))
    ]


def every_modifier() -> list[AnyRequest]:
    axes = itertools.product(
        legal_kinds(),
        itertools.product(("row", "col"), repeat=2),
        FLAGS,
        (None, "rn", "rz", "rm", "rp", "rna"),
        (None, "xor", "and", "or"),
    )
    return [
        replace(kind, a_layout=a, b_layout=b, satfinite=satfinite, rounding=rounding, popc=popc)
        for kind, (a, b), satfinite, rounding, popc in axes
    ]


def every_fragment() -> list[AnyRequest]:
    operations = (("load", "a"), ("load", "b"), ("load", "c"), ("load", "d"), ("store", "d"), ("store", "c"))
    axes = itertools.product(operations, SHAPES, TYPES)
    return [
        WmmaMoveRequest(*operation, shape, element, "col" if operation[1] == "b" else "row")
        for operation, shape, element in axes
    ]


def every_address() -> list[AnyRequest]:
    spaces = (None, "global", "shared", "shared::cta", "shared::cluster", "local", "const")
    axes = itertools.product(legal_moves(), ("row", "col"), spaces, FLAGS)
    return [replace(one, layout=layout, space=space, strided=strided) for one, layout, space, strided in axes]


NEIGHBOURHOODS = (every_type_and_shape, every_modifier, every_fragment, every_address)


def text(request: AnyRequest) -> str:
    return multiplication(request) if isinstance(request, WmmaRequest) else move(request)


def broken(request: AnyRequest, target: Target) -> list[str]:
    if isinstance(request, WmmaRequest):
        return [found.rule_id for found in why_not(GATES, request, target)]
    return [found.rule_id for found in why_not(MOVE_GATES, request, target)]


def disagreements(requests: Sequence[AnyRequest], target: Target = HOPPER) -> list[str]:
    """Requests that exactly one of selector and ptxas takes, less those that are left out on purpose."""
    said = refusals([text(one) for one in requests], DECLARATIONS, target.name, dotted(target.ptx_version))
    faults = []
    for request, message in zip(requests, said, strict=True):
        rules = broken(request, target)
        if bool(rules) != bool(message) and not any(left(request) for left in LEFT_OUT.values()):
            faults.append(f"{target}: {text(request)}\n  ptxas: {message or 'takes it'}\n  selector: {rules}")
    return faults


def sampled(requests: Sequence[AnyRequest], target: Target, legal: int, illegal: int) -> list[AnyRequest]:
    """A seeded sample, with at most so many that the selector takes and so many that it refuses."""
    taken: list[AnyRequest] = []
    refused: list[AnyRequest] = []
    for request in random.Random(f"{target} {len(requests)}").sample(requests, len(requests)):
        if len(taken) >= legal and len(refused) >= illegal:
            break
        (refused if broken(request, target) else taken).append(request)
    return taken[:legal] + refused[:illegal]


@pytest.mark.parametrize(
    ("neighbourhood", "legal", "illegal"),
    [(every_type_and_shape, 64, 40), (every_modifier, 64, 40), (every_fragment, 64, 25), (every_address, 64, 20)],
)
def test_verdicts_are_those_of_ptxas(neighbourhood, legal: int, illegal: int) -> None:
    assert disagreements(sampled(neighbourhood(), HOPPER, legal, illegal)) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["sm_70", "sm_75", "sm_86", "sm_100f", "sm_121a"])
def test_verdicts_on_other_chips_are_those_of_ptxas(name: str) -> None:
    target = next(each for each in witnessed() if each.name == name)
    assert disagreements([*legal_kinds(), *legal_moves()], target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", witnessed(), ids=str)
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_every_verdict_is_that_of_ptxas(neighbourhood, target: Target) -> None:
    assert disagreements(neighbourhood(), target) == []


def test_what_is_legal_is_what_the_isa_documents() -> None:
    assert [broken(one, HOPPER) for one in (*legal_kinds(), *legal_moves())] == [[]] * 86
    assert {one for one in every_type_and_shape() if not broken(one, HOPPER)} == set(legal_kinds())
    assert {one for one in every_fragment() if not broken(one, HOPPER)} == set(legal_moves())


def test_what_is_left_out_is_taken_by_ptxas_and_refused_here() -> None:
    """The list of reasons names what these predicates find, and the f16 saturation of old PTX versions."""
    assert set(wmma.NOT_OFFERED) == {*LEFT_OUT, "wmma.mma f16 .satfinite"}
    f64_ones = [WmmaRequest((16, 16, k), f64, f64, f64, f64, rounding=one) for k in (8, 16) for one in (None, "rz")]
    f32_ones = [
        WmmaMoveRequest(operation, which, (8, 8, k), f32)
        for operation, which in (("load", "c"), ("store", "d"))
        for k in (32, 128)
    ]
    shared = [replace(one, space="shared::cta") for one in list(legal_moves())[:4]]
    for left_out, found in zip(LEFT_OUT.values(), (f64_ones, f32_ones, shared), strict=True):
        assert all(left_out(one) and broken(one, HOPPER) for one in found)
        said = refusals([text(one) for one in found], DECLARATIONS, "sm_90a", "9.0")
        assert said == [""] * len(found)


@pytest.mark.parametrize(("shape", "multiplies"), [((8, 8, 4), True), ((16, 16, 16), False), ((16, 16, 8), False)])
def test_ptxas_emits_no_multiplication_for_the_undocumented_f64_shapes(shape, multiplies: bool) -> None:
    request = WmmaRequest(shape, f64, f64, f64, f64)
    lines = [
        ".version 9.0\n.target sm_90a\n.address_size 64",
        f".visible .entry k(.param .u64 memory) {{ {DECLARATIONS} ld.param.u64 %p, [memory];",
        *(f"ld.global.f64 %d{place}, [%p+{8 * place}];" for place in range(8)),
        text(request),
        *(f"st.global.f64 [%p+{8 * place}], %d{place};" for place in range(8)),
        "ret; }",
    ]
    counts = count_instructions(disassemble(assemble("\n".join(lines), HOPPER).data))
    assert counts["STG"] > 0
    assert ("DMMA" in counts) == multiplies


def test_ptxas_dropped_saturating_f16_in_ptx_6_5() -> None:
    saturating = WmmaRequest((16, 16, 16), f16, f16, f32, f32, satfinite=True)
    taken = {
        version: not refusals([text(saturating)], DECLARATIONS, "sm_75", version)[0]
        for version in ("6.3", "6.4", "6.5", "7.0", "9.0")
    }
    assert taken == {"6.3": True, "6.4": True, "6.5": False, "7.0": False, "9.0": False}
    assert broken(saturating, Target.parse("sm_75", (6, 3))) == ["wmma.satfinite"]


@pytest.mark.parametrize("version", [(7, 0), (7, 1)])
def test_ptx_version_gates_are_those_of_ptxas(version: tuple[int, int]) -> None:
    requests = [*legal_kinds(), *(replace(one, popc="and") for one in legal_kinds() if one.a is b1)]
    assert disagreements(requests, Target.parse("sm_80", version)) == []


def test_the_selected_row_says_what_was_asked_for() -> None:
    for request in legal_kinds():
        axes = select_wmma(request, HOPPER).axes
        assert axes == {name: getattr(request, name) for name in WmmaRequest.__slots__}
    for found in legal_moves():
        axes = select_wmma_move(found, HOPPER).axes
        assert axes == {name: getattr(found, name) for name in WmmaMoveRequest.__slots__}


def test_the_verifier_asks_the_same_rules() -> None:
    volta = Target.parse("sm_70")
    for row in (select_wmma(BITS, HOPPER), select_wmma_move(replace(LOAD, element=s8), HOPPER)):
        assert [found.rule_id for found in faults(row, volta, {})] == ["wmma.target"]
        assert faults(row, HOPPER, {}) == []
    for row in wmma.rows():
        request = request_of(row)
        assert (select_wmma if isinstance(request, WmmaRequest) else select_wmma_move)(request, HOPPER) is row


F16 = WmmaRequest((16, 16, 16), f16, f16, f32, f32)
BITS = WmmaRequest((8, 8, 128), b1, b1, s32, s32, popc="xor")
LOAD = WmmaMoveRequest("load", "a", (16, 16, 16), f16)

ONE_RULE = [
    ("wmma.target", replace(F16, a=bf16, b=bf16), "sm_75", "sm_75 has no wmma.mma m16n16k16 bf16", "sm_80 or later"),
    ("wmma.target", replace(BITS, popc="and"), "sm_75", "no wmma.mma.and.popc m8n8k128 b1", "use .xor.popc, or"),
    ("wmma.target", BITS, "sm_72", "sm_72 has no", "use multiplicands of f16 or s8 or u8, or compile for sm_75"),
    ("wmma.target", replace(LOAD, element=s8), "sm_70", "no wmma.load.a m16n16k16 s8", "for sm_72 or later"),
    ("wmma.types", replace(F16, b=bf16), "sm_90a", "f16 x bf16 + f32 -> f32", "one type for A and B, f16 or bf16"),
    ("wmma.types", replace(F16, c=s32), "sm_90a", "f16 x f16 + s32 -> f32", "C and D of f16 or f32"),
    ("wmma.types", replace(F16, a=f32, b=f32), "sm_90a", "f32 x f32", "tf32 multiplicands"),
    ("wmma.types", replace(F16, b=e4m3, a=e4m3), "sm_90a", "e4m3 x e4m3", "mma.sync"),
    ("wmma.types", replace(F16, b=s32), "sm_90a", "f16 x s32", "A and B of f16 or bf16"),
    ("wmma.types", replace(F16, a=s32), "sm_90a", "s32 x f16", "A and B of f16 or bf16"),
    ("wmma.types", replace(F16, b=f32), "sm_90a", "f16 x f32", "tf32 multiplicands"),
    ("wmma.types", replace(F16, a=f32), "sm_90a", "f32 x f16", "tf32 multiplicands"),
    ("wmma.types", replace(F16, a=e4m3, b=f32), "sm_90a", "e4m3 x f32", "mma.sync"),
    ("wmma.shape", replace(F16, shape=(16, 16, 8)), "sm_90a", "f16 has no shape m16n16k8", "use m16n16k16 or"),
    ("wmma.shape", replace(F16, a=tf32, b=tf32, shape=(8, 32, 8)), "sm_90a", "no shape m8n32k8", "use m16n16k8"),
    ("wmma.shape", replace(F16, a=tf32, b=tf32, shape=(32, 8, 8)), "sm_90a", "no shape m32n8k8", "use m16n16k8"),
    ("wmma.shape", WmmaRequest((16, 16, 16), f64, f64, f64, f64), "sm_90a", "emits no multiplication", "use m8n8k4"),
    ("wmma.layout", replace(BITS, a_layout="col"), "sm_90a", "layout row.col, not col.col", "row.col: store"),
    ("wmma.layout", replace(F16, b_layout="diagonal"), "sm_90a", "not row.diagonal", "row.row or row.col"),
    (
        "wmma.layout",
        WmmaMoveRequest("load", "b", (8, 8, 32), u4, "row"),
        "sm_90a",
        "wmma.load.b m8n8k32 u4 takes layout col, not row",
        "use col",
    ),
    ("wmma.satfinite", replace(F16, satfinite=True), "sm_90a", "f16 has no .satfinite", "s8 or u8 or s4 or u4"),
    ("wmma.rounding", replace(F16, rounding="rn"), "sm_90a", "f16 has no rounding 'rn'", "only f64 has it"),
    (
        "wmma.rounding",
        WmmaRequest((8, 8, 4), f64, f64, f64, f64, rounding="rna"),
        "sm_90a",
        "f64 has no rounding 'rna'",
        "use rn or rz or rm or rp",
    ),
    ("wmma.popc", replace(F16, popc="xor"), "sm_90a", ".xor.popc is legal only on b1", "leave popc out"),
    (
        "wmma.popc",
        replace(BITS, popc=None),
        "sm_90a",
        "takes the bit operation xor or and, not None",
        "popc=xor or and",
    ),
    ("wmma.fragment", replace(LOAD, fragment="d", element=f32), "sm_90a", "load does not move", "'a' or 'b' or 'c'"),
    ("wmma.fragment", replace(LOAD, operation="store"), "sm_90a", "does not move a fragment 'a'", "use 'd'"),
    ("wmma.fragment", replace(LOAD, fragment="e"), "sm_90a", "does not move a fragment 'e'", "'a' or 'b' or 'c'"),
    ("wmma.fragment", replace(LOAD, operation="move"), "sm_90a", "wmma.move", "the operations load and store"),
    (
        "wmma.fragment-type",
        replace(LOAD, element=tf32),
        "sm_90a",
        "no fragment a of m16n16k16 tf32",
        "use m16n16k8 for tf32, or f16 or bf16 or s8 or u8 for m16n16k16",
    ),
    ("wmma.fragment-type", replace(LOAD, shape=(1, 2, 3), element=e4m3), "sm_90a", "m1n2k3 e4m3", "m16n16k16 with f16"),
    ("wmma.space", replace(LOAD, space="local"), "sm_90a", "the state space 'local'", "'global' or 'shared', or None"),
]


@pytest.mark.parametrize("shape", [(16, 16, 16), (16, 16, 8), (8, 32, 16), (16, 16, 4), (8, 8, 8), (8, 4, 4)])
def test_what_ptxas_makes_nothing_of_is_said_only_of_that(shape: tuple[int, int, int]) -> None:
    """Two shapes of f64 assemble to no multiplication; the others are refused (the shapes as ptxas 13.5 takes them)."""
    for element in (f64, f16, tf32):
        request = WmmaRequest(shape, element, element, *[f64 if element is f64 else f32] * 2)
        found = [one for one in why_not(GATES, request, HOPPER) if one.rule_id == "wmma.shape"]
        silent = element is f64 and shape in ((16, 16, 16), (16, 16, 8))
        assert ["emits no multiplication" in one.message for one in found] == [silent] * len(found)
        assert found or not silent


def found_by(request: AnyRequest, target: Target):
    with pytest.raises(DiagnosticError) as caught:
        select_wmma(request, target) if isinstance(request, WmmaRequest) else select_wmma_move(request, target)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("rule", "request_", "target", "message", "fix"), ONE_RULE, ids=[f"{c[0]}-{i}" for i, c in enumerate(ONE_RULE)]
)
def test_one_broken_rule(rule: str, request_: AnyRequest, target: str, message: str, fix: str) -> None:
    (found,) = found_by(request_, Target.parse(target))
    assert found.rule_id == rule
    assert message in found.message
    assert fix in found.fix
    assert found.location is not None
    assert found.location.file == __file__


@pytest.mark.parametrize(
    ("request_", "target", "message"),
    [
        (replace(BITS, popc="and"), Target.parse("sm_80", (7, 0)), "needs PTX 7.1 or later"),
        (F16, Target.parse("sm_70", (6, 0)), "wmma.mma m16n16k16 f16 needs PTX 6.3 or later"),
        (LOAD, Target.parse("sm_70", (6, 2)), "wmma.load.a m16n16k16 f16 needs PTX 6.3 or later"),
    ],
)
def test_ptx_version(request_: AnyRequest, target: Target, message: str) -> None:
    (found,) = found_by(request_, target)
    assert found.rule_id == "wmma.ptx-version"
    assert message in found.message


def test_a_chip_without_the_instruction_is_not_told_of_a_ptx_version() -> None:
    """No PTX version brings it: one mistake, one diagnostic."""
    (found,) = found_by(replace(BITS, popc="and"), Target.parse("sm_75", (7, 0)))
    assert found.rule_id == "wmma.target"


def test_every_rule_has_a_request_that_breaks_it() -> None:
    shown = {rule for rule, *_ in ONE_RULE} | {"wmma.ptx-version"}
    assert {gate.rule.id for gate in (*GATES, *MOVE_GATES)} == shown


def test_random_requests_are_rows_or_diagnostics() -> None:
    chooser = random.Random(3)
    targets = [Target.parse(name) for name in target_names()]
    extents = (0, 1, 4, 8, 16, 32, 128)
    selected = 0
    for _ in range(4000):
        shape = chooser.choice([*SHAPES, tuple(chooser.choices(extents, k=3))])
        a, b, c, d = chooser.choices(ELEMENT_TYPES, k=4)
        layouts = chooser.choices(("row", "col", "", None), (4, 4, 1, 1), k=2)
        popc, rounding = chooser.choice((None, None, "xor", "or")), chooser.choice((None, None, "rz", ""))
        requests = (
            WmmaRequest(shape, a, chooser.choice((a, b)), c, d, *layouts, chooser.random() < 0.2, rounding, popc),
            WmmaMoveRequest(chooser.choice(("load", "store", "")), chooser.choice("abcde"), shape, a, layouts[0]),
        )
        for request in requests:
            with contextlib.suppress(DiagnosticError):
                select = select_wmma if isinstance(request, WmmaRequest) else select_wmma_move
                select(request, chooser.choice(targets))
                selected += 1
    assert selected > 10


def test_all_broken_rules_come_together() -> None:
    wrong = WmmaRequest((16, 16, 16), s4, s4, f32, s32, a_layout="col", rounding="rn", popc="xor")
    assert [one.rule_id for one in found_by(wrong, Target.parse("sm_72"))] == [
        "wmma.target",
        "wmma.types",
        "wmma.shape",
        "wmma.layout",
        "wmma.rounding",
        "wmma.popc",
    ]
    move_ = WmmaMoveRequest("load", "b", (8, 8, 128), b1, "row", "const")
    assert [one.rule_id for one in found_by(move_, Target.parse("sm_70"))] == [
        "wmma.target",
        "wmma.layout",
        "wmma.space",
    ]
