"""Drives a frontier in a database and the one in memory through the same operations, under any policy.

A subclass opens another database, and makes its frontier.
"""

import sqlite3
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from opilio.core.protocols import Database, Frontier
from opilio.core.records import HostLease, Lead, UrlResult, UrlState
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.policy import (
    Aging,
    BestFirst,
    BreadthFirst,
    Expiring,
    FrontierLimits,
    FrontierPolicy,
    MergePolicy,
    NBest,
    Order,
)
from opilio.frontier.schema import create_frontier_tables
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.testing.leases import lead

HOSTS = ("a.example", "b.example", "c.example")
hosts = st.sampled_from(HOSTS)
paths = st.integers(0, 11).map(str)
scores = st.sampled_from([0.0, 0.01, 0.25, 0.33, 0.5, 0.9, 1.0, 5.0])
contexts = st.fixed_dictionaries({"parent": st.integers(0, 7), "depth": st.integers(0, 3), "tunnel": st.integers(0, 2)})
leads = st.builds(
    lambda p, s, h, more: lead(p, s, h, features=b"%d" % more["depth"], **more), paths, scores, hosts, contexts
)
orders = st.sampled_from(
    [
        BestFirst(),
        BreadthFirst(),
        NBest(n=3),
        Expiring(lifetime_s=8.0, max_per_lease=2),
        Aging(every=3, factor=0.25, mode="paper"),
        Aging(every=3, factor=0.25, mode="base_tiebreak"),
        Aging(every=3, factor=0.25),
    ]
)
limits = st.sampled_from(
    [
        FrontierLimits(),
        FrontierLimits(queued=8),
        FrontierLimits(host_total=7),
        FrontierLimits(queued=16),
    ]
)


