"""Targets: names, PTX versions and features against LLVM, ptxas and a second transcription."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import re

import pytest

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.intrinsics.row.features import Feature, PtxVersion
from nvbackend.intrinsics.sync import warp
from nvbackend.isel.target.target import (
    NEWEST_PTX,
    Target,
    dotted,
    highest_ptx_version,
    lowest_ptx_version,
    target_names,
    variant,
)
from tests.support.process import run_python
from tests.support.ptxas import assemble
from tests.support.rows import FIRST_PTXAS_CHIP, PTX_VERSIONS, compile_batch, version_before

EMPTY_IR = 'target triple = "nvptx64-nvidia-cuda"\ndefine ptx_kernel void @k() {\n  ret void\n}\n'
RENAMED_CHIP = 101
"""sm_101 became sm_110: ptxas 13 has no such chip any more."""
ASSEMBLED = [
    name
    for name in target_names()
    if Target.parse(name).number >= FIRST_PTXAS_CHIP and Target.parse(name).number != RENAMED_CHIP
]
TMEM_CHIPS = {100, 101, 103, 110}


def _empty_ptx(name: str, version: PtxVersion) -> str:
    return f".version {dotted(version)}\n.target {name}\n.address_size 64\n.entry k() {{ ret; }}\n"


def _broken(name: object, version: object = None) -> Diagnostic:
    with pytest.raises(DiagnosticError) as raised:
        Target.parse(name, version)  # type: ignore[arg-type]
    (diagnostic,) = raised.value.diagnostics
    return diagnostic


def _said_by_llvm(cpu: str, features: str = "") -> str:
    return run_python(
        "import sys\n"
        "from llvmlite import binding\n"
        "binding.initialize_all_targets()\n"
        "target = binding.Target.from_triple('nvptx64-nvidia-cuda')\n"
        "target.create_target_machine(cpu=sys.argv[1], features=sys.argv[2])\n",
        cpu,
        features,
    ).stderr


def test_names_are_the_cpus_of_llvm_from_sm_70_on() -> None:
    listed = re.findall(r"^\s+(sm_(\d+)[af]?) +- Select", _said_by_llvm("help"), re.MULTILINE)
    assert listed
    assert {name for name, number in listed if int(number) >= 70} == set(target_names())


def test_the_newest_ptx_version_is_the_newest_that_llvm_prints() -> None:
    printed = re.findall(r"^\s+ptx(\d)(\d) +- Use PTX", _said_by_llvm("help", "+help"), re.MULTILINE)
    assert max((int(major), int(minor)) for major, minor in printed) == NEWEST_PTX


@pytest.mark.parametrize("name", ASSEMBLED)
def test_ptxas_takes_the_lowest_version_and_refuses_the_one_before(name: str) -> None:
    target = Target.parse(name)
    lowest = lowest_ptx_version(target.number, target.suffix)
    accepted, said = assemble(_empty_ptx(name, lowest), name)
    assert accepted, said
    before = version_before(lowest)
    assert before is not None
    accepted, _ = assemble(_empty_ptx(name, before), name)
    assert not accepted


def test_llvm_prints_each_target_at_its_lowest_and_newest_version() -> None:
    jobs = [
        (EMPTY_IR, Target.parse(name, version))
        for name in target_names()
        for version in (
            lowest_ptx_version(Target.parse(name).number, Target.parse(name).suffix),
            highest_ptx_version(Target.parse(name).number),
        )
    ]
    for (_, target), compiled in zip(jobs, compile_batch(jobs), strict=True):
        assert f".version {dotted(target.ptx_version)}\n.target {target.name}\n" in compiled.ptx, compiled.error


def test_llvm_does_not_take_the_version_before_the_lowest() -> None:
    jobs = []
    for name in target_names():
        target = Target.parse(name)
        before = version_before(lowest_ptx_version(target.number, target.suffix))
        if before is not None:
            jobs.append((EMPTY_IR, dataclasses.replace(target, ptx_version=before)))
    assert len(jobs) == len(target_names()) - 1
    taken = [job[1].name for job, compiled in zip(jobs, compile_batch(jobs), strict=True) if compiled.ptx]
    assert taken == []


@pytest.mark.parametrize("name", target_names())
def test_version_range(name: str) -> None:
    number, suffix = Target.parse(name).number, Target.parse(name).suffix
    for version in PTX_VERSIONS:
        if lowest_ptx_version(number, suffix) <= version <= highest_ptx_version(number):
            assert Target.parse(name, version).ptx_version == version
        else:
            diagnostic = _broken(name, version)
            assert diagnostic.rule_id == "target.ptx-version"
            assert dotted(version) in diagnostic.message


WHOLE_GRID = [(major, minor) for major in range(11) for minor in range(11)]
EXISTING = set(PTX_VERSIONS)
"""Of the release notes, not of the table under test."""


def test_every_version_is_printed_by_llvm_or_refused_before_it() -> None:
    """LLVM ends its process on a PTX version that does not exist, or is older than the CPU."""
    taken = []
    for name in target_names():
        for version in WHOLE_GRID:
            try:
                taken.append(Target.parse(name, version))
            except DiagnosticError as error:
                (found,) = error.diagnostics
                assert (found.rule_id, found.values["default"]) == (
                    "target.ptx-version",
                    dotted(Target.parse(name).ptx_version),
                )
    assert {target.ptx_version for target in taken} == EXISTING
    for target, compiled in zip(taken, compile_batch([(EMPTY_IR, target) for target in taken]), strict=True):
        assert f".version {dotted(target.ptx_version)}\n.target {target.name}\n" in compiled.ptx, compiled.error


def test_a_version_that_does_not_exist_is_told_with_those_that_do() -> None:
    message = _broken("sm_90", (8, 9)).message
    assert message == "PTX version 8.9 cannot be used with sm_90: it takes 7.8, 8.0 to 8.8 or 9.0"
    assert _broken("sm_101a", (9, 0)).message.endswith("it takes 8.6 to 8.8")
    assert _broken("sm_110a", (8, 8)).message.endswith("it takes 9.0")
    assert _broken("sm_90", (10**5000, 0)).rule_id == "target.ptx-version"


@pytest.mark.parametrize("name", target_names())
def test_the_default_version_is_read_by_the_ptxas_that_knows_the_target(name: str) -> None:
    accepted, said = assemble(_empty_ptx(name, Target.parse(name).ptx_version), name)
    assert accepted, said


@pytest.mark.parametrize("name", target_names())
def test_the_default_version_is_the_newest_but_for_chips_that_ptxas_13_does_not_know(name: str) -> None:
    """CUDA 12.9 is the last toolkit with sm_70, sm_72 and sm_101, and reads PTX 8.8 (PTX ISA 13, release notes)."""
    number = int(re.sub(r"\D", "", name))
    assert Target.parse(name).ptx_version == ((8, 8) if number in (70, 72, 101) else NEWEST_PTX)


def test_sm_101_ends_where_sm_110_begins() -> None:
    assert highest_ptx_version(101) == (8, 8)
    assert lowest_ptx_version(110, "") == (9, 0)


@pytest.mark.parametrize("name", target_names())
def test_features_by_a_second_reading(name: str) -> None:
    """PTX ISA 11.1.2 and the `Target ISA Notes` of each instruction, as inequalities on the number."""
    target = Target.parse(name)
    match = re.fullmatch(r"sm_(\d+)([af]?)", name)
    assert match is not None
    number, suffix = int(match[1]), match[2]
    datacenter = suffix != "" and number in TMEM_CHIPS
    expected = {
        Feature.ARCH_CONDITIONAL: suffix == "a",
        Feature.FAMILY_CONDITIONAL: suffix != "",
        Feature.SM_75: number >= 75,
        Feature.SM_80: number >= 80,
        Feature.SM_89: number >= 89,
        Feature.SM_90: number >= 90,
        Feature.SM_100: number >= 100,
        Feature.WGMMA: name == "sm_90a",
        Feature.TMEM: datacenter,
        Feature.SETMAXNREG: name == "sm_90a" or (suffix != "" and number >= 100),
        Feature.CLUSTER_MULTICAST: number >= 90,
        Feature.TMEM_INT8: datacenter and suffix == "a" and number != 103,
        Feature.TMEM_REDUCE: datacenter and number != 100,
        Feature.SCALE_INPUT_ACCUMULATOR: datacenter and number not in (101, 110),
        Feature.WIDE_IM2COL: datacenter,
        Feature.TWO_CTA_TMA: datacenter,
        Feature.BLOCK_SCALED_MMA: suffix != "" and number in (120, 121),
        Feature.TMA_GATHER: datacenter,
        Feature.REDUX_F32: datacenter and number not in (101, 110),
        Feature.MULTIMEM_FP8: datacenter or name in ("sm_120a", "sm_121a"),
        Feature.NARROW_FLOATS: suffix != "" and number >= 100,
        Feature.STOCHASTIC_ROUNDING: name in ("sm_100a", "sm_103a"),
        Feature.TMA_SWIZZLE_96: name == "sm_103a",
        Feature.TMEM_K96: name == "sm_103a",
    }
    wrong = [feature for feature, has in expected.items() if target.has(feature) != has]
    assert wrong == []


_DATACENTER = {f"sm_{number}{suffix}" for number in (100, 103, 110) for suffix in "af"}
_REGISTERS = (
    ".reg .b64 m, a; .reg .b32 s, b, r<3>; .reg .b16 h<2>; .reg .pred p; mov.b64 m, 0; mov.b64 a, 0; mov.b32 s, 0; "
    "mov.b32 b, 0; mov.b32 r0, 0; mov.b32 r1, 0; mov.b32 r2, 0; mov.b16 h0, 0; mov.b16 h1, 0; setp.eq.u32 p, s, b; "
)
_LOAD, _BYTES = "shared::cluster.global", "mbarrier::complete_tx::bytes"
_PIXELS, _OFFSETS = "[s], [m, {r0, r1, r2}], [b]", "{h0, h1}"
PROBES = (
    ("has_wgmma", "wgmma.fence.sync.aligned", {"sm_90a"}),
    ("has_tmem", "tcgen05.fence::before_thread_sync", _DATACENTER),
    (
        "has_wide_im2col",
        f"{_REGISTERS}cp.async.bulk.tensor.3d.{_LOAD}.im2col::w.{_BYTES} {_PIXELS}, {_OFFSETS}",
        _DATACENTER,
    ),
    (
        "has_two_cta_tma",
        f"{_REGISTERS}cp.async.bulk.tensor.2d.{_LOAD}.tile.{_BYTES}.cta_group::2 [s], [m, {{r0, r1}}], [b]",
        _DATACENTER,
    ),
    (
        "has_scale_input_accumulator",
        f"{_REGISTERS}tcgen05.mma.cta_group::1.kind::f16 [s], m, a, b, p, 5",
        _DATACENTER - {"sm_110a", "sm_110f"},
    ),
    (
        "has_cluster_multicast",
        "barrier.cluster.arrive",
        {name for name in ASSEMBLED if int(name[3:].strip("af")) >= 90},
    ),
)


@pytest.mark.parametrize(("probe", "instruction", "expected"), PROBES, ids=[probe[0] for probe in PROBES])
def test_probes_say_what_ptxas_says(probe: str, instruction: str, expected: set[str]) -> None:
    names = [name for name in ASSEMBLED if getattr(Target.parse(name), probe)]
    accepted = [
        name
        for name in ASSEMBLED
        if assemble(_empty_ptx(name, Target.parse(name).ptx_version).replace("ret", f"{instruction}; ret"), name)[0]
    ]
    assert names == accepted
    assert set(names) == expected


def test_probes_of_the_name_are_its_suffix() -> None:
    """PTX ISA 11.1.2 (.target): `a` is of this chip alone, `f` of its family, whose features an `a` has too."""
    for name in target_names():
        target = Target.parse(name)
        assert target.has_arch_conditional is name.endswith("a"), name
        assert target.has_family_conditional is name.endswith(("a", "f")), name


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        *(("sm_90b", "sm_90"), ("sm90a", "sm_90a"), ("90a", "sm_90a"), ("SM_100A", "sm_100a"), ("SM_90", "sm_90")),
        *((f"compute_{one}", f"sm_{one}") for one in ("75", "80", "90", "90a", "100", "100a", "121f")),
        *(("gfx942", ""), ("", ""), ("cc9", "")),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(given: str, nearest: str) -> None:
    diagnostic = _broken(given)
    assert diagnostic.rule_id == "target.unknown"
    assert repr(given) in diagnostic.message
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    assert diagnostic.fix.partition("; the nearest is ")[2] == nearest


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        *((one, "target.unknown") for one in (None, 90, 9.0)),
        *((one, "call.argument") for one in (["sm_90a"], {}, b"sm_90a")),
    ],
)
def test_what_is_no_name_at_all_is_refused(given: object, rule: str) -> None:
    assert _broken(given).rule_id == rule


@pytest.mark.parametrize("given", ["8.6", 8.6, 86, (8,), (8, 6, 0), ("8", "6"), (8.0, 6), (9, False), (8, None)])
def test_what_is_no_version_is_refused(given: object) -> None:
    diagnostic = _broken("sm_100a", given)
    assert diagnostic.rule_id == "target.ptx-version-form"
    assert repr(given) in diagnostic.message


def test_a_target_parses_to_itself_or_to_another_version() -> None:
    target = Target.parse("sm_100a")
    assert Target.parse(target) is target
    older = Target.parse(target, (8, 6))
    assert (older.name, older.ptx_version, older.features) == ("sm_100a", (8, 6), target.features)
    assert older != target
    assert _broken(target, (8, 5)).rule_id == "target.ptx-version"


def test_targets_are_values() -> None:
    targets = [Target.parse(name) for name in target_names()]
    assert len(set(targets)) == len(targets)
    for target in targets:
        assert pickle.loads(pickle.dumps(target)) == target
        assert str(target) == target.name


def test_oldest_chip_first() -> None:
    numbers = [Target.parse(name).number for name in target_names()]
    assert all(left <= right for left, right in itertools.pairwise(numbers))


def test_ptx_attribute_is_a_feature_of_llvm() -> None:
    said = _said_by_llvm("help", "+help")
    for version in PTX_VERSIONS:
        name = f"ptx{version[0]}{version[1]}"
        assert re.search(rf"^\s+{name} +- ", said, re.MULTILINE), name
    assert Target.parse("sm_90a", (8, 3)).ptx_attribute == "+ptx83"


@pytest.mark.parametrize("given", [["add"], {}, {"add"}], ids=str)
def test_what_names_no_row_is_no_qualifier(given: object) -> None:
    for call in (
        lambda: variant("redux", warp.reduce, given, "s32"),
        lambda: variant("redux", warp.reduce, "add", given),
    ):
        with pytest.raises(DiagnosticError) as caught:
            call()  # type: ignore[no-untyped-call]
        (found,) = caught.value.diagnostics
        assert found.rule_id == "instruction.variant"
        assert found.message.endswith(f"redux does not exist in this form: {given!r} is not one of its qualifiers")


@pytest.mark.parametrize("name", target_names())
def test_what_came_with_a_chip_stays_on_later_ones(name: str) -> None:
    target = Target.parse(name)
    for floor in (72, 75, 80, 89, 90, 100):
        assert target.has(Feature[f"SM_{floor}"]) is (target.number >= floor)
