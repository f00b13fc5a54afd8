"""Selection of tcgen05.mma: every request of the neighbourhood against ptxas, and the texts of its rules."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.copy import tcgen05_memory, tcgen05_registers
from nvbackend.intrinsics.mma import families, tcgen05
from nvbackend.intrinsics.row.types import bf16, e2m1, e4m3, f16, f32, s8, s32, u8, ue4m3, ue8m0
from nvbackend.intrinsics.words.tcgen05_control import control_words
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.tcgen05.protocol import check_cta_groups
from nvbackend.isel.select.tcgen05.request import Tcgen05Request, request_of
from nvbackend.isel.select.tcgen05.select import GATES, select_tcgen05
from nvbackend.isel.select.tcgen05.shapes import legal_m, legal_n, shape_faults
from nvbackend.isel.target.target import Target, dotted, target_names, why_not
from nvbackend.isel.verify.verify import verify
from tests.support.ptxas import assemble, on_a_sample, refusals
from tests.support.tcgen05_ptx import AXES, DECLARATIONS, PLAIN, is_undocumented, mma

SEED = 31
SM_100A = Target.parse("sm_100a")
SM_100F = Target.parse("sm_100f")


def broken(request: Tcgen05Request, target: Target = SM_100A) -> dict[str, str]:
    with pytest.raises(DiagnosticError) as error:
        select_tcgen05(request, target)
    return {found.rule_id: found.message for found in error.value.diagnostics}


def choices(count: int) -> list[dict[str, Any]]:
    """Random choices of all axes, each two away from the plain one at most (further ones are all refused)."""
    chance = random.Random(SEED)
    found = []
    for _ in range(count):
        choice = dict(PLAIN) | {"kind": chance.choice(AXES["kind"])}
        if choice["kind"].startswith("mx"):
            choice |= {"block": True, "vector": chance.choice(AXES["vector"])}
        for axis in chance.sample(sorted(AXES), 2):
            choice[axis] = chance.choice(AXES[axis])
        if not (choice["ws"] and choice["scaled"]):
            found.append(choice)
    return found


def asked(choice: dict[str, Any]) -> Tcgen05Request | None:
    """The choice as a request; none can ask for a mask of the wrong length."""
    if choice["lanes"] not in (0, 4 * choice["group"]):
        return None
    return Tcgen05Request(
        choice["kind"],
        cta_group=choice["group"],
        a_in_tmem=choice["a_in_tmem"],
        sparse=choice["sparse"],
        weight_stationary=choice["ws"],
        block_scale=choice["block"],
        scale_vector=choice["vector"],
        collector=choice["collector"],
        ashift=choice["ashift"],
        scale_input_d=choice["scaled"],
        disable_output_lane=bool(choice["lanes"]),
        zero_column_mask=choice["masked"],
    )


@pytest.mark.parametrize("target", on_a_sample(), ids=str)
def test_a_request_is_selected_exactly_where_ptxas_takes_it(target: Target) -> None:
    cases = [(choice, request) for choice in choices(40) if (request := asked(choice)) is not None]
    texts = [mma(choice) for choice, _ in cases]
    said = refusals([one.text for one in texts], DECLARATIONS, target.name, dotted(target.ptx_version))
    for text, (_, request), message in zip(texts, cases, said, strict=True):
        if message or is_undocumented(text):
            assert why_not(GATES, request, target), text
        else:
            row = select_tcgen05(request, target)
            assert row.ptx == text.spelling
            assert [(operand.name, operand.count) for operand in row.operands] == list(text.operands)


def test_a_row_is_what_its_own_request_selects() -> None:
    for row in random.Random(SEED).sample([*tcgen05.rows()], 300):
        assert select_tcgen05(request_of(row), _any_target(row)) is row


def _any_target(row: Any) -> Target:
    return next(
        target for target in map(Target.parse, target_names()) if target.has(row.requires) and target.number != 101
    )


REFUSED: list[tuple[str, Tcgen05Request, str, str]] = [
    # The seed's texts, letter by letter.
    (
        "INT8 type is supported only on arch-conditional variants.",
        Tcgen05Request("i8"),
        "sm_100f",
        "tcgen05.int8-target",
    ),
    (
        "MXF4 and MXF4NVF4 types with Sparsity are supported only on arch-conditional variants.",
        Tcgen05Request("mxf4", block_scale=True, sparse=True),
        "sm_103f",
        "tcgen05.sparse-fp4-target",
    ),
    (
        "Explicit scale vector size is supported only on arch-conditional variants.",
        Tcgen05Request("mxf4", block_scale=True, scale_vector="scale_vec::2X"),
        "sm_110f",
        "tcgen05.scale-vector-target",
    ),
    (
        "Scale input accumulator is not supported on this architecture.",
        Tcgen05Request("f16", scale_input_d=True),
        "sm_110a",
        "tcgen05.scale-input-target",
    ),
    (
        "Scale input accumulator can only be used with f16 and tf32 types",
        Tcgen05Request("f8f6f4", scale_input_d=True),
        "sm_100a",
        "tcgen05.scale-input-kind",
    ),
    (
        "Block scale is not supported for f16, tf32, f8f6f4, and i8 types",
        Tcgen05Request("tf32", block_scale=True),
        "sm_100a",
        "tcgen05.block-scale-kind",
    ),
    (
        "ashift is not supported with tcgen05.mma.block_scale variants",
        Tcgen05Request("mxf4", block_scale=True, ashift=True, a_in_tmem=True),
        "sm_100a",
        "tcgen05.ashift-block-scale",
    ),
    (
        "cta_group::2 is not supported with weight stationary",
        Tcgen05Request("f16", cta_group=2, weight_stationary=True),
        "sm_100a",
        "tcgen05.ws-cta-group",
    ),
    (
        "Cannot use weight stationary with mxf8f6f4 and fp4 types",
        Tcgen05Request("mxf8f6f4", block_scale=True, weight_stationary=True),
        "sm_100a",
        "tcgen05.ws-kind",
    ),
    (
        "Cannot use collector::a::use or colletor::a::fill with ashift",
        Tcgen05Request("f16", a_in_tmem=True, ashift=True, collector="a::fill"),
        "sm_100a",
        "tcgen05.ashift-collector",
    ),
    (
        "scale vector size is not legal for this input family",
        Tcgen05Request("mxf8f6f4", block_scale=True, scale_vector="scale_vec::4X"),
        "sm_100a",
        "tcgen05.scale-vector",
    ),
    # Ours.
    ("sm_120a has no tcgen05", Tcgen05Request("f16"), "sm_120a", "tcgen05.target"),
    ("tcgen05.mma has no kind::f32", Tcgen05Request("f32"), "sm_100a", "tcgen05.kind"),
    ("tcgen05.mma has no cta_group::4", Tcgen05Request("f16", cta_group=4), "sm_100a", "tcgen05.cta-group"),
    (
        "kind::mxf4 has no form without block scale",
        Tcgen05Request("mxf4"),
        "sm_100a",
        "tcgen05.block-scale-needed",
    ),
    (
        "kind::mxf4nvf4 has no default for the elements that share a scale factor",
        Tcgen05Request("mxf4nvf4", block_scale=True),
        "sm_100a",
        "tcgen05.scale-vector-needed",
    ),
    (
        "ashift moves the rows of an A in tensor memory; this one is in shared memory",
        Tcgen05Request("f16", ashift=True),
        "sm_100a",
        "tcgen05.ashift-shared",
    ),
    (
        "a weight-stationary tcgen05.mma has no disable_output_lane",
        Tcgen05Request("f16", weight_stationary=True, disable_output_lane=True),
        "sm_100a",
        "tcgen05.ws-operands",
    ),
    (
        "only a weight-stationary tcgen05.mma has a zero-column mask",
        Tcgen05Request("f16", zero_column_mask=True),
        "sm_100a",
        "tcgen05.zero-column-mask",
    ),
    (
        "kind::mxf4 cannot leave lanes of D unchanged (disable-output-lane)",
        Tcgen05Request("mxf4", block_scale=True, disable_output_lane=True),
        "sm_100a",
        "tcgen05.output-lanes",
    ),
    (
        "tcgen05.mma.ws has no collector::a::fill",
        Tcgen05Request("f16", weight_stationary=True, collector="a::fill"),
        "sm_100a",
        "tcgen05.collector",
    ),
]


@pytest.mark.parametrize(("text", "request_", "name", "rule"), REFUSED, ids=[case[3] for case in REFUSED])
def test_each_rule_says_its_text(text: str, request_: Tcgen05Request, name: str, rule: str) -> None:
    assert broken(request_, Target.parse(name)) == {rule: text}


@pytest.mark.parametrize(("text", "request_", "name", "rule"), REFUSED, ids=[case[3] for case in REFUSED])
def test_ptxas_refuses_what_a_rule_refuses(text: str, request_: Tcgen05Request, name: str, rule: str) -> None:
    choice = {
        "kind": request_.kind,
        "group": request_.cta_group,
        "a_in_tmem": request_.a_in_tmem,
        "sparse": request_.sparse,
        "ws": request_.weight_stationary,
        "block": request_.block_scale,
        "vector": request_.scale_vector,
        "ashift": request_.ashift,
        "collector": request_.collector,
        "lanes": 4 * request_.disable_output_lane,
        "scaled": request_.scale_input_d,
        "masked": request_.zero_column_mask,
    }
    assert refusals([mma(choice).text], DECLARATIONS, name, "9.0") != [""], (text, rule)


def test_an_arch_conditional_chip_without_integers_is_told_where_they_are() -> None:
    assert "tcgen05.int8-target" in broken(Tcgen05Request("i8"), Target.parse("sm_103a"))
    with pytest.raises(DiagnosticError) as error:
        select_tcgen05(Tcgen05Request("i8"), Target.parse("sm_103a"))
    fix = error.value.diagnostics[0].fix
    assert "sm_100a" in fix
    assert "sm_110a" in fix


def test_an_old_ptx_version_is_refused() -> None:
    blocked = Tcgen05Request("mxf4", block_scale=True, scale_vector="block32")
    assert "tcgen05.ptx-version" in broken(blocked, Target.parse("sm_100a", (8, 7)))
    assert select_tcgen05(blocked, Target.parse("sm_100a", (8, 8)))
    nvfp4 = Tcgen05Request("mxf4nvf4", block_scale=True, scale_vector="scale_vec::4X")
    assert "tcgen05.ptx-version" in broken(nvfp4, Target.parse("sm_100a", (8, 6)))


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_90a", "sm_120", "sm_120a"])
@pytest.mark.parametrize(
    "request_",
    [
        Tcgen05Request("f16"),
        Tcgen05Request("i8"),
        Tcgen05Request("mxf4", block_scale=True, sparse=True),
        Tcgen05Request("mxf4", block_scale=True, scale_vector="scale_vec::2X"),
        Tcgen05Request("mxf4nvf4", block_scale=True, scale_vector="block32"),
        Tcgen05Request("tf32", scale_input_d=True),
    ],
    ids=str,
)
def test_a_target_without_tcgen05_lacks_nothing_else(target: str, request_: Tcgen05Request) -> None:
    """A newer version of PTX, where it is an old one, would not help."""
    for version in (None, (8, 0)) if target.startswith(("sm_7", "sm_9")) else (None,):
        assert list(broken(request_, Target.parse(target, version))) == ["tcgen05.target"]


@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
@pytest.mark.parametrize("given", [None, "3X"])
def test_the_scale_vectors_that_are_advised_are_those_that_are_taken(kind: str, given: str | None) -> None:
    """And no others, of the spellings of the PTX ISA (9.7.16.10.7)."""
    spellings = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32", "block64")
    request = Tcgen05Request(kind, block_scale=True)
    found = [
        one
        for one in why_not(GATES, dataclasses.replace(request, scale_vector=given), SM_100A)
        if one.rule_id.startswith("tcgen05.scale-vector")
    ]
    taken = {name for name in spellings if not why_not(GATES, dataclasses.replace(request, scale_vector=name), SM_100A)}
    assert taken
    assert len(found) == (given is not None or kind == "mxf4nvf4")
    for one in found:
        assert {name for name in spellings if name in one.fix} == taken


def test_all_broken_rules_are_told_together() -> None:
    request = Tcgen05Request("mxf4nvf4", cta_group=2, weight_stationary=True, ashift=True, collector="a::use")
    found = broken(request, Target.parse("sm_100f"))
    assert list(found) == [
        "tcgen05.block-scale-needed",
        "tcgen05.scale-vector-needed",
        "tcgen05.ashift-block-scale",
        "tcgen05.ashift-collector",
        "tcgen05.ashift-shared",
        "tcgen05.ws-cta-group",
        "tcgen05.ws-kind",
        "tcgen05.ws-operands",
        "tcgen05.collector",
    ]


@pytest.mark.parametrize("name", ["kind", "cta_group", "scale_vector", "collector"])
def test_a_container_is_refused_as_the_request_is_made(name: str) -> None:
    with pytest.raises(DiagnosticError, match=rf"call\.argument.*{name} must be .*, not \[\] \(a list\)"):
        dataclasses.replace(Tcgen05Request("f16"), **{name: []})


@pytest.mark.parametrize("given", [None, 3, "f16x2"])
def test_nonsense_is_refused_as_any_other_value(given: object) -> None:
    for name in ("kind", "cta_group", "scale_vector", "collector"):
        if given is not None or name in ("kind", "cta_group"):
            assert broken(dataclasses.replace(Tcgen05Request("f16"), **{name: given}))


def test_the_verifier_uses_the_same_gates() -> None:
    row = tcgen05.mma("mxf4", sparse=True)
    function = MachineFunction("kernel", SM_100F)
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, words=control_words(row)))
    assert [found.rule_id for found in verify(function)] == ["tcgen05.sparse-fp4-target"]
    function.target = SM_100A
    assert verify(function) == []


def test_a_function_has_one_cta_group() -> None:
    function = MachineFunction("kernel", SM_100A)
    rows = (
        tcgen05_memory.alloc(1),
        tcgen05.mma("f16", cta_group=1),
        tcgen05_memory.shift(2),
        tcgen05_registers.wait("ld"),
    )
    for row in rows:
        words = control_words(row) if row.opcode == families.TCGEN05_MMA else {}
        function.block("entry").instructions.append(MachineInstr(row.opcode, row, words=words))
    found = list(check_cta_groups(function))
    assert [one.rule_id for one in found] == ["tcgen05.cta-groups-mixed"]
    assert "tcgen05.shift is of cta_group::2" in found[0].message
    assert [one.rule_id for one in verify(function)] == ["tcgen05.cta-groups-mixed"]


def test_ptxas_refuses_two_cta_groups_in_one_function() -> None:
    header = ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() { .reg .b32 t; mov.b32 t, 0; "
    text = "tcgen05.relinquish_alloc_permit.cta_group::{}.sync.aligned; tcgen05.shift.cta_group::{}.down [t]; ret; }}"
    verdicts = {
        groups: assemble(header + text.format(*groups), "sm_100a")[0] for groups in itertools.product((1, 2), (1, 2))
    }
    assert verdicts == {(1, 1): True, (1, 2): False, (2, 1): False, (2, 2): True}


def described(kind: str, m: int, n: int, **more: Any) -> InstructionDescriptor:
    types = {
        "f16": {"a": f16, "b": bf16, "d": f32},
        "i8": {"a": s8, "b": u8, "d": s32},
        "mxf8f6f4": {"a": e4m3, "b": e2m1, "d": f32, "scale": ue8m0},
        "mxf4nvf4": {"a": e2m1, "b": e2m1, "d": f32, "scale": ue4m3},
    }[kind]
    return InstructionDescriptor(kind=kind, m=m, n=n, **types, **more)


@pytest.mark.parametrize(
    ("asked_", "m", "n", "rules"),
    [
        (Tcgen05Request("f16"), 128, 256, []),
        (Tcgen05Request("f16"), 64, 8, []),
        (Tcgen05Request("f16"), 256, 256, ["tcgen05.m"]),
        (Tcgen05Request("f16", cta_group=2), 256, 256, []),
        (Tcgen05Request("f16", cta_group=2), 64, 24, ["tcgen05.m", "tcgen05.n"]),
        (Tcgen05Request("f16", weight_stationary=True), 32, 64, []),
        (Tcgen05Request("f16", weight_stationary=True), 16, 8, ["tcgen05.m", "tcgen05.n"]),
        (Tcgen05Request("i8"), 128, 24, []),
        (Tcgen05Request("i8"), 128, 40, ["tcgen05.n"]),
        (Tcgen05Request("i8", cta_group=2), 128, 48, ["tcgen05.n"]),
        (Tcgen05Request("mxf8f6f4", block_scale=True), 256, 8, ["tcgen05.m"]),
        (Tcgen05Request("mxf4nvf4", block_scale=True, cta_group=2), 256, 16, []),
    ],
)
def test_shapes_are_those_of_the_ptx_isas_table(asked_: Tcgen05Request, m: int, n: int, rules: list[str]) -> None:
    assert [found.rule_id for found in shape_faults(asked_, described(asked_.kind, m, n))] == rules


def test_a_sparse_scaled_pair_has_256_rows_alone() -> None:
    request = Tcgen05Request("mxf8f6f4", block_scale=True, cta_group=2, sparse=True)
    assert legal_m(request) == (256,)
    assert list(legal_n(Tcgen05Request("f16", weight_stationary=True, sparse=True))) == [64, 128]


def test_a_request_is_dense_and_of_one_cta_unless_it_says_otherwise() -> None:
    """The request of the row of the plain instruction, whose qualifiers are all written out."""
    plain = tcgen05.mma("f16", cta_group=1, a_in_tmem=False, sparse=False, scale_input_d=False)
    assert Tcgen05Request("f16") == request_of(plain)


def test_a_kind_that_does_not_exist_has_no_scale_factors() -> None:
    assert legal_m(Tcgen05Request("f17")) == (64, 128)
    assert legal_m(Tcgen05Request("f17", cta_group=2, sparse=True)) == (128, 256)


@pytest.mark.parametrize(
    ("kind", "vector", "scale", "rules"),
    [
        ("mxf4nvf4", "scale_vec::4X", ue4m3, []),
        ("mxf4nvf4", "scale_vec::4X", ue8m0, []),
        ("mxf4nvf4", "block16", ue4m3, []),
        ("mxf4nvf4", "block16", ue8m0, []),
        ("mxf4nvf4", "scale_vec::2X", ue8m0, []),
        ("mxf4nvf4", "block32", ue8m0, []),
        ("mxf4nvf4", "scale_vec::2X", ue4m3, ["block-scale.atom"]),
        ("mxf4nvf4", "block32", ue4m3, ["block-scale.atom"]),
        ("mxf8f6f4", "block32", ue8m0, []),
        ("mxf8f6f4", None, ue8m0, []),
    ],
)
def test_scale_factors_of_32_elements_are_powers_of_two(kind: str, vector: str, scale: Any, rules: list[str]) -> None:
    """The seed's triples, with which CUTLASS agrees."""
    descriptor = dataclasses.replace(described(kind, 128, 64), scale=scale)
    request = Tcgen05Request(kind, block_scale=True, scale_vector=vector)
    assert [one.rule_id for one in shape_faults(request, descriptor)] == rules


def test_a_descriptor_of_another_kind_is_refused() -> None:
    found = list(shape_faults(Tcgen05Request("f16", sparse=True), described("f16", 128, 64)))
    assert [one.rule_id for one in found] == ["tcgen05.descriptor"]
    assert "sparse kind::f16" in found[0].message
    assert "dense kind::f16" in found[0].message


def test_a_k_of_96_is_there_on_sm_103a_alone() -> None:
    """As in CUTLASS, whose SM103MmaMXF4Op and SM103MmaMXF4NVF4Op are the only ones with it."""
    request = Tcgen05Request("mxf4nvf4", block_scale=True)
    wide, narrow = (described("mxf4nvf4", 128, 64, k96=given) for given in (True, False))
    legal = [name for name in target_names() if not list(shape_faults(request, wide, Target.parse(name)))]
    assert legal == ["sm_103a"]
    assert not any(list(shape_faults(request, narrow, Target.parse(name))) for name in target_names())
    (found,) = shape_faults(request, wide, Target.parse("sm_100a"))
    assert found.rule_id == "tcgen05.k96"
    assert "use K = 64" in found.fix
    assert "sm_103a" in found.fix
