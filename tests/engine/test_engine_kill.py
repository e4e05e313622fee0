"""Nothing lost: a crawl killed at any moment resumes as if nothing had happened."""

import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from checks.documents import docx
from checks.killing import (
    children,
    kill_often,
    killed_after,
    killed_by_part,
    polite_throughout,
    same_as_undisturbed,
    still_alive,
    urls_in_warc,
    write_archive,
)
from checks.small_webs import (
    PATIENCE_S,
    SmallWeb,
    crawl,
    flags,
    grid,
    served,
    settings_for,
    started,
    stored,
    until,
    word,
)
from opilio.core.errors import OpilioError
from opilio.core.settings import Tree
from opilio.engine.wiring.session import create_crawl
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.store.collection import Collection
from opilio.store.warc import warc_name
from opilio.topic.setup import resolve_settings

DELAY_S = 0.1
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SEED = "http://h0.example/0.html"
WEB = grid(hosts=4, pages=80)  # 80 delays of a host: politeness alone makes a crawl outlast all the kills below


@pytest.mark.parametrize(("workers", "kills", "most_s"), [(0, 30, 0.4), (2, 3, 1.0)])
def test_crawl_loses_nothing_when_killed_at_random_moments(
    tmp_path: Path, workers: int, kills: int, most_s: float
) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(
            server,
            [SEED],
            politeness={"delay_s": DELAY_S},
            engine={"workers": workers, "batch": 8},
            store={"rotate_bytes": 5000},  # many files: kills fall into rotation too
        )
        crawl(tmp_path / "undisturbed", {**tree, "politeness": {"delay_s": 0.0}, "engine": {"workers": 0}})
        assert len(stored(tmp_path / "undisturbed")) == len(WEB)
        server.log.clear()
        hit = kill_often(tmp_path / "killed", tree, kills, most_s, random.Random(workers), server.log)
        log = list(server.log)
    assert hit == kills
    same_as_undisturbed(tmp_path / "killed", tmp_path / "undisturbed")
    assert urls_in_warc(tmp_path / "killed") == stored(tmp_path / "killed")
    polite_throughout(log, DELAY_S)


def test_crawl_of_an_archive_with_documents_loses_nothing_when_killed(tmp_path: Path) -> None:
    """With one host, so that leases and commits are large."""
    web, archive = grid(hosts=1, pages=300), tmp_path / "x.warc.gz"
    for number in range(270, 300):
        text = docx(f"<w:p><w:r><w:t>{word(number)}</w:t></w:r></w:p>")
        web[f"http://h0.example/{number}.html"] = RecordedResponse(200, (("Content-Type", DOCX),), text)
    write_archive(archive, web)
    tree: Tree = {
        "strategy": "breadth",
        "topic": {"name": "small birds"},
        "seeds": {"urls": [SEED]},
        "fetch": {"archives": [str(archive)]},
        "engine": {"workers": 0},
        "store": {"rotate_bytes": 50_000},
        "stop": {"harvest_below": 0.0},
    }
    crawl(tmp_path / "undisturbed", tree)
    assert len(stored(tmp_path / "undisturbed")) == len(web)
    rng, kills, most_s = random.Random(1), 0, 1.0
    while kills < 3:
        kills += 1
        if not killed_after(tmp_path / "killed", tree, rng.uniform(0.0, most_s)):
            # This machine is faster: another crawl, killed sooner.
            shutil.rmtree(tmp_path / "killed")
            kills, most_s = 0, most_s / 2
    assert not killed_after(tmp_path / "killed", tree, PATIENCE_S)
    same_as_undisturbed(tmp_path / "killed", tmp_path / "undisturbed")
    assert urls_in_warc(tmp_path / "killed") == stored(tmp_path / "killed")


