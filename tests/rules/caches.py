"""What caches are told, and how long a thread sleeps."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import u8
from tests.rules.example import kernel


@kernel("cache.line")
def line_at_16_bytes(k, wide: nvb.Pointer(u8, align=128)):
    k.cache.discard(wide + 16)  # breaks
    k.cache.discard(wide + 128)  # keeps


@kernel("cache.policy-range")
def more_than_the_whole(k, out: nvb.Pointer[u8]):
    k.cache.policy_of_range(out, 256, 128, "L2::evict_last")  # breaks
    k.cache.policy_of_range(out, 128, 256, "L2::evict_last")  # keeps


@kernel("cache.policy-fraction")
def percent(k, x: nvb.Pointer[u8]):
    policy = k.cache.policy("L2::evict_last", fraction=50)  # breaks
    policy = k.cache.policy("L2::evict_last", fraction=0.5)  # keeps
    x[0] = x.load(1, cache_policy=policy)[0]


@kernel("cache.cleared", "sm_100a")
def twelve_bytes(k):
    memory = k.shared(u8, 64)
    k.bulk.clear_shared(memory, 12)  # breaks
    k.bulk.clear_shared(memory, 16)  # keeps


@kernel("nanosleep.range")
def two_milliseconds(k):
    k.nanosleep(2_000_000)  # breaks
    k.nanosleep(1_000_000)  # keeps
