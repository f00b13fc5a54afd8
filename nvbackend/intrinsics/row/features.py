"""Subtarget features: one bit for each thing some chips have and others do not.

A row names the features it needs; a target (isel) is a set of them. The bits named `has_*` in the seed on machine
validation carry the same names here in upper case.
"""

from __future__ import annotations

import enum

PtxVersion = tuple[int, int]


class Feature(enum.Flag):
    """What some chips have and others do not, a bit for each; `Target.has` asks for them.

    `SM_80` and the like are what that chip brought and all later ones have: SM_80 cp.async, mbarriers and bf16, SM_89
    fp8, SM_90 TMA and clusters. `ARCH_CONDITIONAL` and `FAMILY_CONDITIONAL` are the suffixes a and f of a name. Each of
    the others is one thing that only some chips have. Every gate of selector and verifier is a test on these bits and
    on the PTX version.
    """

    NONE = 0
    ARCH_CONDITIONAL = enum.auto()
    FAMILY_CONDITIONAL = enum.auto()
    SM_72 = enum.auto()
    SM_75 = enum.auto()
    SM_80 = enum.auto()
    SM_89 = enum.auto()
    SM_90 = enum.auto()
    SM_100 = enum.auto()
    WGMMA = enum.auto()
    TMEM = enum.auto()
    TMEM_INT8 = enum.auto()
    TMEM_REDUCE = enum.auto()
    SETMAXNREG = enum.auto()
    CLUSTER_MULTICAST = enum.auto()
    SCALE_INPUT_ACCUMULATOR = enum.auto()
    WIDE_IM2COL = enum.auto()
    TWO_CTA_TMA = enum.auto()
    TMA_GATHER = enum.auto()
    TMA_SWIZZLE_96 = enum.auto()
    REDUX_F32 = enum.auto()
    BLOCK_SCALED_MMA = enum.auto()
    MULTIMEM_FP8 = enum.auto()
    TMEM_K96 = enum.auto()
    NARROW_FLOATS = enum.auto()
    STOCHASTIC_ROUNDING = enum.auto()
