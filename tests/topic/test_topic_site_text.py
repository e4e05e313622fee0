"""Text that a site repeats on its pages is learned and left out; words of its articles are not."""

from pathlib import Path

from typer.testing import CliRunner

from checks.small_webs import BIRDS, SmallWeb, crawl, page, served, settings_for, word
from opilio.cli.commands import app
from opilio.core.records import BLOCK_BREAK, Analysis, FetchResult, Outcome, Page
from opilio.engine.analysis import PageFeatures
from opilio.fetch.decoding import RecordedResponse
from opilio.testing.conformance import check_learner, lead_to
from opilio.text.reading import read_page
from opilio.text.vocabulary import Vocabulary
from opilio.topic.page_terms import COUNTED_PAGES, MIN_SITE_PAGES, SiteText, example_texts, shown_text

NOTICE = "Selected from the encyclopedia by volunteers"
WORDS = Vocabulary()


def article(number: int, host: str = "a.example", notice: str = NOTICE) -> Page:
    blocks = [f"Wrens nest in hedge number{number}", f"Article number{number} ends here", notice]
    return Page(
        url=f"http://{host}/{number}",
        title=f"Wren {number} - The Encyclopedia",
        flow=BLOCK_BREAK.join(blocks),
        boilerplate=(False,) * len(blocks),
    )


def visit(site_text: SiteText, found: Page) -> Outcome:
    analysis = Analysis(site_blocks=site_text.sample(found))
    return Outcome(lead=lead_to(), fetched=FetchResult(url=""), analysis=analysis)


def taught(pages: int, site_text: SiteText | None = None, notice: str = NOTICE) -> SiteText:
    site_text = site_text or SiteText(WORDS.terms)
    for number in range(pages):
        site_text.learn([visit(site_text, article(number, notice=notice))])
    return site_text


def left_out(site_text: SiteText, found: Page) -> list[str]:
    return [shown_text(block) for block in site_text.blocks_of(found)]


def learned(site_text: SiteText | None, found: Page) -> dict[str, int]:
    features = PageFeatures(WORDS, lambda _: "", site_text=site_text)
    return dict(features.expansion_terms(read_page(found, WORDS))[0])


def test_site_text_is_a_learner() -> None:
    visits = [visit(SiteText(WORDS.terms), article(number, f"{'ab'[number % 2]}.example")) for number in range(40)]
    check_learner(lambda: SiteText(WORDS.terms), visits)


def test_what_most_pages_of_a_host_have_is_left_out() -> None:
    assert left_out(taught(MIN_SITE_PAGES - 1), article(99)) == []
    assert left_out(taught(MIN_SITE_PAGES), article(99)) == [NOTICE]
    assert left_out(taught(MIN_SITE_PAGES), article(99, "other.example")) == []


def test_workers_leave_out_the_same() -> None:
    worker = SiteText(WORDS.terms)
    worker.restore(taught(MIN_SITE_PAGES).worker_state())
    assert left_out(worker, article(99)) == [NOTICE]


def test_new_design_of_a_site_is_learned() -> None:
    site_text = taught(3 * COUNTED_PAGES, taught(COUNTED_PAGES), "Now with another notice")
    assert left_out(site_text, article(99)) == []
    assert left_out(site_text, article(99, notice="Now with another notice")) == ["Now with another notice"]


def test_table_learns_words_of_articles_even_if_all_pages_have_them() -> None:
    before, after = learned(None, article(99)), learned(taught(MIN_SITE_PAGES), article(99))
    assert {"encyclopedia", "volunt"} <= before.keys()
    assert not {"encyclopedia", "volunt"} & after.keys()
    assert after["wren"] == after["nest"] == 1


def test_examples_of_one_site_are_read_without_what_they_share() -> None:
    both = example_texts([article(1), article(2)])
    assert not any("ncyclopedia" in text for text in both)
    assert all("Wrens nest" in text and text.startswith("Wren ") for text in both)
    assert NOTICE in example_texts([article(1), article(2, "other.example")])[0]
    assert NOTICE in example_texts([article(1)])[0]


def test_crawl_finds_site_text_and_shows_it(tmp_path: Path) -> None:
    pages = {}
    for number in range(20):
        made = page(f"{BIRDS} {word(number)}", [f"/{number + 1}.html"])
        body = made.body.replace(b"</body>", b"<p>Bird Journal of the county</p></body>")
        pages[f"http://a.example/{number}.html"] = RecordedResponse(200, made.headers, body)
    folder = tmp_path / "birds"
    with served(SmallWeb(pages)) as server:
        crawl(folder, settings_for(server, list(pages)[:1], expansion={"kind": "periodic", "period": 5}))
    run = CliRunner().invoke
    text = run(app, ["why", str(folder), "http://a.example/19.html"]).output
    assert "not learned from, because most pages of the site have it (3 words): “Bird Journal of the county”" in text
    assert "not learned from: 1 text that a site repeats" in run(app, ["topic", "show", str(folder)]).output