class BothFrontiers(RuleBasedStateMachine):
    """Drives both; `leases` are those handed out and not yet completed, perhaps long lapsed."""

    @initialize(order=orders, limit=limits, merge=st.sampled_from(list(MergePolicy)), front=st.sampled_from([2, 1000]))
    def start(self, order: Order, limit: FrontierLimits, merge: MergePolicy, front: int) -> None:
        self.policy = FrontierPolicy(
            order=order, limits=limit, merge=merge, refusal_reason=lambda lead: "no" if lead.url[-1] == "9" else ""
        )
        self.front = front
        self.db = self.open_database()
        self.stored = self.make_frontier()
        self.memory = MemoryFrontier(self.policy)
        self.now = 0.0
        self.leases: list[tuple[HostLease, HostLease]] = []  # the same lease of both: tokens differ

    def open_database(self) -> Database:
        db = sqlite3.connect(":memory:", isolation_level=None)
        create_frontier_tables(db, bounded=True)
        return db

    def make_frontier(self) -> Frontier:
        return SqliteFrontier(self.db, self.policy, front_size=self.front, host_cache=self.front)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.compare_entries()
            self.db.close()

    def both(self, ask: Callable[[Frontier], object]) -> object:
        ours, theirs = ask(self.stored), ask(self.memory)
        assert ours == theirs
        return ours

    @rule(batch=st.lists(leads, max_size=8))
    def add(self, batch: list[Lead]) -> None:
        self.both(lambda f: f.add(batch, self.now))

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 7.0, 25.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(max_hosts=st.integers(1, 3), per_host=st.integers(1, 3), ttl_s=st.sampled_from([2.0, 50.0]))
    def lease(self, max_hosts: int, per_host: int, ttl_s: float) -> None:
        ours, theirs = (f.lease(self.now, max_hosts, per_host, ttl_s) for f in (self.stored, self.memory))
        assert [replace(x, token=0) for x in ours] == [replace(x, token=0) for x in theirs]
        self.leases += zip(ours, theirs, strict=True)

    @rule(data=st.data(), sleep=st.sampled_from([0.0, 1.0, 4.0, 40.0]))
    def complete(self, data: st.DataObject, sleep: float) -> None:
        if not self.leases:
            return
        lease, theirs = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))
        states = st.sampled_from(
            [None, UrlState.DONE, UrlState.DONE, UrlState.FAILED, UrlState.DROPPED, UrlState.QUEUED]
        )
        results = [
            UrlResult(key=x.key, host=x.host, state=state, reason=state.value, retry_at=self.now + 2.0)
            for x in lease.leads
            if (state := data.draw(states)) is not None
        ]
        accepted = self.stored.complete(lease, results, self.now + sleep)
        assert accepted == self.memory.complete(theirs, results, self.now + sleep)

    @rule(ttl_s=st.sampled_from([1.0, 9.0]))
    def renew(self, ttl_s: float) -> None:
        kept = self.stored.renew([ours for ours, _ in self.leases], self.now, ttl_s)
        assert kept == self.memory.renew([theirs for _, theirs in self.leases], self.now, ttl_s)

    @rule(host=hosts, path=paths, score=scores)
    def rescore(self, host: str, path: str, score: float) -> None:
        wanted = [(host, lead(path, host=host).key, score), ("unknown.example", 1, score)]
        self.both(lambda f: f.rescore(wanted))

    @rule(host=hosts)
    def drop_host(self, host: str) -> None:
        self.both(lambda f: f.drop_host(host, "robots"))

    @rule(host=hosts, reason=st.sampled_from(["robots", "no"]), limit=st.integers(1, 3))
    def readmit(self, host: str, reason: str, limit: int) -> None:
        self.both(lambda f: f.readmit(host, reason, limit, self.now))

    @rule(path=paths)
    def drop_refused(self, path: str) -> None:
        self.both(lambda f: f.drop_refused(lambda url: "robots" if url.endswith(path) else ""))

    @rule(host=hosts)
    def reopen_host(self, host: str) -> None:
        self.both(lambda f: f.reopen_host(host, "robots", self.now))

    @rule(host=hosts, delay_s=st.sampled_from([0.0, 3.0]))
    def set_delay(self, host: str, delay_s: float) -> None:
        self.both(lambda f: f.set_delay(host, delay_s))

    @rule()
    def restart(self) -> None:
        """A clean end and a new start: only the database survives."""
        self.both(lambda f: f.recover(self.now))
        self.stored = self.make_frontier()

    @rule()
    def roll_back(self) -> None:
        """A transaction that fails leaves nothing behind, in memory either."""
        self.both(lambda f: f.recover(self.now))  # a roll back forgets what had not been written
        self.db.execute("BEGIN")
        self.stored.add([lead("new"), lead("3", 1.0)], self.now)
        self.stored.lease(self.now, 3, 3, 60.0)
        self.db.execute("ROLLBACK")

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "db"):
            return
        ours, theirs = self.stored.stats(), self.memory.stats()
        names = ("queued", "leased", "done", "failed", "dropped", "hosts")
        assert [getattr(ours, n) for n in names] == [getattr(theirs, n) for n in names]
        times = [f.wakes_at() for f in (self.stored, self.memory)]
        # Which of the past times it is depends on when a host was last looked at.
        assert len({None if t is None else max(t, self.now) for t in times}) == 1
        self.both(lambda f: [(e.lead, e.state, e.priority, e.parents, e.seq) for e in f.best(9)])

    @rule()
    def compare_entries(self) -> None:
        for host in HOSTS:
            for i in range(12):
                key = lead(str(i), host=host).key
                ours, theirs = self.stored.entry(host, key), self.memory.entry(host, key)
                if ours is None or theirs is None:
                    assert ours is theirs
                else:
                    assert (ours.lead, ours.state, ours.reason) == (theirs.lead, theirs.state, theirs.reason)
                    assert (ours.priority, ours.parents) == (theirs.priority, theirs.parents)
                    assert ours.times_found == theirs.times_found


def run_machine(machine: type[BothFrontiers], examples: int) -> None:
    """Run it, with the same examples each time."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
