"""The cache: what is put comes back whole or not at all, whatever happens to the directory."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend.codegen import cache as cache_module
from nvbackend.codegen.cache import Cache, cache_key, default_directory, pack, unpack
from tests.support.process import ROOT, python_output

KEY = cache_key("test", text="one")
PAYLOAD = b"payload" * 100


def keys(count: int) -> list[str]:
    return [cache_key("test", text=str(index)) for index in range(count)]


def entry_of(cache: Cache, key: str) -> Path:
    assert cache.directory is not None
    return cache.directory / f"{hashlib.sha256(key.encode()).hexdigest()}.bin"


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "not" / "there" / "yet")
    assert cache.get(KEY) is None
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == PAYLOAD
    assert cache.get(cache_key("test", text="two")) is None
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""
    cache.clear()
    assert cache.get(KEY) is None


def test_every_input_is_part_of_the_key() -> None:
    inputs: dict[str, str | int | bool | None] = {"text": "a", "level": 3, "limit": None}
    variants = [
        cache_key("stage", **inputs),
        cache_key("other", **inputs),
        cache_key("stage", **{**inputs, "text": "b"}),
        cache_key("stage", **{**inputs, "level": 2}),
        cache_key("stage", **{**inputs, "level": "3"}),
        cache_key("stage", **{**inputs, "limit": 0}),
        cache_key("stage", text="a", level=3),
        cache_key("stage", text="a", level=3, other=None),
    ]
    assert len(set(variants)) == len(variants)
    assert cache_key("stage", limit=None, level=3, text="a") == variants[0]


def test_the_format_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "FORMAT", cache_module.FORMAT + 1)
    assert cache_key("test", text="one") != KEY


@pytest.mark.parametrize("key", ["", "x", "..", "../x", "/x", "a" * 5000, "\0", "\ud800", "zz\n"])
def test_any_text_is_a_key(tmp_path: Path, key: str) -> None:
    """None of it is a path: the entry lies in the directory of the cache."""
    cache = Cache(tmp_path / "cache")
    cache.put(key, PAYLOAD)
    assert cache.get(key) == PAYLOAD
    assert cache.get(key + "x") is None
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "short"])
def test_a_damaged_entry_is_a_miss_and_goes(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, PAYLOAD)
    path = entry_of(cache, KEY)
    whole = path.read_bytes()
    position = len(whole) // 2
    path.write_bytes(
        {
            "flip": whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :],
            "cut": whole[:-1],
            "empty": b"",
            "short": whole[:5],
        }[damage]
    )
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == PAYLOAD


def test_switched_off_it_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = Cache.disabled()
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) is None
    cache.trim()
    cache.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_may_be_a_text(tmp_path: Path) -> None:
    cache: Any = Cache(str(tmp_path))  # type: ignore[arg-type]
    assert cache == Cache(tmp_path)
    cache.put(KEY, PAYLOAD)
    assert Cache(tmp_path).get(KEY) == PAYLOAD


@pytest.mark.parametrize(
    ("given", "named"),
    [((False,), "directory"), ((3,), "directory"), ((None, "1GB"), "limit"), ((None, True), "limit")],
)
def test_what_is_no_directory_and_no_limit_is_refused_where_it_is_written(given: Any, named: str) -> None:
    with pytest.raises(nvb.DiagnosticError, match=rf"call\.argument.*: Cache: {named} must be .*\n  at .*test_cache"):
        nvb.Cache(*given)


def test_a_directory_that_can_not_be_used_fails_no_build(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a directory")
    for directory in (in_the_way, in_the_way / "below", Path("/proc/nvbackend")):
        cache = Cache(directory)
        cache.put(KEY, PAYLOAD)
        assert cache.get(KEY) is None
        cache.trim()


def test_a_read_only_cache_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, PAYLOAD)

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    # The permissions of a directory do not bind a superuser, so the calls that write are made to fail.
    for name in ("utime", "replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert cache.get(KEY) == PAYLOAD
    other = keys(1)[0]
    cache.put(other, PAYLOAD)
    assert cache.get(other) is None


def test_a_failed_write_leaves_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    Cache(tmp_path).put(KEY, PAYLOAD)
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    names = keys(6)
    for name in names:
        cache.put(name, bytes(1000))
    now = time.time()
    for age, name in enumerate(reversed(names)):
        os.utime(entry_of(cache, name), (now - 100 * age - 100, now - 100 * age - 100))
    # Using the oldest makes it the youngest.
    assert cache.get(names[0]) == bytes(1000)
    Cache(tmp_path, limit=3500).trim()
    assert [name for name in names if cache.get(name) is not None] == [names[0], *names[4:]]


def test_it_stays_within_its_limit_by_itself(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=20_000)
    for name in keys(1000):
        cache.put(name, bytes(1000))
    held = sum(path.stat().st_size for path in tmp_path.iterdir())
    # Trimming happens at one put in 64 on average: 1000 entries would be 1 MB.
    assert 10_000 < held < 300_000


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, PAYLOAD)
    old, young = tmp_path / ".tmp-old", tmp_path / ".tmp-young"
    for path in (old, young):
        path.write_bytes(b"part")
    yesterday = time.time() - 86_400
    os.utime(old, (yesterday, yesterday))
    cache.trim()
    assert not old.exists()
    assert young.exists()
    assert cache.get(KEY) == PAYLOAD


WORKER = """
import hashlib, sys
from pathlib import Path
from nvbackend.codegen.cache import Cache, cache_key
cache = Cache(Path(sys.argv[1]), limit=300_000)
hits = 0
for round in range(60):
    for index in range(8):
        key = cache_key("parallel", text=str(index))
        payload = hashlib.sha256(key.encode()).digest() * (500 + index)
        found = cache.get(key)
        assert found in (None, payload), (len(found), len(payload))
        hits += found is not None
        cache.put(key, payload)
        if round % 10 == 9:
            cache.trim()
