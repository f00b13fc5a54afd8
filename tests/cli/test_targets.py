"""`nvbackend targets`."""

from __future__ import annotations

import json

import pytest

from nvbackend.cli import main
from nvbackend.isel.target.target import target_names

Printed = pytest.CaptureFixture[str]


def test_json_has_every_target_with_features_versions_and_probes(capsys: Printed) -> None:
    assert main(["targets", "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert tuple(found) == target_names()
    hopper, datacenter = found["sm_90a"], found["sm_100f"]
    assert (hopper["number"], hopper["suffix"], hopper["ptx_versions"]) == (90, "a", ["8.0", "9.0"])
    assert {"SM_90", "WGMMA", "ARCH_CONDITIONAL"} <= set(hopper["features"])
    assert (hopper["probes"]["has_wgmma"], hopper["probes"]["has_tmem"]) == (True, False)
    assert (datacenter["probes"]["has_tmem"], datacenter["probes"]["has_arch_conditional"]) == (True, False)
    # The probes that the seed on machine validation names.
    assert set(hopper["probes"]) == {
        *("has_tmem", "has_wgmma", "has_arch_conditional", "has_family_conditional", "has_scale_input_accumulator"),
        *("has_wide_im2col", "has_two_cta_tma", "has_cluster_multicast"),
    }


def test_text_is_one_line_a_target(capsys: Printed) -> None:
    assert main(["targets"]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(target_names())
    assert title.split()[:4] == ["TARGET", "PTX", "tmem", "wgmma"]
    (hopper,) = (line for line in lines if line.startswith("sm_90a "))
    assert hopper[title.index("wgmma")] == "y"
    assert hopper[title.index("tmem")] == "-"
