"""Targets: exact chips as feature bitmaps, and the one form of a condition on what is asked of them.

A target is a value that is passed, never a global. Selector and verifier ask the same gates, so that neither takes what
the other refuses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from nvbackend.diagnostics import Diagnostic, Location, Rule, is_flag, printed, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.features import Feature, PtxVersion

if TYPE_CHECKING:
    from nvbackend.intrinsics.row.row import Row

PTX_VERSIONS: tuple[PtxVersion, ...] = (
    *((6, minor) for minor in range(6)),
    *((7, minor) for minor in range(9)),
    *((8, minor) for minor in range(9)),
    (9, 0),
)
"""Every PTX version from 6.0 on that LLVM 22.1 prints; it ends the process on one that there is not, such as 8.9."""
NEWEST_PTX: PtxVersion = PTX_VERSIONS[-1]

UNKNOWN_TARGET = Rule(
    id="target.unknown",
    message="{given!r} is not a target that nvbackend knows",
    fix="use one of {known}{nearest}",
    why="LLVM prints a warning for an unknown CPU and compiles for its default one, so the kernel would be wrong code.",
    reference="LLVM 22.1 NVPTX.td; PTX ISA 11.1.2 (.target)",
)
PTX_VERSION_FORM = Rule(
    id="target.ptx-version-form",
    message="{given!r} is not a PTX version",
    fix="write major and minor as a pair of integers, such as (8, 6) for PTX 8.6",
    why="A version that compares with none would pass or fail the gates by accident.",
    reference="PTX ISA 11.1.1 (.version)",
)
PTX_VERSION_RANGE = Rule(
    id="target.ptx-version",
    message="PTX version {version} cannot be used with {target}: it takes {versions}",
    fix="leave the version out to get {default}",
    why="LLVM ends the whole process for a version that does not exist or is older than the CPU; ptxas refuses others.",
    reference="PTX ISA 11.1.2 (.target), 13 (release notes)",
)

_CHIPS: dict[int, tuple[str, PtxVersion]] = {
    # compute capability: (suffixes it exists with, lowest PTX version without a suffix)
    70: ("", (6, 0)),
    72: ("", (6, 1)),
    75: ("", (6, 3)),
    80: ("", (7, 0)),
    86: ("", (7, 1)),
    87: ("", (7, 4)),
    88: ("", (9, 0)),
    89: ("", (7, 8)),
    90: ("a", (7, 8)),
    100: ("af", (8, 6)),
    101: ("af", (8, 6)),
    103: ("af", (8, 8)),
    110: ("af", (9, 0)),
    120: ("af", (8, 7)),
    121: ("af", (8, 8)),
}
_SUFFIX_PTX: dict[tuple[int, str], PtxVersion] = {(90, "a"): (8, 0)}
_FAMILY_PTX: PtxVersion = (8, 8)
_LAST_PTX: dict[int, PtxVersion] = {101: (8, 8)}
"""sm_101 became sm_110 in PTX 9.0 and is not known from there on."""
LAST_IN_PTXAS_12 = frozenset({70, 72, 101})
"""Chips that no ptxas from release 13 on knows."""
_PTX_OF_PTXAS_12: PtxVersion = (8, 8)
"""What the last ptxas of release 12 reads."""

_BY_NAME: dict[str, tuple[int, str]] = {
    f"sm_{number}{suffix}": (number, suffix) for number, (suffixes, _) in _CHIPS.items() for suffix in ("", *suffixes)
}

_THOR_CHIPS = (101, 110)
_TENSOR_MEMORY_CHIPS = (100, 103, *_THOR_CHIPS)
_REDUCING_CHIPS = (103, *_THOR_CHIPS)
_INT8_CHIPS = (100, *_THOR_CHIPS)
_CONSUMER_BLACKWELL_CHIPS = (120, 121)
_FIRST_NARROW = 100
"""The first chip that converts from and to floats of 6 and 4 bits and to ue8m0, under a name with a suffix."""
_STOCHASTIC_CHIPS = (100, 103)
"""Chips with cvt.rs, under a name with `a`."""


@user_facing
@dataclass(frozen=True, slots=True)
class Target:
    """A chip and a PTX version: `name` as in `.target` (sm_90a), its number, suffix ('', 'a' or 'f') and features.

    Made by `Target.parse`. Two targets are equal where all of this is.
    """

    name: str
    number: int
    suffix: str
    features: Feature
    ptx_version: PtxVersion

    @classmethod
    def parse(cls, name: str | Target, ptx_version: PtxVersion | None = None) -> Target:
        """The target called `name`, with the PTX version given, such as (8, 6), or the newest that is assembled for it.

        A Target comes back as it is, or with the version given. Raises target.unknown, target.ptx-version for a
        version that this target does not take, and target.ptx-version-form for anything but a version.
        """
        if isinstance(name, Target):
            if ptx_version is None:
                return name
            name = name.name
        parsed = _BY_NAME.get(name) if isinstance(name, str) else None
        if parsed is None:
            _fail_unknown(name)
        number, suffix = parsed
        default = default_ptx_version(number)
        version = default if ptx_version is None else _checked_version(ptx_version)
        legal = ptx_versions(number, suffix)
        if version not in legal:
            told = _in_words(legal)
            asked = ".".join(map(printed, version))
            PTX_VERSION_RANGE.fail(version=asked, target=name, versions=told, default=dotted(default))
        return cls(name, number, suffix, _features(number, suffix), version)

    def has(self, features: Feature) -> bool:
        """Whether the target has all of `features`."""
        return features in self.features

    @property
    def ptx_attribute(self) -> str:
        """The LLVM subtarget feature that selects the PTX version, such as `+ptx90`."""
        return f"+ptx{self.ptx_version[0]}{self.ptx_version[1]}"

    @property
    def has_tmem(self) -> bool:
        """Whether it has tensor memory and tcgen05."""
        return self.has(Feature.TMEM)

    @property
    def has_wgmma(self) -> bool:
        """Whether it has the warpgroup MMA."""
        return self.has(Feature.WGMMA)

    @property
    def has_arch_conditional(self) -> bool:
        """Whether its name has the suffix `a`: it has the features that only this chip has."""
        return self.has(Feature.ARCH_CONDITIONAL)

    @property
    def has_family_conditional(self) -> bool:
        """Whether its name has a suffix: it has the features that the chips of this family share."""
        return self.has(Feature.FAMILY_CONDITIONAL)

    @property
    def has_scale_input_accumulator(self) -> bool:
        """Whether tcgen05.mma takes scale-input-d."""
        return self.has(Feature.SCALE_INPUT_ACCUMULATOR)

    @property
    def has_wide_im2col(self) -> bool:
        """Whether TMA has the im2col::w modes."""
        return self.has(Feature.WIDE_IM2COL)

    @property
    def has_two_cta_tma(self) -> bool:
        """Whether TMA has .cta_group."""
        return self.has(Feature.TWO_CTA_TMA)

    @property
    def has_cluster_multicast(self) -> bool:
        """Whether it has clusters and TMA multicast."""
        return self.has(Feature.CLUSTER_MULTICAST)

    def __str__(self) -> str:
        return self.name


def dotted(version: PtxVersion) -> str:
    """A PTX version as people write it: 8.6."""
    return f"{version[0]}.{version[1]}"


def target_names() -> tuple[str, ...]:
    """Every target name, oldest chip first."""
    return tuple(_BY_NAME)


def lowest_ptx_version(number: int, suffix: str) -> PtxVersion:
    """The first PTX version that knows this chip with this suffix."""
    base = _CHIPS[number][1]
    if suffix == "f":
        return max(base, _FAMILY_PTX)
    return _SUFFIX_PTX.get((number, suffix), base)


def highest_ptx_version(number: int) -> PtxVersion:
    """The last PTX version that knows this chip and that LLVM prints."""
    return _LAST_PTX.get(number, NEWEST_PTX)


def default_ptx_version(number: int) -> PtxVersion:
    """The newest PTX version for this chip that some ptxas reads."""
    highest = highest_ptx_version(number)
    return min(highest, _PTX_OF_PTXAS_12) if number in LAST_IN_PTXAS_12 else highest


def ptx_versions(number: int, suffix: str) -> tuple[PtxVersion, ...]:
    """Every PTX version that knows this chip with this suffix and that LLVM prints."""
    lowest, highest = lowest_ptx_version(number, suffix), highest_ptx_version(number)
    return tuple(version for version in PTX_VERSIONS if lowest <= version <= highest)


def _in_words(versions: Sequence[PtxVersion]) -> str:
    """PTX versions for people, those of one major version together: 7.8, 8.0 to 8.8 or 9.0."""
    runs = [
        [dotted(version) for version in run] for _, run in itertools.groupby(versions, key=lambda version: version[0])
    ]
    told = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return " or ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)


def _fail_unknown(name: object) -> NoReturn:
    import difflib

    nearest = _of_near_number(str(name)) or difflib.get_close_matches(str(name).lower(), _BY_NAME, cutoff=0.5)
    hint = f"; the nearest is {nearest[0]}" if nearest else ""
    if chip := _PRODUCTS.get(str(name).lower()):
        hint = f"; that of {name} is {chip}"
    UNKNOWN_TARGET.fail(given=name, known=", ".join(_BY_NAME), nearest=hint)


_PRODUCTS = {
    **dict.fromkeys(("volta", "v100"), "sm_70"),
    **dict.fromkeys(("turing", "t4"), "sm_75"),
    **dict.fromkeys(("ampere", "a100"), "sm_80"),
    **dict.fromkeys(("a10", "a40"), "sm_86"),
    **dict.fromkeys(("ada", "l4", "l40", "l40s"), "sm_89"),
    **dict.fromkeys(("hopper", "h100", "h200", "gh200"), "sm_90a"),
    "blackwell": "sm_100a, and of its consumer chips sm_120a",
    **dict.fromkeys(("b100", "b200", "gb200"), "sm_100a"),
    **dict.fromkeys(("b300", "gb300"), "sm_103a"),
}
"""Targets by the names of architectures and chips, as https://developer.nvidia.com/cuda-gpus has them."""


