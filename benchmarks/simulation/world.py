"""One simulated crawl: a web, settings and disturbances that one seed decides, and the life of every process.

The crawl is started, disturbed at a step that the seed names, and resumed from what is left on the disk, until nothing
is left to fetch. A step is a change of a file, an event of the network (a request, an answer, an analysis), a part of
the start or end of a worker process, or any step of the event loop: the code between two awaits of any task.
"""

import asyncio
import random
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import msgspec
from benchmarks.simulation import checks
from benchmarks.simulation.disk import Disk, SimulatedFiles, SqliteHook
from benchmarks.simulation.network import SimulatedNetwork, make_web
from benchmarks.simulation.processes import LoopClock, NoEndError, SimulatedPool, VirtualTimeLoop

from opilio.core.errors import CollectionError
from opilio.core.events import BatchCommitted, Event
from opilio.core.protocols import Database, Fetcher
from opilio.core.settings import Settings
from opilio.engine.loop import Engine
from opilio.engine.wiring.assembly import AnalysisOptions
from opilio.engine.wiring.session import CrawlSession, Machine, create_collection
from opilio.engine.wiring.settings import CheckedSettings, check_settings
from opilio.engine.workers.pool import AnalysisPool, InlinePool
from opilio.store.collection import Collection
from opilio.topic.setup import resolve_settings

START = 1_800_000_000.0
FINISHED = "nothing left to fetch"
MAX_LIVES = 60
PAGE_BYTES = 4096
FAULTS = ("kill", "kill", "kill", "power", "power", "lie", "full", "stop", "suspend")
POWER_FAULTS = ("power", "lie")
LAST_STEPS = {
    "disk": 350,
    "network": 30,
    "loop": 120,
    "workers": 12,
}  # of the steps that a fault may hit, by their kind


@dataclass(slots=True)
class Fault:
    """What happens to a process, and at which step."""

    kind: str = ""
    on: str = ""  # disk, network, loop or workers
    at: int = 0


@dataclass(slots=True)
class Life:
    """One process of the crawl."""

    fault: Fault
    rng: random.Random
    loop: VirtualTimeLoop
    clock: LoopClock
    disk: Disk = field(init=False)
    session: CrawlSession | None = None
    engine: Engine | None = None
    pool: SimulatedPool | None = None
    task: "asyncio.Task[str] | None" = None
    steps: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LAST_STEPS, 0))
    full_until: int = 0

    @property
    def is_dead(self) -> bool:
        return self.disk.is_off


@cache
def checked_settings(strategy: str) -> CheckedSettings:
    """Settings and topic of a strategy, built once."""
    tree = {
        "strategy": strategy,
        "topic": {"name": "wrens and other small birds"},
        "seeds": {"urls": ["http://h0.example/p0"]},
        "engine": {"workers": 0},
        "store": {"check_every_s": 0.0},
        "stop": {"pages": 0, "harvest_below": 0.0},
    }
    return check_settings(resolve_settings(tree))


