"""Rules that a kernel allows."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import kernel


@kernel("allow.unknown")
def an_id_that_is_misspelt(k, x: nvb.Pointer[f32]):
    box = k.shared(f32, 128)
    thread = k.thread_id()
    with k.allow("shared.mising-barrier", reason="either value will do"):  # breaks
        box[thread] = x[thread]  # breaks
    with k.allow("shared.missing-barrier", reason="either value will do"):  # keeps
        box[thread] = x[thread]  # keeps
        x[thread] = box[127 - thread]  # keeps


@kernel("allow.form")
def an_allowance_without_words(k, x: nvb.Pointer[f32]):
    box = k.shared(f32, 128)
    thread = k.thread_id()
    with k.allow("shared.missing-barrier", reason=None):  # breaks
        box[thread] = x[thread]  # breaks
    with k.allow("shared.missing-barrier", reason="either value will do"):  # keeps
        box[thread] = x[thread]  # keeps
        x[thread] = box[127 - thread]  # keeps


@kernel("allow.legality")
def what_the_chip_lacks(k, x: nvb.Pointer[f32]):
    with k.allow("target.feature", reason="it will be there one day"):  # breaks
        x[0] = x[1]  # breaks
    x[0] = x[1]  # keeps


@kernel("allow.unused")
def an_allowance_for_nothing(k, x: nvb.Pointer[f32]):
    with k.allow("shared.missing-barrier", reason="there was one"):  # breaks
        x[k.thread_id()] = k.const(1.0, f32)  # breaks
    x[k.thread_id()] = k.const(1.0, f32)  # keeps
