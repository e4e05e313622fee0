"""Words that were looked up are the words that would have been read."""

import shutil
from pathlib import Path

import pytest

from opilio.engine.wiring.assembly import build_page_reader
from opilio.lab.experiments.replay import OfflineWeb, lab_settings, replay_crawl
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.readings import Readings, reading_version
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.topic.setup import build_vocabulary


@pytest.fixture(scope="module")
def offline(small_folder: Path, lab_cache: Path) -> OfflineWeb:
    web = WarcWeb.open(small_folder, lab_cache)
    return OfflineWeb(web, ParsedPages.open(web, lab_cache, processes=1))


@pytest.fixture(scope="module")
def topic(small_folder: Path) -> LabTopic:
    return load_topics(small_folder)[0][0]


class ReadAnew(OfflineWeb):
    """The same web without the cache."""

    def readings(self, *_: object) -> "ReadAnew":  # type: ignore[override]
        return self

    reader = staticmethod(build_page_reader)


def test_reading_that_was_kept_equals_the_one_read_anew(offline: OfflineWeb, topic: LabTopic) -> None:
    settings = lab_settings("s0", topic.brief, (), 1)
    anew = build_page_reader(settings, build_vocabulary(settings))
    looked_up = offline.readings(settings).reader(settings, build_vocabulary(settings))
    pages = [page for n in range(0, len(offline.web), 7) if (page := offline.pages.page(n)) is not None]
    assert len(pages) > 20
    assert [looked_up(page) for page in pages] == [anew(page) for page in pages]


def test_terms_that_were_looked_up_have_names(offline: OfflineWeb, topic: LabTopic) -> None:
    settings = lab_settings("s0", topic.brief, (), 1)
    vocabulary, other = build_vocabulary(settings), build_vocabulary(settings)
    page = next(p for n in range(len(offline.web)) if (p := offline.pages.page(n)) is not None)
    reading = offline.readings(settings).reader(settings, vocabulary)(page)
    build_page_reader(settings, other)(page)
    assert [vocabulary.stem_of(t) for t in reading.terms] == [other.stem_of(t) for t in reading.terms]
    assert all(vocabulary.surface_of(t) for t in reading.terms)


@pytest.mark.parametrize("strategy", ["s0", "best-first"])
def test_crawl_is_the_same_when_words_are_read_anew(offline: OfflineWeb, topic: LabTopic, strategy: str) -> None:
    settings = lab_settings(strategy, topic.brief, topic.seed_sets[0].urls, 80)
    assert (
        replay_crawl(offline, settings).fetches == replay_crawl(ReadAnew(offline.web, offline.pages), settings).fetches
    )


def test_options_that_change_the_words_have_readings_of_their_own(offline: OfflineWeb, topic: LabTopic) -> None:
    plain = lab_settings("s0", topic.brief, (), 1)
    german = lab_settings("s0", topic.brief, (), 1, {"topic": {"language": "german"}})
    assert reading_version(plain) != reading_version(german)
    assert Readings.open(offline.web, offline.pages, german) is not None
    assert len(list(offline.pages.folder.glob("read-*"))) >= 2


def test_crawl_is_the_same_when_the_cache_was_cleared_away_or_cut_off(
    small_web: WarcWeb, topic: LabTopic, tmp_path: Path
) -> None:
    """Another experiment may clear it away at any moment; a machine that went down may have cut it off."""
    settings = lab_settings("best-first", topic.brief, topic.seed_sets[0].urls, 40)
    offline = OfflineWeb(small_web, ParsedPages.open(small_web, tmp_path, processes=1))
    offline.readings(settings)
    (packed,) = offline.pages.folder.glob("read-*/packed")
    content = packed.read_bytes()
    shutil.rmtree(packed.parent)
    order = replay_crawl(offline, settings).fetches
    assert order == replay_crawl(ReadAnew(offline.web, offline.pages), settings).fetches
    OfflineWeb(small_web, offline.pages).readings(settings)
    packed.write_bytes(content[:1000])
    assert replay_crawl(OfflineWeb(small_web, offline.pages), settings).fetches == order