class World:
    """Runs the crawl of one seed in a folder; `problems` lists what was wrong."""

    def __init__(self, seed: int, place: Path, hook: SqliteHook) -> None:
        self.seed = seed
        self.problems: list[str] = []
        self.lives = 0
        self.faults: list[str] = []  # that happened
        self.is_damaged = False  # by a disk that lied; `verify` or the next process reports it
        self._rng = random.Random(seed)
        self._place = place
        self._hook = hook
        self._now = START
        self._web = make_web(self._rng)
        self._strategy = self._rng.choices(("breadth", "s0", "opilio"), (90, 6, 4))[0]
        self._settings = self._choose_settings()
        self._workers = self._rng.choice((0, 0, 1, 2))
        self._death_rate = self._rng.choice((0.0, 0.0, 0.1))
        self._network = SimulatedNetwork(seed, self._web, self._settings.politeness.delay_s, self._report)
        self._poisoned: set[str] = set()  # pages on which workers died
        self._learned: Mapping[str, bytes] | None = None  # by the last process, if it ended between two commits
        self._known: set[str] = set()  # URLs that were in the database at a commit

    def _choose_settings(self) -> Settings:
        rng, replace = self._rng, msgspec.structs.replace
        settings = checked_settings(self._strategy).settings
        addresses = {host: f"10.0.0.{rng.randint(1, 3)}" for host in self._web.hosts}
        seed = next(iter(self._web.pages))
        return replace(
            settings,
            seeds=replace(settings.seeds, urls=[seed]),
            politeness=replace(
                settings.politeness, delay_s=rng.choice((0.0, 0.5, 1.0)), share_address=rng.random() < 0.5
            ),
            fetch=replace(settings.fetch, retries=rng.randint(0, 2), resolve=addresses),
            frontier=replace(settings.frontier, per_host=rng.choice((0, 1, 3)), discover=False),
            store=replace(settings.store, rotate_bytes=rng.choice((600, 3000, 1 << 30))),
            stop=replace(settings.stop, patience_s=rng.choice((1.0, 10.0))),
            engine=replace(
                settings.engine,
                connections=rng.choice((1, 2, 8)),
                batch=rng.choice((1, 4, 32)),
                random_seed=self.seed,
            ),
        )

    def _report(self, problem: str) -> None:
        self.problems.append(f"life {self.lives}: {problem}")

    def run(self) -> list[str]:
        """Crawl to the end; returns the problems."""
        folder = self._place / f"{self.seed}-0"
        template = self._place / self._strategy
        if not template.exists():
            create_collection(template, self._settings, None)[0].close()
        shutil.copytree(template, folder)
        faults = [self._choose_fault() for _ in range(self._rng.randint(1, 3))]
        reason = ""
        while not self.problems and reason != FINISHED and not self.is_damaged:
            fault = faults.pop(0) if faults else Fault()
            reason, folder = self._live(folder, fault)
            self._now += 1000.0 if "every host left has to wait" in reason else 0.0
            if self.lives > MAX_LIVES:
                self._report("the crawl does not finish")
        if not self.problems and not self.is_damaged:
            all_links = self._strategy == "breadth"
            self.problems += checks.final_problems(folder, self._network, all_links, self._poisoned)
            self.problems += checks.integrity_problems(folder)
        shutil.rmtree(folder)
        return self.problems

    def _choose_fault(self) -> Fault:
        rng = self._rng
        on = rng.choice(("disk", "network", "loop", "loop", *(("workers",) if self._workers else ())))
        more = ("cancel", "worker", "worker") if self._workers else ("cancel",)
        kind = rng.choice((*FAULTS, *more) if on in ("loop", "workers") else FAULTS)
        return Fault(kind, on, rng.randint(1, LAST_STEPS[on]))

    def _live(self, folder: Path, fault: Fault) -> tuple[str, Path]:
        """One process from start to end; returns why it stopped, and the folder that the next one uses."""
        self.lives += 1
        loop = VirtualTimeLoop()
        life = Life(fault, self._rng, loop, LoopClock(loop, self._now))
        loop.on_step = partial(self._loop_step, life)
        life.disk = self._hook.disk = Disk(
            folder,
            partial(self._step, life),
            remember=fault.kind in POWER_FAULTS,
            is_synced=lambda: fault.kind != "lie" or life.rng.random() < 0.5,
        )
        reason = ""
        try:
            life.task = loop.create_task(self._crawl(life, folder))
            reason = loop.run_until_complete(life.task)
        except CollectionError as error:
            self.is_damaged = "lie" in self.faults and not life.is_dead
            if not life.is_dead and fault.kind != "full" and not self.is_damaged:
                self._report(f"the crawl ended with an error: {error}")
        except NoEndError as error:
            self._report(str(error))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - any error is a finding
            if not life.is_dead and not (fault.kind == "cancel" and isinstance(error, asyncio.CancelledError)):
                self._report(f"the crawl ended with {type(error).__name__}: {error}")
        finally:
            # Workers of a process that is killed end with it; every other end of a crawl ends them first.
            if life.pool is not None and life.pool.running and not life.is_dead:
                self._report(f"{len(life.pool.running)} worker processes are left")
            self._bury(life)
        if life.pool is not None:
            self._poisoned |= {url for url, deaths in life.pool.deaths.items() if deaths > 1} | {*life.pool.timeouts}
        folder = self._next_folder(life, folder)
        if fault.kind in POWER_FAULTS:
            # A power failure may take commits back.
            self._known.clear()
        if "lie" in self.faults:
            self.is_damaged = self.is_damaged or checks.is_damaged(folder)
        elif not self.problems:
            self._report_all(checks.checksum_problems(folder, fault.kind == "power"))
        return reason, folder

    def _bury(self, life: Life) -> None:
        """End what is left of a process, and let time pass until the next one starts."""
        loop = life.loop
        loop.on_step = None
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.rounds = 0
        if tasks:
            try:
                loop.run_until_complete(asyncio.wait(tasks))
            except NoEndError as error:
                self._report(f"at the end: {error}")
        loop.close()
        self._now = life.clock.now()
        self._network.process_ended(self._now)
        # A machine takes longer to start again than a process.
        self._now += 120.0 if life.fault.kind in POWER_FAULTS else self._rng.choice((0.0, 0.3, 5.0))

    def _next_folder(self, life: Life, folder: Path) -> Path:
        image = life.disk.image
        self._hook.disk = None
        if image is None:
            return folder
        shutil.rmtree(folder)
        folder = self._place / f"{self.seed}-{self.lives}"
        folder.mkdir()
        for name, content in image.items():
            (folder / name).write_bytes(content)
        return folder

    async def _crawl(self, life: Life, folder: Path) -> str:
        def wrap_pool(pool: AnalysisPool) -> AnalysisPool:
            if not self._workers or not isinstance(pool, InlinePool):
                return pool
            life.pool = SimulatedPool(
                pool._analyzer, self._workers, life.rng, self._death_rate, partial(self._step, life)
            )
            return life.pool

        def build_fetcher(*_: object) -> Fetcher:
            return self._network.connect(life.clock, partial(self._step, life), lambda: life.is_dead)

        collection = Collection.open_for_writing(folder)
        assert collection.seal is not None
        collection.seal.checkpoint_bytes = life.rng.choice((5, 50, 4000)) * PAGE_BYTES
        machine = Machine(life.clock, build_fetcher, AnalysisOptions(wrap_pool=wrap_pool), SimulatedFiles(life.disk))
        life.session = CrawlSession(collection, self._settings, machine, checked_settings(self._strategy).topic)
        async with life.session as session:
            life.engine = engine = session.engine
            self._network.process_started(*checks.stored_pages_and_rules(collection.connection))
            self._check_learners(life)
            self._check_pages(collection.connection)
            engine.add_listener(lambda event: self._heard(life, event))
            reason = await engine.run()
            if not life.is_dead:
                self._report_all(checks.end_problems(engine, life.pool))
                self._learned = checks.learner_states(engine)
        return reason

    def _report_all(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._report(problem)

    def _check_learners(self, life: Life) -> None:
        """The journal of the last process gives the states that it had."""
        assert life.session is not None
        if self._learned is not None:
            found = checks.learner_states(life.session.engine)
            wrong = [name for name, state in self._learned.items() if found.get(name) != state]
            if wrong:
                self._report(f"learners differ after a restart: {wrong}")
        self._learned = None

    def _heard(self, life: Life, event: Event) -> None:
        if isinstance(event, BatchCommitted) and not life.is_dead and life.session is not None:
            self._network.stored |= {
                outcome.lead.url
                for outcome in event.outcomes
                if outcome.fetched.status == 200 and outcome.analysis is not None and outcome.analysis.failure is None
            }
            db = life.session._collection.connection
            self._report_all(checks.commit_problems(life.session.engine, db))
            self._check_pages(db)

    def _check_pages(self, db: Database) -> None:
        all_links = self._strategy == "breadth"
        self._report_all(checks.page_problems(db, self._web, all_links, self._known))

    def _step(self, life: Life, name: str) -> None:
        """A change of a file, an event of the network, or a part of the start or end of a worker."""
        on = name if name in ("disk", "workers") else "network"
        # A crawl that only writes now and then does not proceed.
        if on == "network":
            life.loop.rounds = 0
        self._count(life, on)
        if life.disk.is_full and life.steps["disk"] >= life.full_until:
            life.disk.is_full = False

    def _loop_step(self, life: Life) -> None:
        if life.engine is not None:
            connections = self._settings.engine.connections
            self._report_all(checks.step_problems(life.engine, connections, life.pool))
        self._count(life, "loop")

    def _count(self, life: Life, on: str) -> None:
        """Count a step; the one that the fault names is disturbed."""
        life.steps[on] += 1
        if life.fault.on == on and life.steps[on] == life.fault.at and not life.is_dead:
            self.faults.append(life.fault.kind)
            self._disturb(life)

    def _disturb(self, life: Life) -> None:
        session, kind = life.session, life.fault.kind
        if kind in ("kill", *POWER_FAULTS):
            # A process that ends between two steps of its loop has committed what it learned.
            if life.fault.on != "disk" and session is not None and hasattr(session, "engine") and kind == "kill":
                self._learned = checks.learner_states(session.engine)
            life.disk.kill() if kind == "kill" else life.disk.power_off(life.rng)
            if life.task is not None:
                life.task.cancel()
        elif kind == "cancel" and life.task is not None:
            life.task.cancel()
        elif kind == "worker" and life.pool is not None:
            life.pool.kill_worker()
        elif kind == "full":
            life.disk.is_full = True
            life.full_until = life.steps["disk"] + life.rng.choice((2, 30, 1_000_000))
        elif kind == "suspend":
            life.loop.elapsed_s += life.rng.choice((100.0, 4000.0))
        elif kind == "stop" and session is not None and hasattr(session, "engine"):
            session.engine.stop()