def _of_near_number(name: str) -> list[str]:
    """The target of the number of `SM_90`, or of the nearest below `sm_77`, or above; none for a name without one."""
    asked = re.fullmatch(r"sm_(\d{1,4})", name.lower())
    numbers = {int(known.removeprefix("sm_")): known for known in _BY_NAME if known.removeprefix("sm_").isdigit()}
    if asked is None:
        return []
    number = int(asked[1])
    below = [known for known in numbers if known <= number]
    return [numbers[max(below) if below else min(numbers)]]


def _checked_version(version: object) -> PtxVersion:
    match version:
        case (int(major), int(minor)) if type(major) is type(minor) is int:  # not True, which would reach LLVM
            return major, minor
    PTX_VERSION_FORM.fail(given=version)


@cache
def _features(number: int, suffix: str) -> Feature:
    features = Feature.NONE
    for floor, feature in (
        (72, Feature.SM_72),
        (75, Feature.SM_75),
        (80, Feature.SM_80),
        (89, Feature.SM_89),
        (90, Feature.SM_90 | Feature.CLUSTER_MULTICAST),
        (100, Feature.SM_100),
    ):
        if number >= floor:
            features |= feature
    if suffix == "a":
        features |= Feature.ARCH_CONDITIONAL
    if suffix:
        features |= Feature.FAMILY_CONDITIONAL | Feature.SETMAXNREG
        features |= Feature.NARROW_FLOATS if number >= _FIRST_NARROW else Feature.NONE
        features |= Feature.STOCHASTIC_ROUNDING if suffix == "a" and number in _STOCHASTIC_CHIPS else Feature.NONE
        features |= _suffixed_features(number, suffix)
    return features


