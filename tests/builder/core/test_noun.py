"""A name that a builder or a noun does not have: what is said of it, and that Python's own tools still work."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import nvbackend as nvb


@pytest.fixture
def k() -> nvb.KernelBuilder:
    return nvb.KernelBuilder("kernel", "sm_90a", threads=128)


@pytest.mark.parametrize(
    ("place", "name", "instead"),
    [
        ("tma", "laod", "k.tma.load"),
        ("mbarrier", "arive", "k.mbarrier.arrive"),
        ("", "tma_load", "k.tma.load"),
        ("", "mbarrier_wait", "k.mbarrier.wait"),
        ("", "wgmma_mma_async", "k.wgmma.mma_async"),
        ("", "ldmatrix", "k.mma.ldmatrix"),
        ("", "shuffle", "k.warp.shuffle"),
        ("", "mbarier", "k.mbarrier"),
        ("", "selct", "k.select"),
    ],
)
def test_the_nearest_call_is_named(k: nvb.KernelBuilder, place: str, name: str, instead: str) -> None:
    owner = getattr(k, place) if place else k
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(owner, name)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.unknown"
    assert found.location is not None
    assert found.location.file == __file__
    assert instead in (found.fix or "").removeprefix("use ").split(" or ")


def test_a_name_that_is_like_none_names_all(k: nvb.KernelBuilder) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.fence.qqqq  # noqa: B018
    assert "k.fence.proxy_async" in str(caught.value)


def test_a_noun_is_not_a_call(k: nvb.KernelBuilder) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"k\.barrier is not a call"):
        k.barrier()


def test_python_asks_for_names_as_ever(k: nvb.KernelBuilder) -> None:
    assert not hasattr(k, "tma_load")
    assert not hasattr(k.tma, "laod")
    assert getattr(k.tma, "laod", None) is None
    assert hasattr(k.tma, "load")
    assert copy.copy(k.tma).load is not None
    assert "load" in dir(k.tma)
    assert dict(inspect.getmembers(k.fence))["called"] == "fence"
    with pytest.raises(AttributeError, match="has no attribute '_private'"):
        k.tma._private  # noqa: B018
    made = pickle.loads(pickle.dumps(object.__new__(type(k.fence))))
    assert type(made) is type(k.fence)
