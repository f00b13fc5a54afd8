"""Operations on the memory of several GPUs at once."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import kernel


@kernel("multimem.values")
def one_register_for_a_vector_of_two(k, shared_by_all: nvb.Pointer[f32]):
    k.multimem.store(shared_by_all, [1.0], "f32", 2)  # breaks
    k.multimem.store(shared_by_all, [1.0, 2.0], "f32", 2)  # keeps


@kernel("multimem.address")
def memory_of_one_cta(k, shared_by_all: nvb.Pointer[f32]):
    own = k.shared(f32, 1, align=16)
    target = own  # breaks
    target = shared_by_all  # keeps
    k.multimem.store(target, [1.0], "f32")
