"""Operand tiles in shared memory, and the descriptors that point into them."""

from __future__ import annotations

import numpy as np

from nvbackend import Major, SmemDescriptor, SmemLayout, SwizzleMode, e2m3, f16, tf32
from tests.rules.example import program


@program("layout.alignment")
def tile_in_the_middle_of_a_swizzle_period():
    tile = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
    tile.descriptor(512)  # breaks
    tile.descriptor(1024)  # keeps


@program("layout.array")
def array_of_another_shape():
    tile = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
    tile.arrange(np.zeros((64, 32), np.float16))  # breaks
    tile.arrange(np.zeros((64, 64), np.float16))  # keeps


@program("layout.bounds")
def element_behind_the_last_row():
    tile = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
    tile.offset(64, 0)  # breaks
    tile.offset(63, 0)  # keeps


@program("layout.columns")
def half_a_swizzle_row():
    SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 32)  # breaks
    SmemLayout(Major.K, SwizzleMode.B64, f16, 64, 32)  # keeps


@program("layout.rows")
def half_a_core_matrix():
    SmemLayout(Major.K, SwizzleMode.B128, f16, 60, 64)  # breaks
    SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)  # keeps


@program("layout.element")
def elements_of_six_bits():
    SmemLayout(Major.K, SwizzleMode.B128, e2m3, 64, 64)  # breaks
    SmemLayout(Major.K, SwizzleMode.B128, e2m3, 64, 128, padded=True)  # keeps


@program("layout.major")
def words_by_columns():
    SmemLayout(Major.MN, SwizzleMode.B128, tf32, 128, 64)  # breaks
    SmemLayout(Major.K, SwizzleMode.B128, tf32, 128, 64)  # keeps


@program("layout.origin")
def operand_inside_a_core_matrix():
    tile = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
    tile.origin(0, 4)  # breaks
    tile.origin(0, 8)  # keeps


@program("layout.size")
def tile_beyond_shared_memory():
    SmemLayout(Major.K, SwizzleMode.B128, f16, 4096, 64)  # breaks
    SmemLayout(Major.K, SwizzleMode.B128, f16, 2048, 64)  # keeps


@program("layout.step")
def steps_across_two_panels():
    tile = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 128)
    tile.k_step_bytes(16)  # breaks
    tile.k_steps(16)  # keeps


@program("layout.straddle")
def operand_across_two_panels():
    tile = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 128)
    tile.origin(0, 56, columns=16)  # breaks
    tile.origin(0, 64, columns=16)  # keeps


@program("descriptor.advance-carry")
def advance_out_of_the_address_field():
    descriptor = SmemDescriptor(0x3FC00, 16, 1024)
    descriptor.advance(1024)  # breaks
    descriptor.advance(512)  # keeps


@program("descriptor.advance-unit")
def advance_in_elements():
    descriptor = SmemDescriptor(0, 16, 1024)
    descriptor.advance(8)  # breaks
    descriptor.advance(16)  # keeps


@program("descriptor.alignment")
def stride_that_is_no_multiple_of_sixteen():
    SmemDescriptor(0, 16, 1000)  # breaks
    SmemDescriptor(0, 16, 1024)  # keeps


@program("descriptor.range")
def stride_that_does_not_fit():
    SmemDescriptor(0, 16, 1 << 18)  # breaks
    SmemDescriptor(0, 16, (1 << 18) - 16)  # keeps


@program("descriptor.reserved-bits")
def swizzle_in_the_wrong_bits():
    SmemDescriptor.decode(1 << 61)  # breaks
    SmemDescriptor.decode(1 << 62)  # keeps