def test_crawl_loses_nothing_when_workers_engine_and_all_processes_are_killed(tmp_path: Path) -> None:
    """The large version of this is benchmarks/killing."""
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], politeness={"delay_s": DELAY_S}, engine={"workers": 2, "batch": 8})
        crawl(tmp_path / "undisturbed", {**tree, "politeness": {"delay_s": 0.0}, "engine": {"workers": 0}})
        server.log.clear()
        rng = random.Random(1)
        kills = Counter[str]()
        while not (kills["worker"] and kills["parent"] and kills["tree"]):
            kills += killed_by_part(tmp_path / "killed", tree, rng, 1.0, workers=2)[0]
        assert not killed_after(tmp_path / "killed", tree, PATIENCE_S)
        log = list(server.log)
    same_as_undisturbed(tmp_path / "killed", tmp_path / "undisturbed")
    assert urls_in_warc(tmp_path / "killed") == stored(tmp_path / "killed")
    polite_throughout(log, DELAY_S)


def test_collection_is_whole_or_absent_when_killed_while_made(tmp_path: Path) -> None:
    """Every state that the steps of `create` can leave behind, and the next run starts over from it."""
    with served(SmallWeb(grid(1, 3))) as server:
        tree = settings_for(server, [SEED])
        for number, left in enumerate(
            [[], ["crawl.lock"], ["crawl.lock", "crawl.db.part"], ["crawl.lock", "crawl.db.part", "crawl.toml"]]
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            for name in left:
                (folder / name).write_text("half")
            crawl(folder, tree)
            assert len(stored(folder)) == 3
            assert verify(folder) == []


def test_crawl_starts_when_killed_before_its_first_commit(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 3))) as server:
        tree = settings_for(server, [SEED])
        create_crawl(tmp_path / "c", resolve_settings(tree))._collection.close()  # made, and gone before anything ran
        assert collection_status(tmp_path / "c").state == "new"
        crawl(tmp_path / "c", tree)
    assert len(stored(tmp_path / "c")) == 3


def test_record_behind_the_last_commit_is_cut_off_when_resumed(tmp_path: Path) -> None:
    """A kill between the write of a record and the commit of its page; and in the middle of a new file."""
    with served(SmallWeb(grid(2, 6))) as server:
        tree = settings_for(server, [SEED], stop={"pages": 5})
        crawl(tmp_path / "c", tree)
        with (tmp_path / "c" / warc_name(1)).open("ab") as file:
            file.write(b"\x1f\x8b half a record")
        (tmp_path / "c" / warc_name(2)).write_bytes(b"a file that was begun")
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert verify(tmp_path / "c") == []
    assert urls_in_warc(tmp_path / "c") == stored(tmp_path / "c")
    assert not (tmp_path / "c" / warc_name(2)).exists()


def test_resume_is_refused_when_committed_records_are_gone(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 6))) as server:
        tree = settings_for(server, [SEED], stop={"pages": 4})
        crawl(tmp_path / "c", tree)
        os.truncate(tmp_path / "c" / warc_name(1), 100)
        with pytest.raises(OpilioError, match="bytes are missing at the end"):
            crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert any("missing at the end" in line for line in verify(tmp_path / "c"))


def test_killed_crawl_is_reported_as_crashed_until_it_is_resumed(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], politeness={"delay_s": DELAY_S})
        process = started("crawl", *flags(tree), "--into", tmp_path / "c")
        until(lambda: len(server.log) >= 2, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert collection_status(tmp_path / "c").state == "crashed"
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 1}})
    assert collection_status(tmp_path / "c").state == "stopped"


def test_workers_end_by_themselves_when_the_engine_is_killed(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], politeness={"delay_s": 0.2}, engine={"workers": 2})
        process = started("crawl", *flags(tree), "--into", tmp_path / "c")
        until(lambda: len(server.log) >= 8, process)
        workers = children(process.pid)
        assert len(workers) >= 2
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert still_alive(workers) == []
        Collection.open_for_writing(tmp_path / "c").close()  # and no process holds the lock for them
