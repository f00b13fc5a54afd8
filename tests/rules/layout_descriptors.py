"""Descriptors made from layouts, and the iterators over them."""

from __future__ import annotations

from nvbackend import SmemDescriptor
from nvbackend.layout import DescriptorIterator, parse
from tests.rules.example import program


@program("descriptor.index")
def fourth_stage_of_three():
    fragment = DescriptorIterator(SmemDescriptor(0, 1024, 2048), parse("(_1,_2,_4,_3):(_0,_64,_256,_1024)"))
    fragment(0, 1, 3, 3)  # breaks
    fragment(0, 1, 3, 2)  # keeps


@program("descriptor.no-base")
def descriptors_of_no_tile():
    fragment = DescriptorIterator(None, parse("(_1,_2,_4,_3):(_0,_64,_256,_1024)"))
    fragment = fragment.with_base(SmemDescriptor(0x400, 1024, 2048))  # keeps
    fragment(0, 1, 3, 2)