def _suffixed_features(number: int, suffix: str) -> Feature:
    """What a chip has only under a name with `a` or `f`."""
    if number == 90:
        return Feature.WGMMA
    if number in _TENSOR_MEMORY_CHIPS:
        return (
            Feature.TMEM
            | Feature.WIDE_IM2COL
            | Feature.TWO_CTA_TMA
            | Feature.TMA_GATHER
            | Feature.MULTIMEM_FP8
            | _tensor_memory_features(number, suffix)
        )
    if number in _CONSUMER_BLACKWELL_CHIPS:
        return Feature.BLOCK_SCALED_MMA | (Feature.MULTIMEM_FP8 if suffix == "a" else Feature.NONE)
    return Feature.NONE


def _tensor_memory_features(number: int, suffix: str) -> Feature:
    """What some chips with tensor memory have and others do not (ptxas 13.5; sm_101 as LLVM 22.1 has it)."""
    features = Feature.NONE
    if number not in _THOR_CHIPS:
        features |= Feature.SCALE_INPUT_ACCUMULATOR | Feature.REDUX_F32
    if number in _REDUCING_CHIPS:
        features |= Feature.TMEM_REDUCE
    if number in _INT8_CHIPS and suffix == "a":
        features |= Feature.TMEM_INT8
    if number == 103 and suffix == "a":
        features |= Feature.TMA_SWIZZLE_96 | Feature.TMEM_K96
    return features


