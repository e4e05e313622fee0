"""Kills over revisits, compaction and merging: nothing lost, nothing twice, versions in order."""

import random
import shutil
import signal
from pathlib import Path

from checks.killing import urls_in_warc
from checks.small_webs import CONTEXT, SmallWeb, crawl, grid, page, rows, served, settings_for, word
from opilio.core.settings import Tree
from opilio.manage.compact import compact
from opilio.manage.merge import merge
from opilio.manage.verify import verify

SEED = "http://h0.example/0.html"
WEEK = 7 * 86_400.0
NOW = 2e9
PAGES = 20
KILLS = 8
STORED = "SELECT url FROM page WHERE length > 0 UNION ALL SELECT url FROM version WHERE length > 0"


def changed_web(round_: int) -> SmallWeb:
    """Every third page has another text in each round; links stay."""
    web = grid(hosts=3, pages=PAGES)
    for number, url in enumerate(sorted(web)):
        if number % 3 == 0:
            links = [f"/{(2 * (number % PAGES) + n) % PAGES}.html" for n in (1, 2)]
            web[url] = page(f"Wrens are small birds {word(number)} {word(1000 + round_ * 100 + number)} sing.", links)
    return SmallWeb(web)


def killed(target: object, arguments: tuple[object, ...], seconds: float) -> bool:
    """Run in a process of its own and kill it after so long; False: it had ended."""
    process = CONTEXT.Process(target=target, args=arguments)  # type: ignore[arg-type]
    process.start()
    process.join(seconds)
    ended = process.exitcode is not None
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return not ended


def look_again(folder: Path, tree: Tree, later_s: float) -> None:
    crawl(folder, tree, later_s=later_s)


def whole(folder: Path) -> None:
    assert verify(folder) == []
    assert urls_in_warc(folder) == sorted(url for (url,) in rows(folder, STORED))


def test_revisits_lose_nothing_when_killed_at_random_moments(tmp_path: Path) -> None:
    rng, web = random.Random(1), changed_web(0)
    with served(web) as server:
        tree = settings_for(
            server,
            [SEED],
            politeness={"delay_s": 0.1},  # so that a run lasts several times as long as it takes until the next kill
            engine={"batch": 4},
            store={"rotate_bytes": 4000},
            stop={"pages": 0, "patience_s": 60.0},
            revisit={"interval_s": WEEK, "probe": False},
        )
        crawl(tmp_path / "c", tree)
        pages = rows(tmp_path / "c", "SELECT url FROM page ORDER BY url")
        again = {**tree, "revisit": {**tree["revisit"], "on": True}}
        hits = 0
        for round_ in (1, 2):
            web.answers = changed_web(round_).answers
            while hits < round_ * KILLS // 2 and killed(
                look_again, (tmp_path / "c", again, round_ * WEEK), rng.uniform(0.1, 0.6)
            ):
                hits += 1
                # Behind what was committed may stand what the kill came before; the next run cuts that off.
                assert verify(tmp_path / "c") == []
            crawl(tmp_path / "c", again, later_s=round_ * WEEK)
    whole(tmp_path / "c")
    assert rows(tmp_path / "c", "SELECT url FROM page ORDER BY url") == pages
    versions = rows(tmp_path / "c", "SELECT key, seq FROM version ORDER BY key, fetched_at")
    assert versions == sorted(versions)
    times = rows(tmp_path / "c", "SELECT count(*) FROM version GROUP BY key")
    assert times
    assert all(n <= 2 for (n,) in times), "a change is stored once"
    assert hits >= KILLS // 2


def test_compaction_and_merging_can_be_killed_at_any_moment(tmp_path: Path) -> None:
    rng = random.Random(2)
    for name, round_ in (("a", 0), ("b", 1)):
        with served(changed_web(round_)) as server:
            crawl(tmp_path / name, settings_for(server, [SEED], store={"rotate_bytes": 4000}))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "expected", NOW)
    contents = (
        "SELECT url, title, fetched_at FROM page UNION ALL SELECT url, title, fetched_at FROM version ORDER BY 1, 3"
    )
    expected = rows(tmp_path / "expected", contents)
    for _ in range(KILLS):
        killed(compact, (tmp_path / "a", NOW, None, 4000), rng.uniform(0.0, 0.15))
        killed(merge, ([tmp_path / "a", tmp_path / "b"], tmp_path / "both", NOW), rng.uniform(0.0, 0.25))
        assert verify(tmp_path / "a") == []
        if (tmp_path / "both").exists():
            assert rows(tmp_path / "both", contents) == expected
            shutil.rmtree(tmp_path / "both")
    compact(tmp_path / "a", NOW)
    whole(tmp_path / "a")
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both", NOW)
    whole(tmp_path / "both")
    assert rows(tmp_path / "both", contents) == expected
