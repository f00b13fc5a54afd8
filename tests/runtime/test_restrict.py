"""Arrays of restrict pointers: a launch compares them with the others, where the kernel writes one of both."""

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, u32
from nvbackend.runtime.arguments.apart import MOST_ADDRESSES
from nvbackend.runtime.arguments.binder import Binder, Bound
from tests.support.runtime import FakeArray, FakeDevice

COUNT = 64


def loaded(
    *, first: bool, second: bool = False, writes: bool = True, reads: bool = True, device: Any = "simulator"
) -> Any:
    @nvb.kernel("sm_90a", threads=COUNT)
    def kernel(
        k: Any,
        x: nvb.Pointer(u32, restrict=first),  # type: ignore[valid-type]
        y: nvb.Pointer(u32, restrict=second),  # type: ignore[valid-type]
        z: nvb.Pointer[u32],
    ) -> None:
        t = k.thread_id()
        if writes:
            x[t] = 7
        z[t] = (y[t] if reads else 3) + (0 if writes else x[t])

    return nvb.runtime.load(kernel.compile(assemble=False), device=device)


def told(kernel: Any, *arrays: Any) -> list[str]:
    try:
        kernel.launch(1, *arrays)
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


def arrays() -> tuple[Any, Any]:
    numbers = np.zeros(4 * COUNT, np.uint32)
    return numbers, np.zeros(COUNT, np.uint32)


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_one_array_for_a_restrict_pointer_and_another(first: bool, second: bool) -> None:
    kernel, (numbers, z) = loaded(first=first, second=second), arrays()
    for _ in range(2):  # the second launch is of arrays that are known
        assert told(kernel, numbers[:COUNT], numbers[:COUNT], z) == ["launch.overlap"]
        assert told(kernel, numbers[:COUNT], numbers[COUNT - 4 : 2 * COUNT - 4], z) == ["launch.overlap"]
        assert told(kernel, numbers[:COUNT], numbers[COUNT : 2 * COUNT], z) == []


def test_without_restrict_or_without_a_write_nothing_is_promised() -> None:
    numbers, z = arrays()
    same = numbers[:COUNT]
    assert told(loaded(first=False), same, same, z) == []
    assert told(loaded(first=True, writes=False), same, same, z) == []
    assert told(loaded(first=True, reads=False), same, same, z) == []
    assert told(loaded(first=True, writes=False), same, numbers[COUNT : 2 * COUNT], same) == ["launch.overlap"]


def test_the_message_names_the_arrays_and_how_much_they_share() -> None:
    kernel, (numbers, z) = loaded(first=True), arrays()
    with pytest.raises(DiagnosticError) as caught:
        kernel.launch(1, numbers[:COUNT], numbers[COUNT // 2 :], z)
    (found,) = caught.value.diagnostics
    shared = f"x from its byte {4 * (COUNT // 2)} on and y from its byte 0 on share {4 * (COUNT // 2)} bytes"
    assert found.message.startswith(shared)


@pytest.mark.parametrize(
    ("first", "second", "named"), [(True, False, "x"), (False, True, "y"), (True, True, "x and y")]
)
def test_the_message_names_those_that_promised(first: bool, second: bool, named: str) -> None:
    kernel, (numbers, z) = loaded(first=first, second=second), arrays()
    with pytest.raises(DiagnosticError) as caught:
        kernel.launch(1, numbers[:COUNT], numbers[:COUNT], z)
    assert caught.value.diagnostics[0].message.endswith(f"; restrict: {named}")


def test_arrays_of_a_gpu_are_compared_by_their_addresses_at_each_launch() -> None:
    kernel = loaded(first=True, device=FakeDevice())
    x, after, z = (FakeArray((COUNT,), pointer=0x1000 * place, typestr="<u4") for place in (1, 2, 3))
    longer = FakeArray((0x1000 // 4 + 4,), pointer=0x1000, typestr="<u4")
    for _ in range(3):
        assert told(kernel, x, after, z) == []
        assert told(kernel, longer, after, z) == ["launch.overlap"]
        assert told(kernel, x, x, z) == ["launch.overlap"]


def test_arrays_that_were_compared_once_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[object] = []
    bind = Binder.bind

    def counted(binder: Binder, passed: Any, stream: int) -> Bound:
        bound.append(passed)
        return bind(binder, passed, stream)

    monkeypatch.setattr(Binder, "bind", counted)
    kernel = loaded(first=True, device=FakeDevice())
    x, y, z = (FakeArray((COUNT,), pointer=0x1000 * place, typestr="<u4") for place in (3, 2, 1))
    for _ in range(5):
        assert told(kernel, x, y, z) == []
    assert len(bound) == 1


def fake(place: int, count: int = COUNT) -> FakeArray:
    return FakeArray((count,), pointer=0x1000 * place, typestr="<u4")


LONGER = 0x1000 // 4 + 1
"""Elements of an array that reaches the next one of `fake`."""


@pytest.mark.parametrize("lengths", [(COUNT, LONGER), (LONGER, COUNT)])
def test_a_longer_array_at_an_address_is_not_taken_for_one_that_was_compared(lengths: tuple[int, int]) -> None:
    kernel = loaded(first=True, device=FakeDevice())
    after, far, z = fake(2), fake(8), fake(9)
    for length in lengths:
        assert told(kernel, fake(1, length), far, z) == []
    longer, short = fake(1, LONGER), fake(1)
    for _ in range(3):
        assert told(kernel, short, after, z) == []
        assert told(kernel, longer, far, z) == []
        assert told(kernel, longer, after, z) == ["launch.overlap"]


def test_what_is_known_of_many_arrays_is_forgotten_together() -> None:
    kernel = loaded(first=True, device=FakeDevice())
    longer, short, after, far, z = fake(1, LONGER), fake(1), fake(2), fake(8), fake(9)
    assert told(kernel, longer, far, z) == []
    for place in range(16, 16 + MOST_ADDRESSES, 2):
        assert told(kernel, fake(place), fake(place + 1), z) == []
    assert told(kernel, short, after, z) == []
    assert told(kernel, longer, after, z) == ["launch.overlap"]