Request_contra = TypeVar("Request_contra", contravariant=True)
Values = dict[str, Any]
"""Values for the texts of a rule, by name."""


@dataclass(frozen=True)
class Gate(Generic[Request_contra]):
    """A rule, and whether a request on a target breaks it: then the values for the rule's texts, else None.

    A gate is also kept where another one already says why its question has no answer.
    """

    rule: Rule
    breach: Callable[[Request_contra, Target], Values | None]


def why_not(
    gates: Sequence[Gate[Request_contra]], request: Request_contra, target: Target, at: Location | None = None
) -> list[Diagnostic]:
    """Every rule that `request` breaks on `target`, in the order of `gates`, at `at` or else at the caller's line.

    Raises TypeError for a flag that is not a bool, which becomes call.argument of the call.
    """
    kind: Any = type(request)
    for name in _flags(kind):
        if not is_flag(getattr(request, name)):
            raise TypeError(f"{name} is not a truth value")
    return [
        gate.rule.diagnose(at=at, **values) for gate in gates if (values := gate.breach(request, target)) is not None
    ]


def suits(gates: Sequence[Gate[Request_contra]], request: Request_contra, target: Target) -> bool:
    """Whether `request`, whose flags are bools, breaks none of the rules on `target`."""
    return all(gate.breach(request, target) is None for gate in gates)


@cache
def _flags(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.type == "bool")


@cache
def targets_with(*wanted: Feature) -> str:
    """The targets that have all of one of `wanted`, in words: a floor, `sm_80 or later`, or each by its name."""
    every = [Target.parse(name) for name in target_names()]
    having = [target for target in every if any(target.has(features) for features in wanted)]
    if having and having == every[every.index(having[0]) :]:
        return f"{having[0]} or later"
    names = [target.name for target in having]
    return " or ".join(names) if len(names) <= 2 else f"one of {', '.join(names)}"


Axes = ParamSpec("Axes")

VARIANT = Rule(
    id="instruction.variant",
    message="{instruction} does not exist in this form: {reason}",
    fix="use one of the values that the message names, or another instruction",
    why="ptxas refuses any other spelling, and LLVM has no intrinsic for one.",
    reference="PTX ISA, the instruction's syntax; ptxas 13.5",
)


def variant(instruction: str, factory: Callable[Axes, Row], /, *axes: Axes.args, **named: Axes.kwargs) -> Row:
    """The row that `factory` has for these axes. Raises instruction.variant if it has none."""
    from nvbackend.intrinsics.row.row import NoSuchRow

    for value in (*axes, *named.values()):
        if not isinstance(value, Hashable):
            VARIANT.fail(instruction=instruction, reason=f"{value!r} is not one of its qualifiers")
    try:
        return factory(*axes, **named)
    except NoSuchRow as absent:
        reason = getattr(absent, "problem", str(absent))
    VARIANT.fail(instruction=instruction, reason=reason)
