"""What decides on a kernel's diagnostics is compared before a kernel of another time is given again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.again import on_disk
from nvbackend.builder.kernel.again.on_disk import KernelsOnDisk
from tests.support.compiled_again import KEY, Runs, compiled, in_module

SETTINGS: dict[str, tuple[str, object, object]] = {
    "a rule that is allowed": ("allow", (), ("wgmma.unwritten",)),
    "a reason": ("allow", {"wgmma.unwritten": "never"}, {"wgmma.unwritten": "nowhere"}),
    "a severity": ("severity", None, {"wgmma.unwritten": "warning"}),
    "an example": ("examples", ({"n": 1},), ({"n": 2},)),
}


def made(attribute: str, value: object) -> Any:
    """The kernel of another process, whose decorator has this value."""
    return in_module(
        f"VALUE = {value!r}\n@nvb.kernel('sm_80', threads=32, {attribute}=VALUE)\n"
        "def kernel(k, out: nvb.Pointer[f32], n: nvb.i32): out[0] = 1.0"
    ).kernel


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", SETTINGS)
def test_another_process_with_another_setting_builds_anew(
    what: str, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute, before, after = SETTINGS[what]
    monkeypatch.setattr(KernelsOnDisk, "key", KEY)
    monkeypatch.setattr(on_disk, "users_files", lambda _began: "the files of this program")
    for value, count in ((before, 1), (before, 1), (after, 2), (after, 2)):
        compiled(made(attribute, value), cache=nvb.Cache(tmp_path))
        assert runs.count == count


@pytest.mark.parametrize("what", SETTINGS)
def test_a_setting_that_is_changed_is_seen(what: str, runs: Runs) -> None:
    attribute, before, after = SETTINGS[what]
    kernel = made(attribute, before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            compiled(kernel)
        assert runs.count == 1
        setattr(kernel, attribute, after)
        said = compiled(kernel)
        assert runs.count == 2
        built = kernel.build()
    assert (said.diagnostics, said.suppressed) == (built.diagnostics, built.suppressed)


@pytest.mark.parametrize("option", [{"debug": False}, {"check": False}], ids=str)
def test_another_option_is_another_kernel(option: dict[str, Any], runs: Runs) -> None:
    kernel = made("allow", ())
    for count, options in enumerate(({}, option, {}, option)):
        compiled(kernel, **options)
        assert runs.count == min(count + 1, 2)
