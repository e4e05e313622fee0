"""Real parts together: HTML through parser, reader, judge and ranker."""

from checks.scored_links import ScoredLink, scored_links
from opilio.core.records import FetchResult, Verdict
from opilio.judge.similarity import CosineJudge
from opilio.parse.html import HtmlParser
from opilio.rank.baselines import LinkScoreRanker
from opilio.testing.conformance import lead_to
from opilio.text.reading import read_page
from opilio.text.term_arrays import load_default_idf
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.topic import build_topic_table, make_topic

BIRDS = b"""<html><head><title>Wrens</title></head><body>
<nav><a href="/about">About us</a> <a href="/tax">Tax returns</a></nav>
<h1>The wren</h1><p>Wrens are small birds. Their nests are domed, and the song of a wren is loud. See also the
<a href="/kinglet.html">kinglet, another small bird</a> and the <a href="/parliament.html">parliament</a>.</p>
<p><a href="#top">up</a> <a href="/song-of-the-wren.html">more</a></p></body></html>"""
TAXES = b"<html><head><title>Tax</title></head><body><p>The tax office takes returns in spring.</p></body></html>"


def crawl_step(body: bytes) -> tuple[Verdict, dict[str, ScoredLink]]:
    vocabulary, background = Vocabulary(), load_default_idf()
    topic = make_topic("Small birds", ["wren", "bird", "nest", "song"])
    living = EvolvingTopic(build_topic_table(topic, vocabulary, lambda stem: background[term_id(stem)]))
    url = "http://birds.example/wren"
    reading = read_page(HtmlParser().parse(FetchResult(url=url, status=200, body=body)), vocabulary)
    verdict = CosineJudge(living, PageTerms(vocabulary.terms, CachedIdf(background.__getitem__))).judge(reading)
    ranked = scored_links(LinkScoreRanker(living, UrlTerms(vocabulary).terms_batch), reading, verdict, lead_to(url))
    return verdict, {r.link.url.removeprefix("http://birds.example/"): r for r in ranked}


def test_page_on_topic_is_distinguished_from_another() -> None:
    (on, _), (off, _) = crawl_step(BIRDS), crawl_step(TAXES)
    assert on.relevant and not off.relevant
    assert {"wren", "nest"} <= {r.name for r in on.reasons}


def test_links_are_ranked_by_their_own_words() -> None:
    links = crawl_step(BIRDS)[1]
    score = {url: r.score for url, r in links.items()}
    assert min(score["kinglet.html"], score["song-of-the-wren.html"]) > score["about"]
    parts = {p.name: p.value for p in links["song-of-the-wren.html"].parts}
    assert parts["url"] > 0.0 and parts["anchor"] == 0.0
    assert {p.name: p.value for p in links["kinglet.html"].parts}["anchor"] > 0.0
