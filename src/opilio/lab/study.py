"""An experiment carried out: which runs it needs, spread over processes, brought back in a fixed order."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from opilio.crawl.build import first_state, topic_of
from opilio.crawl.config import Tree, merged
from opilio.crawl.workers import cores
from opilio.lab.crawls import lab_settings
from opilio.lab.declarations import BOUNDS, PEER, Experiment, Variant
from opilio.lab.peers.environments import check_peer
from opilio.lab.processes import spread
from opilio.lab.results import Run
from opilio.lab.runs import Arena, Job
from opilio.lab.searching import asked_for
from opilio.lab.topics import Brief, LabTopic, SeedSet, chosen_topics
from opilio.lab.web import Problem
from opilio.model.errors import UsageError, WebError

Came = Callable[[int, Run], None]  # the place of a job, and its run


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for; what is left out is the experiment's own."""

    webs: tuple[Path, ...]
    topics: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    pages: int = 0
    seed_sets: int = 0
    random_seed: int = 0
    random_seeds: int = 1  # how many, counted up from `random_seed`
    more: Tree = {}


class Study:
    """All runs of one experiment. `problems` is what was skipped and why."""

    def __init__(self, experiment: Experiment, choice: Choice) -> None:
        self.experiment = experiment
        self.choice = choice
        self.problems: list[Problem] = []

    def jobs(self) -> list[Job]:
        """Every run, in a fixed order: runs of one case stand together, so that they share an oracle."""
        for variant in self.choice.variants:
            _check(variant, self.choice.more)
        for topic in self.experiment.classes:
            topic_of(lab_settings("breadth", Brief(name=topic), (), 1, self._with_classes(topic)))
        found = [job for folder, name in named_apart(self.choice.webs) for job in self._of_web(folder, name)]
        if not found:
            raise WebError(f"{self.choice.webs[0]}: nothing to run: {_first(self.problems)}")
        return found

    def _of_web(self, folder: Path, name: str) -> Iterator[Job]:
        arena = opened(folder)
        arena.offline.faults()  # complain about hosts.toml before the first run
        for variant in self.choice.variants:
            _prepare(arena, variant, self.choice.more)
        self.problems += [*arena.offline.web.problems, *arena.topic_problems, *arena.labels.problems]
        for topic in self._topics(arena):
            if not arena.labels.relevant(topic).any():
                wanted = ", ".join(topic.relevant) or "none are given"
                self._skip("topic", topic.name, f"no page has a label that makes it relevant ({wanted}); skipped")
                continue
            if not self._can_be_told(topic):
                continue
            targets = self.experiment.targets
            if targets and all(s.name != targets for s in topic.seed_sets):
                self._skip("seed", f"{topic.name}/{targets}", "no such seed set, so no T-Graph to begin with")
            for seeds in self._seed_sets(arena, topic):
                for job in self._of_case(topic, seeds):
                    yield msgspec.structs.replace(job, folder=str(folder), web=name)

    def _can_be_told(self, topic: LabTopic) -> bool:
        """Can every variant make something of the topic's words? Else it is told now, not after an hour."""
        tried: set[bytes] = set()
        for variant in filter(_is_ours, self.choice.variants):
            try:
                more = merged(variant.set, self._with_classes(topic.name))
                settings = lab_settings(variant.kind, topic.brief, (), 1, more)
                heard = msgspec.msgpack.encode((settings.topic, settings.judge, settings.senses, settings.expansion))
                if heard not in tried:
                    first_state(settings, topic_of(settings))
                tried.add(heard)
            except UsageError as error:
                self._skip("topic", topic.name, f"'{variant.name}' can't crawl for it: {error}; skipped")
                return False
        return True

    def _of_case(self, topic: LabTopic, seeds: SeedSet) -> Iterator[Job]:
        choice, declared = self.choice, self.experiment
        bounds = [Variant(name=name) for name in declared.bounds if name not in {v.name for v in choice.variants}]
        for draw in range(choice.random_seeds):
            for variant in (*choice.variants, *bounds):
                yield Job(
                    experiment=declared.name,
                    topic=topic.name,
                    seed_set=seeds.name,
                    variant=variant,
                    budget=choice.pages or declared.budget,
                    random_seed=choice.random_seed + draw,
                    latency_s=declared.latency_s,
                    more=self._with_classes(topic.name),
                    targets=declared.targets if variant.graph else "",
                )

    def _with_classes(self, topic: str) -> Tree:
        classes = self.experiment.classes.get(topic)
        return merged({"topic": {"dewey": list(classes)}}, self.choice.more) if classes else self.choice.more

    def _topics(self, arena: Arena) -> list[LabTopic]:
        """The topics asked for; else all, or as many as the experiment takes, the largest first."""
        topics = chosen_topics(list(arena.topics.values()), self.choice.topics, arena.offline.web.folder)
        most = self.experiment.topics
        if self.choice.topics or not most or len(topics) <= most:
            return topics
        return sorted(topics, key=lambda t: -int(arena.labels.relevant(t).sum()))[:most]

    def _seed_sets(self, arena: Arena, topic: LabTopic) -> list[SeedSet]:
        """The first K sets of each kind that reach something relevant."""
        most = self.choice.seed_sets or self.experiment.seed_sets
        searched = [arena.seed_set(topic, kind) for kind in self.experiment.seed_kinds if asked_for(kind)]
        kept = [seeds for seeds in searched if self._leads_somewhere(arena, topic, seeds)]
        for kind, sets in self._kinds(topic).items():
            useful = [s for s in sets if arena.referee.reachable(topic, s)]
            for seeds in sets[:most]:
                self._tell_lost(arena, topic, seeds)
                self._leads_somewhere(arena, topic, seeds)
            if 0 < len(useful) < most:
                self._skip("seed", f"{topic.name}/{kind}", f"{len(useful)} usable seed sets of this kind, not {most}")
            kept += useful[:most]
        if not kept:
            self._skip("topic", topic.name, "no usable seed set of the kinds this experiment uses; skipped")
        return kept

    def _leads_somewhere(self, arena: Arena, topic: LabTopic, seeds: SeedSet) -> bool:
        """Seeds without a way to a relevant page would be a 0 for everybody, and are told instead."""
        if arena.referee.reachable(topic, seeds):
            return True
        self._skip("seed", f"{topic.name}/{seeds.name}", "reaches no relevant page; skipped")
        return False

    def _tell_lost(self, arena: Arena, topic: LabTopic, seeds: SeedSet) -> None:
        lost = len(seeds.urls) - len(arena.referee.seeds(seeds))
        if lost:
            detail = f"{lost} of {len(seeds.urls)} seeds not in the web: a 404 each"
            self._skip("seed", f"{topic.name}/{seeds.name}", detail)

    def _kinds(self, topic: LabTopic) -> dict[str, list[SeedSet]]:
        own = [kind for kind in self.experiment.seed_kinds if not asked_for(kind)]
        others = [s for s in topic.seed_sets if s.name != self.experiment.targets]
        return _by_kind(others, own) if own else {}

    def _skip(self, kind: str, subject: str, detail: str) -> None:
        self.problems.append(Problem(kind, subject, detail))


