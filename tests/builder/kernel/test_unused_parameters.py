"""Pointers and tensor maps that a kernel has as parameters and never uses."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32

F32 = nvb.Pointer[f32]
MAP = nvb.TensorMap(f16, box=(64, 64))


def unused(function, **options) -> list[str]:
    finished = nvb.kernel("sm_90a", threads=32, **options)(function).build()
    return [one.message.rpartition(" ")[2] for one in finished.diagnostics if one.rule_id == "kernel.unused-parameter"]


def one_output_left_out(k, x: F32, y: F32, z: F32, n: i32):
    y[k.thread_id()] = x[k.thread_id()]


def map_left_out(k, x: F32, z: MAP):
    x[k.thread_id()] = 1.0


def set_and_never_read(k, x: F32, z: F32):
    x[k.thread_id()] = 1.0
    z = 3  # noqa: F841


def of_the_name_of_another(k, x: F32, z: F32):
    y = [z + 1 for z in range(4)]
    x[k.thread_id()] = float(sum(y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", [one_output_left_out, map_left_out, set_and_never_read, of_the_name_of_another])
def test_what_nothing_mentions_is_a_warning(body):
    assert unused(body) == ["z"]
    assert unused(body, allow=("kernel.unused-parameter",)) == []


def meant(k, x: F32, _z: F32):
    x[k.thread_id()] = 1.0


def in_a_function(k, x: F32, z: F32):
    def store():
        z[k.thread_id()] = x[0]

    store()


def in_a_branch_of_the_build(k, x: F32, z: F32, *, has_z: bool = False):
    x[k.thread_id()] = z[0] if has_z else 1.0


def as_one_of_all(k, x: F32, z: F32):
    for argument in k.arguments:
        argument[k.thread_id()] = 1.0


def by_position(k, x: F32, z: F32):
    k.global_address(k.function.args[1], f32, 16)[0] = 1.0
    x[0] = 1.0


def nothing_is_written(k, x: F32, z: MAP):
    k.shared(f32, 32)[k.thread_id()] = x[0]


def a_number(k, x: F32, n: i32):
    x[k.thread_id()] = 1.0


RIGHT = [meant, in_a_function, in_a_branch_of_the_build, as_one_of_all, by_position, nothing_is_written, a_number]


@pytest.mark.parametrize("body", RIGHT)
def test_nothing_is_said_of_what_may_be_meant(body):
    assert unused(body) == []
