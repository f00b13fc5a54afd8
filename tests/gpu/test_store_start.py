"""Where a box may start: a store inside 16 bytes stops the kernel, a load does not. Each launch has its own process."""

from __future__ import annotations

import pytest

from tests.support.process import python_output

pytestmark = pytest.mark.gpu((9, 0))

COPY = """
import sys
import numpy as np
import nvbackend as nvb
from nvbackend.intrinsics.types import BY_NAME
from nvbackend.signature import Parameter, TensorMap
from tests.support.numbers_kernel import words

way, element, column = sys.argv[1], BY_NAME[sys.argv[2]], int(sys.argv[3])

def body(k, source, out, tensor):
    tile, full = k.shared(nvb.u8, 4096, align=128), k.mbarriers(1, 1)
    k.barriers_ready()
    start = source[0].to(nvb.i32)  # known at run time only, so that nothing is said of it
    with k.if_(k.thread_id() == 0):
        if way == "load":
            k.mbarrier_arrive_expect_tx(full, tensor.type.bytes)
            k.tma_load_box(tile, tensor, (start, 0), full)
            k.mbarrier_wait(full, 0)
        elif way == "store":
            k.tma_store_box(tensor, (start, 0), tile)
        else:
            k.tma_reduce_box(tensor, (start, 0), tile, "add")
        k.tma_commit_stores()
        k.tma_wait_stores()

array = np.zeros((8, 64), element.numpy_dtype())
try:
    from numba import cuda
    tensor = (Parameter("tensor", TensorMap(element, (4, 16), swizzle=0)), cuda.to_device(array))
    words(body, np.array([column], np.uint32), 1, tensor)
    print("done")
except Exception as error:
    print("illegal instruction" if "ILLEGAL_INSTRUCTION" in str(error).upper().replace(" ", "_") else repr(error))
"""


@pytest.mark.parametrize(
    ("way", "element", "column", "wanted"),
    [
        ("store", "f16", 24, "done"),
        ("store", "f16", 20, "illegal instruction"),
        ("store", "u32", 20, "done"),
        ("store", "u32", 21, "illegal instruction"),
        ("store", "u64", 21, "illegal instruction"),
        ("reduce", "f16", 22, "illegal instruction"),
        ("reduce", "u32", 20, "done"),
        ("load", "f16", 21, "done"),
    ],
)
def test_a_box_is_written_at_multiples_of_16_bytes(way, element, column, wanted):
    assert python_output(COPY, way, element, str(column)).strip() == wanted