print(hits)
"""


def test_four_processes_at_once(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    hits = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    # Each process finds nearly everything: its own entries or those of the others.
    assert all(count >= 59 * 8 for count in hits)
    entries = {entry_of(Cache(tmp_path), cache_key("parallel", text=str(index))) for index in range(8)}
    assert {*tmp_path.iterdir()} == entries


def test_the_default_place_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "nvbackend"
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    # The XDG specification ignores a path that is not absolute.
    for ignored in ("relative/path", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert default_directory() == tmp_path / "me" / ".cache" / "nvbackend"


def test_the_environment_chooses_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NVBACKEND_CACHE", str(tmp_path / "here"))
    assert default_directory() == tmp_path / "here"
    Cache.default().put("k", b"kept")
    assert list((tmp_path / "here").iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NVBACKEND_CACHE", "relative")
    assert default_directory() == tmp_path / "relative"
    for off in ("off", "OFF", "Off", "0", "no", "None", "false", "disabled"):
        monkeypatch.setenv("NVBACKEND_CACHE", off)
        assert default_directory() is None
        assert Cache.default().get("k") is None
    monkeypatch.setenv("NVBACKEND_CACHE", "./no")
    assert default_directory() == tmp_path / "no"
    monkeypatch.setenv("NVBACKEND_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "nvbackend"


@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=64), max_size=5))
def test_parts_survive_packing(parts: dict[str, bytes]) -> None:
    assert unpack(pack(parts)) == parts


FOREIGN_FILES = """
import os, sys
from pathlib import Path
from nvbackend.codegen.cache import Cache, cache_key
directory, kind = Path(sys.argv[1]), sys.argv[2]
key = cache_key("test", text="one")
cache = Cache(directory, limit=1 << 20)
cache.put(key, b"an entry")
(path,) = directory.iterdir()
path.unlink()
if kind == "pipe":
    os.mkfifo(path)
elif kind == "device":
    path.symlink_to("/dev/zero")
else:
    path.mkdir()
assert cache.get(key) is None
cache.put(key, b"payload")
cache.trim()
print(cache.get(key))
"""


@pytest.mark.parametrize(("kind", "kept"), [("pipe", b"payload"), ("device", b"payload"), ("directory", None)])
def test_what_is_no_ordinary_file_is_a_miss_at_once(tmp_path: Path, kind: str, kept: bytes | None) -> None:
    """A pipe gives no byte until somebody writes into it, and /dev/zero does not end."""
    assert python_output(FOREIGN_FILES, str(tmp_path), kind, timeout=20).strip() == str(kept)


def test_an_entry_under_the_name_of_another_key_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    other = cache_key("test", text="two")
    cache.put(KEY, PAYLOAD)
    entry_of(cache, KEY).rename(tmp_path / entry_of(cache, KEY).name.replace(KEY, other))
    assert cache.get(other) is None


def numbers(*each: int) -> bytes:
    return b"".join(one.to_bytes(8, "little") for one in each)


def test_a_payload_has_sizes_names_and_parts() -> None:
    payload = numbers(2, 1, 3, 2, 0) + b"aptxxy"
    assert payload == pack({"a": b"xy", "ptx": b""})
    assert unpack(payload) == {"a": b"xy", "ptx": b""}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\1",
        bytes(7),
        bytes(8) + b"x",
        b"\xff" * 24,
        numbers(1, 3, 3) + b"ptxab",
        numbers(1, 3, 3) + b"ptxabcd",
        numbers(2, 3, 3) + b"ptxabc",
        numbers(1, 3, 2**64 - 1) + b"ptx",
        numbers(1, 2, 1) + b"\xff\xfe1",
    ],
)
def test_what_pack_did_not_make_is_not_unpacked(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        unpack(payload)
