"""References to the PTX ISA: the number of a section beside the name of an instruction is that instruction's.

The table is from the contents of PTX ISA 9.1. A number may name a chapter that the section is in.
"""

from __future__ import annotations

import re

from tests.support.source import PACKAGE, sources

SECTIONS = {
    "5.5.4": ("im2col mode",),
    "5.5.7": ("swizzling modes",),
    "8.6": ("proxies",),
    "9.7.9.6": ("shfl.sync",),
    "9.7.9.7": ("prmt",),
    "9.7.9.8": ("ld",),
    "9.7.9.12": ("st.async",),
    "9.7.9.13": ("st.bulk",),
    "9.7.9.15": ("prefetch",),
    "9.7.9.16": ("applypriority",),
    "9.7.9.17": ("discard",),
    "9.7.9.18": ("createpolicy",),
    "9.7.9.21": ("cvt",),
    "9.7.9.23": ("mapa",),
    "9.7.9.24": ("getctarank",),
    "9.7.9.25.3.1": ("cp.async",),
    "9.7.9.25.4.1": ("cp.async.bulk",),
    "9.7.9.25.4.2": ("cp.reduce.async.bulk",),
    "9.7.9.27.1.2": ("cp.async.bulk.tensor",),
    "9.7.9.27.1.3": ("cp.reduce.async.bulk.tensor",),
    "9.7.9.27.2.1": ("cp.async.bulk.commit_group",),
    "9.7.9.27.2.2": ("cp.async.bulk.wait_group",),
    "9.7.9.28": ("tensormap.replace",),
    "9.7.13.1": ("barrier", "bar.sync"),
    "9.7.13.2": ("bar.warp.sync",),
    "9.7.13.3": ("barrier.cluster",),
    "9.7.13.4": ("membar", "fence", "fence.mbarrier_init", "fence.proxy.async"),
    "9.7.13.7": ("red.async",),
    "9.7.13.9": ("vote.sync",),
    "9.7.13.10": ("match.sync",),
    "9.7.13.11": ("activemask",),
    "9.7.13.12": ("redux.sync",),
    "9.7.13.13": ("griddepcontrol",),
    "9.7.13.14": ("elect.sync",),
    "9.7.13.15.9": ("mbarrier.init",),
    "9.7.13.15.10": ("mbarrier.inval",),
    "9.7.13.15.11": ("mbarrier.expect_tx",),
    "9.7.13.15.12": ("mbarrier.complete_tx",),
    "9.7.13.15.13": ("mbarrier.arrive",),
    "9.7.13.15.16": ("mbarrier.test_wait", "mbarrier.try_wait"),
    "9.7.13.16": ("tensormap.cp_fenceproxy",),
    "9.7.13.17": ("clusterlaunchcontrol.try_cancel",),
    "9.7.13.18": ("clusterlaunchcontrol.query_cancel",),
    "9.7.14.1": ("matrix shapes", "mma shapes"),
    "9.7.14.2": ("matrix data types",),
    "9.7.14.3": ("scale factors",),
    "9.7.14.5.15": ("ldmatrix",),
    "9.7.14.5.16": ("stmatrix",),
    "9.7.14.5.17": ("movmatrix",),
    "9.7.14.6.1": ("sparsity selector",),
    "9.7.15.1": ("warpgroups",),
    "9.7.15.2": ("wgmma shapes",),
    "9.7.15.3": ("matrix types", "wgmma matrix types"),
    "9.7.15.5.1.1": ("register fragments", "wgmma register fragments"),
    "9.7.15.5.1.2": ("shared memory matrix layout",),
    "9.7.15.5.1.2.2": ("matrix descriptor", "matrix descriptor format"),
    "9.7.15.5.2": ("wgmma.mma_async", "imm-trans-a", "imm-scale-a"),
    "9.7.15.7.1": ("wgmma.fence",),
    "9.7.15.7.2": ("wgmma.commit_group",),
    "9.7.15.7.3": ("wgmma.wait_group",),
    "9.7.16.1": ("tensor memory",),
    "9.7.16.2.1": ("matrix shape", "table of kinds and shapes"),
    "9.7.16.3.3": ("canonical layouts",),
    "9.7.16.4.1": ("shared memory descriptor", "shared-memory descriptor"),
    "9.7.16.4.2": ("instruction descriptor",),
    "9.7.16.5": ("issue granularity",),
    "9.7.16.7.1": ("tcgen05.alloc",),
    "9.7.16.8.3": ("tcgen05.ld", "tcgen05.ld.red"),
    "9.7.16.8.4": ("tcgen05.st",),
    "9.7.16.8.5": ("tcgen05.wait",),
    "9.7.16.9.2": ("tcgen05.cp",),
    "9.7.16.9.3": ("tcgen05.shift",),
    "9.7.16.10.5": ("data path layouts",),
    "9.7.16.10.9.1": ("tcgen05.mma",),
    "9.7.16.10.9.3": ("tcgen05.mma.ws",),
    "9.7.16.11.1": ("tcgen05.fence",),
    "9.7.16.12.1": ("tcgen05.commit",),
    "9.7.19.2": ("nanosleep",),
    "9.7.19.5": ("setmaxnreg",),
    "11.1.1": (".version",),
    "11.1.2": (".target",),
}
SECTION_OF = {name: number for number, names in SECTIONS.items() for name in names}
REFERENCE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)+) \(([^):,;]+)")
"""A number, and what stands in parentheses behind it, up to the first mark."""
LINE = re.compile(r"PTX ISA|\"9\.7\.")


def strangers(text: str) -> list[str]:
    """The references of `text` whose number is neither the section of what they name nor a chapter that it is in."""
    found = (match for line in text.splitlines() if LINE.search(line) for match in REFERENCE.finditer(line))
    return [
        f"{number} ({name}): {SECTION_OF[name]}"
        for number, name in (match.groups() for match in found)
        if name in SECTION_OF and not f"{SECTION_OF[name]}.".startswith(f"{number}.")
    ]


def test_sections_are_those_of_what_they_name() -> None:
    wrong = {source.module: strangers(source.text) for source in sources(PACKAGE)}
    assert {module: found for module, found in wrong.items() if found} == {}


def test_a_section_of_something_else_is_found() -> None:
    text = '"PTX ISA 9.7.16.8.1 (tcgen05.ld), 9.7.16.8 (tcgen05.st)"\n"9.7.13.4 (barrier.cluster: all)"'
    assert strangers(text) == ["9.7.16.8.1 (tcgen05.ld): 9.7.16.8.3", "9.7.13.4 (barrier.cluster): 9.7.13.3"]
