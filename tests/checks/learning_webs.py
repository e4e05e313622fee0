"""A small web with a topic in it, and crawls that learn: what they know in memory and what their collection says."""

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from checks.small_webs import BIRDS, TRAINS, page, settings_for, word
from opilio.core.events import BatchCommitted, Event
from opilio.core.protocols import JUDGE_STATE, Learns
from opilio.core.settings import Tree
from opilio.engine.commit import BatchCommitter
from opilio.engine.link_memory import CommitteeLearner
from opilio.engine.link_scoring import CommitteeLinkScorer
from opilio.engine.wiring.session import create_crawl, resume_crawl
from opilio.fetch.decoding import RecordedResponse
from opilio.judge.learned import LearnedJudge
from opilio.lab.server.server import LabWebServer
from opilio.learn.committee import Committee
from opilio.learn.scoring import CommitteeOptions
from opilio.store.collection import Collection, collection_exists
from opilio.topic.setup import resolve_settings

HUB = "http://birds.example/"
SIDES = 12


def mixed_web(pages: int = SIDES) -> dict[str, RecordedResponse]:
    """A hub on birds whose list leads to birds, and a hub on trains whose list leads to trains."""
    web = {}
    for host, text in (("birds", BIRDS), ("trains", TRAINS)):
        other = "http://trains.example/" if host == "birds" else HUB
        links = [f"http://{host}.example/{host}-{n}.html" for n in range(pages)]
        web[f"http://{host}.example/"] = page(f"{text} list", [*links, other])
        for n, link in enumerate(links):
            more = [f"http://{host}.example/{host}-{n}-{k}.html" for k in range(3)]
            web[link] = page(f"{text} {word(n)}", more)
            for k, deep in enumerate(more):
                web[deep] = page(f"{text} {word(1000 + 10 * n + k)} deep")
    return web


def learning_tree(server: LabWebServer, **more: Any) -> Tree:
    tree = {"strategy": "opilio", "stop": {"pages": 0}, "engine": {"batch": 1, "connections": 1}}
    return settings_for(server, [HUB], **{**tree, **more})


def restored(folder: Path) -> CommitteeLearner:
    """What the collection says that the committee knows."""
    collection = Collection.open_for_reading(folder)
    try:
        memory = CommitteeLearner(Committee(CommitteeOptions()), collection)
        memory.load()
        return memory
    finally:
        collection.close()


def digest(committee: Committee) -> str:
    return hashlib.sha256(committee.snapshot()).hexdigest()


class KilledError(Exception):
    """Stands for the end of a process."""


def crawl_and_stop_dead(folder: Path, tree: Tree, after: int) -> BatchCommitter:
    """Crawl in this process and stop without a shutdown after a number of commits; returns the committer as it was."""
    committers: list[BatchCommitter] = []
    seen = 0

    def listen(event: Event) -> None:
        nonlocal seen
        seen += isinstance(event, BatchCommitted)
        if seen >= after:
            raise KilledError

    async def main() -> None:
        made = resume_crawl(folder, tree) if collection_exists(folder) else create_crawl(folder, resolve_settings(tree))
        async with made as running:
            committer = running.engine._parts.committer
            assert isinstance(committer, BatchCommitter)
            committers.append(committer)
            running.engine.add_listener(listen)
            if after:
                await running.engine.run()

    with suppress(KilledError):
        asyncio.run(main())
    return committers[-1]


def memory_of(batch_committer: BatchCommitter) -> CommitteeLearner:
    chooser = batch_committer._link_scorer
    assert isinstance(chooser, CommitteeLinkScorer)
    return chooser._learner


def learner_of(batch_committer: BatchCommitter, name: str) -> Learns:
    """A learner of a single crawler, or of the first agent."""
    team = getattr(batch_committer._learning, "_team", None)
    learning = batch_committer._learning if team is None else team.members[1].learning
    return learning._learners[name].learner


def judge_of(batch_committer: BatchCommitter) -> LearnedJudge:
    judge = learner_of(batch_committer, JUDGE_STATE)
    assert isinstance(judge, LearnedJudge)
    return judge


def crawl_and_tell(folder: Path, tree: Tree, log: str) -> None:
    """In a process that will be killed: after every commit write down how many fetches are in and what is known."""

    async def main() -> None:
        made = resume_crawl(folder, tree) if collection_exists(folder) else create_crawl(folder, resolve_settings(tree))
        async with made as running:
            committer = running.engine._parts.committer
            assert isinstance(committer, BatchCommitter)
            committee = memory_of(committer).committee

            def listen(event: Event) -> None:
                if isinstance(event, BatchCommitted):
                    with Path(log).open("a") as file:
                        file.write(f"{committee.visits_learned} {digest(committee)}\n")

            running.engine.add_listener(listen)
            await running.engine.run()

    asyncio.run(main())
