"""Names and keys by which kernels are found on disk: whatever differs has another one."""

from __future__ import annotations

import time
from types import FunctionType

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.kernel.again import reads
from nvbackend.builder.kernel.again.constants import ATOMS
from nvbackend.builder.kernel.again.lasting import digest_of, lasting_key, lasting_name
from nvbackend.builder.kernel.again.reads import Reads, UnknownRead


def test_what_has_no_lasting_name_is_not_kept() -> None:
    for value in (object(), time.localtime(), [].append):
        with pytest.raises(UnknownRead):
            lasting_name(value)
    with pytest.raises(UnknownRead):
        digest_of(([],))


def test_a_class_that_says_it_is_equal_to_another_has_a_name_of_its_own() -> None:
    class Equal(type):
        def __eq__(cls, other: object) -> bool:
            return True

        def __hash__(cls) -> int:
            return hash(float)

    assert digest_of(Equal("Own", (), {})) != digest_of(float)


def test_what_counts_in_this_process_alone_is_in_no_key() -> None:
    """Whatever it is, also a class or an object, of which other parts have names."""

    def reading(k: object) -> object:
        return nvb.f32, int

    def key(place: object, *settings: object) -> str:
        return lasting_key(Reads().of(reading, (), settings, place))

    assert len({key(place) for place in (None, "here", int, f32, nvb.Pointer(f32), (int, 3), time)}) == 1
    assert key(None, int) != key(None) != key(None, None)


class Hashed:
    def __hash__(self) -> int:
        return hash("a")


HASHED = Hashed()


def hashing() -> int:
    return hash("a")


def with_hashed() -> object:
    return HASHED


def test_a_hash_that_code_asks_for_is_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside that of a method for dictionaries and sets."""

    def keys() -> list[str]:
        return [lasting_key(Reads().of(function, (), ())) for function in (hashing, with_hashed)]

    before = keys()
    assert keys() == before
    monkeypatch.setattr(reads, "hash", lambda _: 1, raising=False)
    assert keys()[0] != before[0]
    assert keys()[1] == before[1]


def test_keys_of_different_content_differ() -> None:
    numbers = [(), (1,), (1, 2), ((1,), 2), ((1, 2),), (True,), (1.0,), (0.0,), (-0.0,), (1 + 2j,), (2 + 1j,)]
    texts = [("1",), (b"1",), ("",), ("a\nb",), ("a", "b"), ("tuple 0",)]
    others = [(None,), (...,), (frozenset({1}),), (frozenset({1, 2}),), (frozenset(),)]
    own = type("int", (), {"__module__": "builtins.int", "__qualname__": "int"})
    kinds = [(kind,) for kind in (*ATOMS, float, complex, tuple, list, dict, frozenset, FunctionType, own)]
    given: list[object] = [*numbers, *texts, *others, *kinds, *[(kind.__name__,) for (kind,) in kinds[:-1]]]
    assert len({digest_of(each) for each in given}) == len(given)


def coded(x: float, *more: int) -> list[float]:
    def inner() -> float:
        return x + 0.0

    return [inner(), *more]


CODE = coded.__code__
REPLACED: dict[str, object] = {
    "co_code": CODE.co_code + CODE.co_code[-2:],
    "co_linetable": CODE.co_linetable[:-1],
    "co_exceptiontable": b"a",
    "co_firstlineno": CODE.co_firstlineno + 1,
    "co_name": "other",
    "co_qualname": "other",
    "co_flags": CODE.co_flags | 0x100,
    "co_names": ("other", *CODE.co_names),
    "co_filename": "other.py",
    "co_consts": tuple(
        each.replace(co_consts=(*each.co_consts[:-1], -0.0)) if hasattr(each, "co_consts") else each
        for each in CODE.co_consts
    ),
}


def test_codes_that_differ_in_anything_have_other_names() -> None:
    assert 0.0 in next(each for each in CODE.co_consts if hasattr(each, "co_consts")).co_consts
    codes = [CODE, *(CODE.replace(**{name: value}) for name, value in REPLACED.items())]  # type: ignore[arg-type]
    codes.append(CODE.replace(co_exceptiontable=CODE.co_linetable[-1:], co_linetable=CODE.co_linetable[:-1]))
    assert len({digest_of(each) for each in codes}) == len({lasting_name(each) for each in codes}) == len(codes)
    assert digest_of(CODE.replace()) == digest_of(CODE)
