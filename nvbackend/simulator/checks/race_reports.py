"""What is said of accesses that nothing orders: the rule that names the kind of mistake, and both places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import dropwhile, islice
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Location, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.clocks import SEEN, Clocks
from nvbackend.simulator.checks.shadow import Conflict
from nvbackend.simulator.checks.strong import Strong, StrongSites, is_strong
from nvbackend.simulator.events import Access, Mask, Pending, Site
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave

CP_ASYNC = "cp.async"
_GUARD = r"(@\S+\s+)?"
_ATOMIC = re.compile(_GUARD + r"(atom|red|multimem\.red)\b")
_STORE = re.compile(_GUARD + r"(st|atom|red)\.(?!\S*\.shared)")
_RELEASE = re.compile(r"\.(release|acq_rel)\.")
_STRONG = re.compile(_GUARD + r"(atom|red|st\.(relaxed|volatile))\b")
_FENCE = re.compile(_GUARD + r"(fence\.(acq_rel|sc)|membar)\b")
_SUMS = "; where threads add to one element, use (address + index).atomic('add', value)"
_OF_THE_COPY = "in the CTA that copies: k.tma.wait_group(0)"
_EVERY_PROXY = "k.fence.proxy_async(None)"
_PROXY = f"; and {_EVERY_PROXY} by the one that stores the flag, before, or by the one that copies, after it"
_MOST_FLAGS = 4
Which = NDArray[np.int64] | slice
"""Which addresses of an access."""


@dataclass(slots=True)
class RaceReports:
    """What is known of a wave where an access has a conflict.

    `sites` are site, proxy and engine of each number. `relaxed`: of each warp when, where and to which barrier of the
    cluster it came, relaxed and with no fence before; `passed`: the last phase of one that it has waited for.
    """

    wave: Wave
    clocks: Clocks
    strong_sites: StrongSites
    strong: Strong
    sites: list[tuple[Site, str, str]] = field(default_factory=list)
    relaxed: dict[int, tuple[int, Site, tuple[str, int, int]]] = field(default_factory=dict)
    passed: dict[int, tuple[str, int, int]] = field(default_factory=dict)

    def report(self, access: Access, conflict: Conflict, here: Which) -> NoReturn:
        """Raise the rule that says what kind of mistake it is."""
        engine, operation = self.sites[conflict.site][2], access.by.operation
        if conflict.is_untold or conflict.is_unheard:
            (self._fail_untold if conflict.is_untold else self._fail_unheard)(access, conflict, here)
        if conflict.is_of_warp:
            alone = operation is not None and len(operation.threads) == 1
            rule = rules.REFILL if alone and conflict.was_read else rules.MISSING_WARP_SYNC
        elif CP_ASYNC in (engine, operation.engine if operation else ""):
            rule = self._rule_of_async_copy(access, conflict)
        elif (engine or operation is not None) and self._is_not_handed_over(access, conflict, here):
            rule = rules.NO_FLAG
        elif operation is not None:
            rule = self._rule_of_operation(access, operation, conflict, here)
        elif engine:
            rule = self._rule_of_engine(access, conflict, here)
        elif is_strong(access) and self.strong_sites.is_strong(conflict.site):
            rule = rules.SCOPE
        elif (barrier := self._relaxed_between(access, conflict, here)) is not None:
            self._fail_relaxed(access, conflict, here, barrier)
        elif (met := self._flag(access, conflict, here)) is not None:
            self._fail_flag(access, conflict, here, *met)
        elif access.space == "global":
            self._fail_unflagged(access, conflict, here)
            rule = rules.RACE
        elif access.kind in ("read", "atomic") or _is_atomic(self.sites[conflict.site][0]):
            rule = rules.MISSING_BARRIER
        else:
            rule = rules.OVERWRITTEN_EARLY if conflict.was_read else rules.RACE
        self.fail(rule, access, conflict, here)

    def _fail_unflagged(self, access: Access, conflict: Conflict, here: Which) -> None:
        """Raise the rule of a flag that is an ordinary access, or that the one who reads does not wait for."""
        earlier, now = self.sites[conflict.site][0], access.by.site
        strong = self.strong_sites.is_strong(conflict.site)
        if not self._is_of_another_cta(access, conflict, here):
            return
        if strong != is_strong(access):
            texts = "the read" if conflict.was_read else "the write", f"this {access.kind}"
            self.fail(rules.FLAG_WEAK, access, conflict, here, weak=texts[strong], strong=texts[not strong])
        if strong or not (access.kind == "read" or conflict.was_read):
            return
        flags = list(flags_after(earlier if access.kind == "read" else now, self.wave.sites()))
        if flags:
            notes = [(f"{'a' if len(flags) > 1 else 'the'} flag is here (PTX {one})", one.origin) for one in flags]
            named = f"the flag after the write, PTX {flags[0]}"
            if len(flags) > 1:
                named = f"any of the {len(flags)} flags after the write, such as PTX {flags[0]}"
            self.fail(rules.FLAG_UNWAITED, access, conflict, here, *notes[:_MOST_FLAGS], flag=named)

    def _is_not_handed_over(self, access: Access, conflict: Conflict, here: Which) -> bool:
        """Whether one CTA reads what another writes, and neither has read a flag that the other wrote."""
        if not self._is_of_another_cta(access, conflict, here) or not (access.kind == "read" or conflict.was_read):
            return False
        return not self.strong.have_met(self._cta(access, conflict, here), self.clocks.cta_of(conflict.source))

    def _is_of_another_cta(self, access: Access, conflict: Conflict, here: Which) -> bool:
        """Whether the two access global memory in two CTAs."""
        return access.space == "global" and self.clocks.cta_of(conflict.source) != self._cta(access, conflict, here)

    def _cta(self, access: Access, conflict: Conflict, here: Which) -> int:
        """The CTA of the thread that makes the later access: threads of several may make it in one step."""
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        return _thread(access, place) // self.wave.cta_threads

    def _relaxed_between(self, access: Access, conflict: Conflict, here: Which) -> Site | None:
        """The relaxed arrival at a barrier of the cluster, after the earlier access, that the later one waited for."""
        if conflict.source not in self.relaxed:
            return None
        time, site, (_, cluster, phase) = self.relaxed[conflict.source]
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        _, other, passed = self.passed.get(_thread(access, place) // WARP, ("", -1, -1))
        return site if conflict.time <= time and cluster == other and phase <= passed else None

    def _fail_relaxed(self, access: Access, conflict: Conflict, here: Which, barrier: Site) -> NoReturn:
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        site = self.sites[conflict.site][0]
        did = "the read" if conflict.was_read else "the write"
        thread = self.wave.thread_name(conflict.source * WARP)
        cta = thread.partition(" of ")[2]
        notes = (f"{did} is here (PTX {site})", site.origin), (f"the barrier is here (PTX {barrier})", barrier.origin)
        earlier = f"{did} by a warp of {cta} at PTX {site}"
        self.raise_at(rules.RELAXED_BARRIER, access, place, earlier, *notes, barrier=f"PTX {barrier}")

    def _flag(self, access: Access, conflict: Conflict, here: Which) -> tuple[Rule, Site, str] | None:
        """What may be meant as a flag between two accesses, and why it is none. Neither of the two is."""
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        thread = _thread(access, place)
        flag = self.strong.hint(thread, conflict.source, conflict.time)
        return None if flag is not None and flag[1] in (access.by.site, self.sites[conflict.site][0]) else flag

    def _rule_of_engine(self, access: Access, conflict: Conflict, here: Which) -> Rule:
        """Of a thread's access and an operation. Raises the rule of a flag that orders nothing, after a wait for it."""
        if self._is_of_another_cta(access, conflict, here):
            cta = self._cta(access, conflict, here)
            flag = self.strong.hint_after_wait(cta, conflict.source, conflict.time)
            if flag is not None:
                self._fail_flag(access, conflict, here, *flag)
        return rules.WRITE_IN_FLIGHT if conflict.was_read else _rule_of_writes(access)

    def _rule_of_async_copy(self, access: Access, conflict: Conflict) -> Rule:
        operation = access.by.operation
        late = operation is not None and conflict.was_read and self._began_before(operation, conflict)
        return rules.ASYNC_COPY_READ if access.kind == "read" or late else rules.REFILL

    def _rule_of_operation(self, access: Access, operation: Pending, conflict: Conflict, here: Which) -> Rule:
        """An access since the operation was issued did not wait for it; one before is what it did not wait for.

        Raises the rules of flags for one before, in another CTA.
        """
        began = self._began_before(operation, conflict)
        flag = (
            None if began or not self._is_of_another_cta(access, conflict, here) else self._flag(access, conflict, here)
        )
        if flag is not None and flag[0] is not rules.WRITE_IN_FLIGHT:
            self._fail_flag(access, conflict, here, *flag)
        if flag is not None:
            return flag[0]
        if access.kind == "read":
            return rules.WRITE_IN_FLIGHT if began else rules.MISSING_BARRIER
        if began:
            return rules.READ_BEFORE_WAIT if conflict.was_read else rules.WRITTEN_TWICE
        return rules.REFILL

    def _began_before(self, operation: Pending, conflict: Conflict) -> bool:
        return self.clocks.of(operation).issued <= conflict.time

    def fail(
        self,
        rule: Rule,
        access: Access,
        conflict: Conflict,
        here: Which,
        *notes: tuple[str, Location | None],
        **more: str,
    ) -> NoReturn:
        """Raise a rule of an access and of the earlier one that it conflicts with."""
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        site, _, engine = self.sites[conflict.site]
        did = "the read" if conflict.was_read else "the write"
        by = "" if rule is rules.NON_COHERENT else f" by {engine or self._who(access, place, conflict)}"
        earlier = f"{did}{by} at PTX {site}"
        note = (f"{did} is here (PTX {site})", site.origin)
        if rule is rules.READ_BEFORE_WAIT:
            self.raise_at(rule, access, place, earlier, note, whose=self._whose(access, conflict, here))
        elif rule is rules.NO_FLAG:
            self.raise_at(rule, access, place, earlier, note, proxy=_PROXY)
        elif rule is rules.MISSING_FENCE:
            is_shared = access.space == "shared"
            call, between = ("k.fence.proxy_async()", "barrier") if is_shared else (_EVERY_PROXY, "barrier or flag")
            self.raise_at(rule, access, place, earlier, note, call=call, between=between)
        elif rule in (rules.RACE, rules.FLAG_UNWAITED):
            sums = _SUMS * (not _is_atomic(site, access.by.site))
            self.raise_at(rule, access, place, earlier, note, *notes, sums=sums, **more)
        elif rule is rules.REFILL:
            meet = (
                "let the lanes of the warp meet before the copy: k.warp.sync(); between warps, " * conflict.is_of_warp
            )
            self.raise_at(rule, access, place, earlier, note, meet=meet)
        elif rule is rules.MISSING_WARP_SYNC:
            may_add = conflict.was_read and access.by.operation is None
            values = {"lanes": "the lanes have not met", "between": "between the two", "sums": _SUMS * may_add}
            self.raise_at(rule, access, place, earlier, note, **values)
        else:
            self.raise_at(rule, access, place, earlier, note, *notes, **more)

    def _who(self, access: Access, place: int, conflict: Conflict) -> str:
        """Who made the earlier access, where no engine did."""
        warp = _thread(access, place) // WARP
        if conflict.is_of_warp:
            return "another lane of its warp"
        if warp == conflict.source:
            return "its own warp"
        if self.clocks.cta_of(conflict.source) == warp * WARP // self.wave.cta_threads:
            return "another warp"
        return f"a warp of {self.wave.thread_name(conflict.source * WARP).partition(' of ')[2]}"

    def _whose(self, access: Access, conflict: Conflict, here: Which) -> str:
        """Who waits for a copy: where another CTA reads what it wrote, the one that copies."""
        if self._is_of_another_cta(access, conflict, here):
            return f"{_OF_THE_COPY}, without reading=True, before it stores the flag"
        return "in every warp that reads"

    def _fail_flag(
        self, access: Access, conflict: Conflict, here: Which, rule: Rule, flag: Site, reason: str
    ) -> NoReturn:
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        site, _, engine = self.sites[conflict.site]
        did = "the read" if conflict.was_read else "the write"
        note = (f"{did} is here (PTX {site})", site.origin), (f"the flag is here (PTX {flag})", flag.origin)
        earlier = f"{did} by {engine or self._who(access, place, conflict)} at PTX {site}"
        proxy = "" if access.by.operation is None else _PROXY
        self.raise_at(rule, access, place, earlier, *note, flag=f"PTX {flag}", reason=reason, proxy=proxy)

    def _fail_untold(self, access: Access, conflict: Conflict, here: Which) -> NoReturn:
        """Raise that another lane told of an access than the one that made it."""
        place, site, did = self._earlier(conflict, here)
        _, clocks = self.clocks.source_of(access.by)
        row = self.clocks.places(access.by)
        until = int(clocks[row[place if len(row) > 1 else 0], SEEN, conflict.source])
        told = self.clocks.lanes.site_of(conflict.source, until)
        notes = [(f"{did} is here (PTX {site})", site.origin)]
        if told is not None:
            notes.append((f"the release is here (PTX {told})", told.origin))
        warp = self.wave.thread_name(conflict.source * WARP)
        lanes = f"when a lane of the warp of {warp} released this, the lanes had not met"
        earlier = f"{did} by another one at PTX {site}"
        values = {"lanes": lanes, "between": "between that access and the release", "sums": ""}
        self.raise_at(rules.MISSING_WARP_SYNC, access, place, earlier, *notes, **values)

    def _fail_unheard(self, access: Access, conflict: Conflict, here: Which) -> NoReturn:
        """Raise that another lane of a warp waited for an access than the one that goes on."""
        place, site, did = self._earlier(conflict, here)
        who = self.sites[conflict.site][2] or self._who(access, place, conflict)
        earlier = f"another one waited for {did} by {who} at PTX {site}"
        values = {"lanes": "the lanes of its warp have not met", "between": "after that wait", "sums": ""}
        note = (f"{did} is here (PTX {site})", site.origin)
        self.raise_at(rules.MISSING_WARP_SYNC, access, place, earlier, note, **values)

    def _earlier(self, conflict: Conflict, here: Which) -> tuple[int, Site, str]:
        place = conflict.place if isinstance(here, slice) else int(here[conflict.place])
        return place, self.sites[conflict.site][0], "the read" if conflict.was_read else "the write"

    def fail_within(self, access: Access, lost: Mask) -> NoReturn:
        """Two threads write different values to one address in one step."""
        place = int(np.flatnonzero(lost)[0])
        same = access.addresses == access.addresses[place]
        if access.owners is not None:
            owners = np.broadcast_to(access.owners, same.shape)
            same &= owners == owners[place]
        last = self.wave.thread_name(int(access.by.threads[np.flatnonzero(same)[-1]]))
        site = access.by.site
        other = f"the write of another value by {last} there"
        self.raise_at(rules.RACE, access, place, other, (f"PTX {site}", None), sums=_SUMS)

    def raise_at(
        self, rule: Rule, access: Access, place: int, earlier: str, *notes: tuple[str, Location | None], **more: str
    ) -> NoReturn:
        """Raise a rule of what an access does at one of its addresses."""
        by = access.by
        thread = self.wave.thread_name(_thread(access, place))
        who = thread if by.operation is None else f"the {by.operation.engine} of {thread}"
        does = {"read": "reads", "write": "writes", "atomic": "changes"}[access.kind]
        address = int(access.addresses[place])
        where = f"{access.space} address {address:#x}"
        if access.owners is not None:
            where += f" of CTA {int(np.broadcast_to(access.owners, access.addresses.shape)[place])}"
        now = f"{who} {does} {access.size} bytes at"
        every = ((f"PTX {by.site}", None), *notes)
        rule.fail(at=by.site.location, notes=every, now=now, memory=where, earlier=earlier, **more)


def _thread(access: Access, place: int) -> int:
    """Who makes an access at one of its addresses."""
    threads = access.by.threads
    return int(threads[place if len(threads) > 1 else 0])


def flags_after(write: Site, sites: Iterable[Site]) -> Iterator[Site]:
    """What may be the flags that say that something is written: the releases after it in the text."""
    fenced, after = False, dropwhile(lambda site: site is not write, sites)
    for site in (one for one in islice(after, 1, None) if one.function == write.function):
        fenced |= _FENCE.match(site.text) is not None
        stored = _STORE.match(site.text)
        if stored is not None and (_RELEASE.search(site.text) or (fenced and _STRONG.match(site.text))):
            yield site


def _rule_of_writes(access: Access) -> Rule:
    """What an access breaks that comes before an asynchronous write has: an atomic reads too."""
    return rules.WRITTEN_TWICE if access.kind == "write" else rules.READ_BEFORE_WAIT


def _is_atomic(*sites: Site) -> bool:
    """Whether one of the instructions is an atomic: then another one is no way to order them."""
    return any(_ATOMIC.match(site.text) for site in sites)