def _check(variant: Variant, more: Tree) -> None:
    """Complain about a variant before the first run, not after an hour."""
    kind = variant.kind
    if kind.startswith(PEER):
        check_peer(kind.removeprefix(PEER))
    elif kind not in BOUNDS:
        lab_settings(kind, Brief(name=variant.name), (), 1, merged(variant.set, more))


def _is_ours(variant: Variant) -> bool:
    return variant.kind not in BOUNDS and not variant.kind.startswith(PEER)


def _prepare(arena: Arena, variant: Variant, more: Tree) -> None:
    """Have the words read by all cores before the runs are spread, so that no process does it for itself."""
    if _is_ours(variant):
        settings = lab_settings(variant.kind, Brief(name=variant.name), (), 1, merged(variant.set, more))
        arena.offline.readings(settings, cores())


def carry_out(jobs: Sequence[Job], processes: int, came_in: Came, done: Mapping[int, Run] | None = None) -> list[Run]:
    """All runs in the order of the jobs, whatever the number of processes. Peers run alone: they use every core.

    `done`: runs that need not be made, by the places of their jobs. `came_in` hears of each other one.
    """
    runs: dict[int, Run] = dict(done or {})

    def came(place: int, run: Run) -> None:
        runs[place] = run
        came_in(place, run)

    wanted = [(place, job) for place, job in enumerate(jobs) if place not in runs]
    ours = [(place, job) for place, job in wanted if not job.variant.kind.startswith(PEER)]
    if processes < 2 or len(ours) < 2:
        for place, job in ours:
            came(place, one_run(job))
    else:
        for number, run in spread(one_run, [job for _, job in ours], min(processes, len(ours))):
            came(ours[number][0], run)
    for place, job in wanted:
        if place not in runs:
            came(place, one_run(job))
    return [runs[place] for place in range(len(jobs))]


def one_run(job: Job) -> Run:
    """A run in this process, which keeps its webs open."""
    return opened(Path(job.folder)).run(job)


@lru_cache(maxsize=8)
def opened(folder: Path) -> Arena:
    """A web, opened once in a process: what it holds does not change while an experiment runs."""
    return Arena.open(folder)


def errors_met(runs: Sequence[Run]) -> list[Problem]:
    """Runs that found less than they should, because of an error of ours."""
    return [Problem("error", f"{r.topic}/{r.seed_set}, {r.strategy}", r.error) for r in runs if r.error]


def _by_kind(sets: Sequence[SeedSet], kinds: Sequence[str]) -> dict[str, list[SeedSet]]:
    """Seed sets by kind (`on-topic`, `generic`); sets that are named otherwise are a kind of their own."""
    groups: dict[str, list[SeedSet]] = {kind: [] for kind in kinds}
    known = ("on-topic", "generic")
    for seeds in sets:
        kind = next((k for k in known if seeds.name.startswith(k)), "other")
        if kind in groups or kind == "other":
            groups.setdefault(kind, []).append(seeds)
    return groups


def named_apart(folders: Sequence[Path]) -> list[tuple[Path, str]]:
    """Webs and their names in results: those of the folders, with what is above them where two are called the same.

    A web that is given twice is one. Results tell cases apart by the name: two webs of one name would be one.
    """
    whole = list(dict.fromkeys(folder.resolve() for folder in folders))
    called = Counter(folder.name for folder in whole)
    shared = os.path.commonpath(whole)
    return [(f, f.name if called[f.name] == 1 else str(f.relative_to(shared))) for f in whole]


def _first(problems: Sequence[Problem]) -> str:
    return next((str(p) for p in problems if p.kind in ("seed", "topic")), "no topic")
