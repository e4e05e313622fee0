"""The pages as a user sees them, in a real browser: read, search, judge, edit, with keys and without scripts."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from checks.browsing import MODES, WAIT_MS, chromium, tab
from checks.page_addresses import SEED, addresses
from checks.page_server import Client, crawled, pages_of
from opilio.manage.topic_builder import table_history

expect.set_options(timeout=WAIT_MS)
ALL = [*addresses(), "/search?q=wren", "/nowhere", "/c/birds/page?url=http%3A%2F%2Fh0.example%2F99.html"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Client]:
    """The pages of a collection that a test may change."""
    with pages_of([crawled(tmp_path / "birds")], tmp_path) as client:
        yield client


@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_no_violation(browser: Browser, client: Client, mode: str) -> None:
    """WCAG 2.2 AA as far as a program can check, on every page; nothing is wider than the screen."""
    found = []
    with tab(browser, client.base, **MODES[mode], bypass_csp=True) as one:
        for address in ALL:
            one.go(address)
            result = Axe().run(one.page)
            found += [f"{address}: {v['id']} {v['nodes'][0]['html'][:200]}" for v in result.response["violations"]]
            found += [f"{address}: {one.overflow} px too wide"] if one.overflow > 0 else []
    assert found == []


def test_narrow_phone_scrolls_only_downwards(browser: Browser, client: Client) -> None:
    """WCAG 1.4.10: 320 pixels are enough."""
    with tab(browser, client.base, viewport={"width": 320, "height": 640}) as one:
        assert [address for address in ALL if one.go(address) and one.overflow > 0] == []


@pytest.mark.parametrize("address", ["/c/birds", f"/c/birds/page?url={SEED}", "/search?q=wren", "/c/birds/hosts"])
def test_page_prints_black_on_white_as_a_report(browser: Browser, client: Client, address: str) -> None:
    """Dark and narrow are for screens: on paper there are tables, and nothing to press."""
    with tab(browser, client.base, **MODES["phone"]) as one:
        page = one.go(address)
        page.emulate_media(media="print", color_scheme="dark")
        style = "e => getComputedStyle(e)"
        assert page.locator("h1, h2").first.evaluate(f"e => ({style})(e).color") == "rgb(0, 0, 0)"
        assert page.locator("body").evaluate(f"e => ({style})(e).backgroundColor") == "rgb(255, 255, 255)"
        displays = [table.evaluate(f"e => ({style})(e).display") for table in page.locator("table.cards").all()]
        assert set(displays) <= {"table"}
        assert page.locator("button:visible, nav:visible, select:visible").count() == 0


def test_pages_are_read_without_scripts(browser: Browser, client: Client) -> None:
    with tab(browser, client.base, java_script_enabled=False) as one:
        assert [a for a in addresses() if one.go(a) and len(one.page.locator("h1").all()) != 1] == []
        one.go("/c/birds")
        expect(one.page.locator("svg.chart path.line").first).to_be_visible()
        one.go(f"/c/birds/page?url={SEED}")
        assert "Why it was judged relevant" in one.text()
        one.go("/")
        one.page.fill("#big-find", "wren")
        one.page.click("form.big-find button")
        expect(one.page.locator(".hit").first).to_be_visible()


def test_no_page_has_an_error_in_its_console(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        for address in addresses():
            one.go(address)
        assert one.problems == []


def test_user_searches_filters_opens_and_reads_why(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        page = one.go("/")
        page.fill("#big-find", "wren")
        page.press("#big-find", "Enter")
        expect(page.locator(".hit mark").first).to_be_visible()
        before = page.locator(".hit").count()
        page.locator(".facets a", has_text="h1.example").click()
        expect(page.locator(".facets a[aria-current]")).to_have_count(1)
        assert all(text.startswith("h1.example/") for text in page.locator(".hit .address").all_inner_texts())
        assert 0 < page.locator(".hit").count() <= before
        page.locator(".hit a.why").first.click()
        expect(page.get_by_role("heading", name="Why it was judged relevant")).to_be_visible()
        expect(page.locator(".verdict-sentence")).to_contain_text("Kept: its text is about")
        page.locator(".numbers summary").click()
        words = page.locator("table.bars th[scope=row]").all_inner_texts()
        assert {"Topic keywords", "birds", "Total"} <= set(words), words
        assert "Path from the seed" in one.text()
        assert page.locator(".stored mark").count() > 0


def test_query_that_can_not_be_understood_stays_in_its_field(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        page = one.go("/search?q=%22small+bird")
        expect(page.locator("[role=alert]")).to_contain_text("unclosed quote")
        assert page.input_value("#big-find") == '"small bird'
        page.fill("#big-find", '"small bird"')
        page.press("#big-find", "Enter")
        expect(page.locator(".hit").first).to_be_visible()
        page.goto(f"{client.base}/help#search")
        expect(page.locator("#search")).to_be_visible()
    assert client.get("/search.csv?q=%22small+bird").data["error"].startswith("unclosed quote")


def test_user_judges_a_page_with_one_key_and_reads_what_changed(browser: Browser, fresh: Client) -> None:
    with tab(browser, fresh.base) as one:
        page = one.go(f"/c/birds/page?url={SEED}")
        page.keyboard.press("-")
        expect(page.locator("[data-note]")).to_contain_text("verdict updated")
        expect(page.locator('button[value="irrelevant"]')).to_have_attribute("aria-pressed", "true")
        page.reload()
        assert "your label: irrelevant" in one.text()
        assert "Not kept: you labelled it not relevant." in one.text()
        page.keyboard.press("u")
        expect(page.locator("[data-note]")).to_contain_text("Label removed from 1 page")
        expect(page.locator('button[value="undo"]')).to_be_hidden()
        assert one.problems == []


def test_badge_of_a_hit_follows_its_label(browser: Browser, fresh: Client) -> None:
    with tab(browser, fresh.base) as one:
        page = one.go("/search?q=wren&relevant=yes")
        hit = page.locator(".hit").first
        expect(hit.locator("[data-verdict]")).to_have_text("relevant")
        hit.locator('button[value="irrelevant"]').click()
        expect(hit.locator("[data-verdict]")).to_have_text("not relevant")
        expect(hit.locator("[data-score] > span")).to_have_text("0.00")
        hit.locator('button[value="undo"]').click()
        expect(hit.locator("[data-verdict]")).to_have_text("relevant")


def test_result_opens_the_page_and_filters_apply_at_once(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        page = one.go("/search?q=wren")
        title = page.locator(".hit h2 a").first
        assert str(title.get_attribute("href")).startswith("http://h")
        assert (title.get_attribute("rel"), title.get_attribute("target")) == ("noreferrer noopener nofollow", "_blank")
        expect(page.locator("[data-auto-button]")).to_be_hidden()
        page.select_option("select[name=relevant]", "yes")
        page.wait_for_url("**relevant=yes*")
        expect(page.locator(".chips a")).to_contain_text("relevant: yes")
        page.locator(".facets a", has_text="h1.example").click()
        expect(page.locator(".chips a")).to_have_count(2)
        page.locator(".chips a", has_text="relevant").click()
        expect(page.locator(".chips a")).to_have_count(1)
        assert "relevant=" not in page.url


def test_further_results_of_a_host_are_folded(client: Client) -> None:
    shown = client.get("/search?q=wren&size=20", Accept="text/html").text
    hits = client.get("/search.json?q=wren&size=20").data["hits"]
    by_host = Counter(hit["host"] for hit in hits)
    assert len(by_host) > 1
    for host, count in by_host.items():
        assert (f"{count - 2} more from {host}" in shown) == (count > 2)
    assert shown.count('<li class="hit"') == len(hits)
    one_host = client.get("/search?q=wren&size=20&host=h1.example", Accept="text/html").text
    assert "more from" not in one_host


def test_user_opens_the_folded_results_of_a_host(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        page = one.go("/search?q=wren&size=20")
        more = page.locator(".more-of-host").first
        expect(more.locator(".hit").first).to_be_hidden()
        more.locator("summary").click()
        expect(more.locator(".hit").first).to_be_visible()
        host = (more.locator("summary").inner_text()).rpartition(" ")[2]
        assert all(text.startswith(f"{host}/") for text in more.locator(".address").all_inner_texts())
        # The numbers are those of the whole list.
        numbers = [int(text) for text in page.locator(".hit .number").all_text_contents()]
        assert sorted(numbers) == list(range(1, page.locator(".hit").count() + 1))


@pytest.mark.parametrize("address", ["/search?q=wren", "/c/birds/pages", "/c/birds/host?host=h0.example"])
def test_label_is_shown_after_a_reload(browser: Browser, fresh: Client, address: str) -> None:
    with tab(browser, fresh.base) as one:
        page = one.go(address)
        row = page.locator("[data-row]", has=page.locator('button[value="irrelevant"]')).first
        row.locator('button[value="irrelevant"]').click()
        expect(row.locator("[data-verdict]")).to_have_text("not relevant")
        fresh_row = one.go(f"{address}&relevant=no" if "pages" not in address else f"{address}?relevant=no")
        pressed = fresh_row.locator('button[value="irrelevant"][aria-pressed="true"]')
        expect(pressed).to_have_count(1)
        fresh_row.locator('button[value="undo"]:visible').click()
        expect(pressed).to_have_count(0)


def test_message_of_a_label_does_not_move_the_page(browser: Browser, fresh: Client) -> None:
    with tab(browser, fresh.base) as one:
        page = one.go("/search?q=wren")
        place = page.locator(".hit").first.bounding_box()
        page.locator('.hit button[value="irrelevant"]').first.click()
        expect(page.locator("[data-note].toast")).to_be_visible()
        assert page.locator(".hit").first.bounding_box() == place
        page.locator("[data-note]").click()
        expect(page.locator("[data-note]")).to_be_hidden()


def test_least_certain_pages_are_labelled_with_one_key_each(browser: Browser, fresh: Client) -> None:
    """The interval of the estimate narrows, and a page that was labelled is not asked for again."""
    before = fresh.get("/c/birds/review.json").data
    scores = [round(abs(page["score"] - 0.5), 4) for page in before["pages"]]
    assert scores == sorted(scores)
    with tab(browser, fresh.base) as one:
        page = one.go("/c/birds/review")
        expect(page.locator("[data-row].chosen")).to_have_count(1)
        for number in range(3):
            page.keyboard.press("+")
            expect(page.locator("[data-judged=relevant]")).to_have_count(number + 1)
            expect(page.locator("[data-row]").nth(number + 1)).to_have_class("chosen")
        expect(page.locator("[data-before]")).to_contain_text("At the start")
        expect(page.locator("[data-estimates] li")).to_have_count(4)
        widths = page.locator("[data-estimates] .fill").evaluate_all("all => all.map(e => e.width.baseVal.value)")
        assert widths[-1] < widths[0]
        assert one.problems == []
    after = fresh.get("/c/birds/review.json").data
    assert not {page["url"] for page in before["pages"][:3]} & {page["url"] for page in after["pages"]}
    assert after["estimate"]["high"] - after["estimate"]["low"] < before["estimate"]["high"] - before["estimate"]["low"]


def test_fast_keys_label_one_page_each(browser: Browser, fresh: Client) -> None:
    with tab(browser, fresh.base) as one:
        page = one.go("/c/birds/review")
        expect(page.locator("[data-row].chosen")).to_have_count(1)
        # All keys come before the first answer.
        page.evaluate(
            """() => ["+", "-", "+"].forEach(key =>
                document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})))"""
        )
        for number, label in enumerate(("relevant", "irrelevant", "relevant")):
            expect(page.locator("[data-row]").nth(number)).to_have_attribute("data-judged", label)
        expect(page.locator("[data-row] [data-reason]").nth(1)).to_have_text("Not kept: you labelled it not relevant.")
        assert one.problems == []


def test_header_of_a_phone_is_one_row(browser: Browser, client: Client) -> None:
    with tab(browser, client.base, **MODES["phone"]) as one:
        page = one.go("/c/birds/hosts")
        box = page.locator("header.top").bounding_box()
        assert box is not None
        assert box["height"] < 60
        heights = page.locator(".sub-nav").evaluate_all("all => all.map(e => e.clientHeight)")
        assert len(heights) == 2
        assert max(heights) < 60
        # All groups of pages fit beside each other, and the words of the header are in its middle.
        inside = "e => e.scrollWidth <= e.clientWidth"
        assert page.locator(".sub-nav").first.evaluate(inside)
        middle = "e => { const box = e.getBoundingClientRect(); return (box.top + box.bottom) / 2; }"
        places = [page.locator(name).evaluate(middle) for name in ("header.top", ".phone-search .icon", ".theme")]
        assert max(places) - min(places) < 2
        page.locator(".phone-search").click()
        expect(page.locator("#big-find")).to_be_visible()


def test_long_name_of_a_collection_hides_nothing_on_a_phone(browser: Browser, birds: Path, tmp_path: Path) -> None:
    name = "dinosaurs-and-other-prehistoric-reptiles"
    with (
        pages_of([birds, crawled(tmp_path / name, "breadth", stop={"pages": 5})], tmp_path) as client,
        tab(browser, client.base, **MODES["phone"]) as one,
    ):
        page = one.go(f"/c/{name}")
        assert page.locator(".sub-nav").first.evaluate("e => e.scrollWidth <= e.clientWidth")
        one.go(f"/c/birds/copy?url={SEED}")
        assert page.locator(".tabs").evaluate("e => e.scrollWidth <= e.clientWidth")
        one.go("/runs")
        # A label that needs several lines makes its row higher.
        tall = "all => all.filter(e => e.scrollHeight > e.clientHeight + 1).map(e => e.dataset.label)"
        assert page.locator("table.cards td:visible").evaluate_all(tall) == []


def test_pages_just_fetched_are_beside_the_curve_or_below_it(browser: Browser, client: Client) -> None:
    # In one step: the page replaces these parts when it updates itself.
    places = """() => [document.querySelector(".by-pages .chart").getBoundingClientRect().bottom,
        document.querySelector(".stream").getBoundingClientRect().top]"""
    for width, beside in ((1200, True), (390, False)):
        with tab(browser, client.base, viewport={"width": width, "height": 900}) as one:
            page = one.go("/c/birds")
            curve_ends, stream_begins = page.evaluate(places)
            assert (stream_begins < curve_ends) is beside
            # A sentence; other tests may have added events to this collection.
            expect(page.locator(".log span").first).to_have_text(re.compile(r" .*\.$"))


def test_labels_of_a_hit_follow_its_text_on_a_phone(browser: Browser, client: Client) -> None:
    with tab(browser, client.base, **MODES["phone"]) as one:
        hit = one.go("/search?q=wren").locator(".hit").first
        tops = [hit.locator(name).bounding_box() for name in ("h2", ".snippet", ".judge")]
        places = [box["y"] for box in tops if box is not None]
        assert len(places) == 3
        assert places == sorted(places)


def test_counts_of_facets_stay_on_one_line(browser: Browser, fresh: Client) -> None:
    with tab(browser, fresh.base, viewport={"width": 800, "height": 600}) as one:
        page = one.go("/search?q=wren")
        count = "all => all.map(e => (e.textContent = '12,345', e.getClientRects().length))"
        assert set(page.locator(".facet .count").evaluate_all(count)) == {1}


def test_facet_whose_only_value_all_results_have_is_left_out(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        page = one.go("/search?q=wren")
        titles = page.locator(".facets h3").all_inner_texts()
        assert "Host" in titles
        assert "Year" not in titles
        assert {f["name"] for f in client.get("/search.json?q=wren").data["facets"]} >= {"hosts", "years"}
        # A chosen value stays, so that it can be removed where it was chosen.
        page.locator(".facets a", has_text="h1.example").click()
        expect(page.locator(".facets h3", has_text="Host")).to_be_visible()
        # The web of these tests states no dates.
        expect(page.locator(".hit-site").first).to_contain_text("· stored ")


def test_list_of_pages_says_how_many_it_has(browser: Browser, client: Client) -> None:
    counts = Counter(page["relevant"] for page in client.get("/c/birds/pages.json?relevant=all&size=500").data["pages"])
    with tab(browser, client.base) as one:
        page = one.go("/c/birds/pages?size=2")
        expect(page.locator("main > p.muted")).to_have_text(f"{counts[True]} pages")
        expect(page.locator(".pager")).to_contain_text(f"page 1 of {(counts[True] + 1) // 2}")
        page.get_by_role("link", name="Last").click()
        expect(page.locator("[data-row]")).to_have_count(counts[True] % 2 or 2)
        expect(page.get_by_role("link", name="Next")).to_have_count(0)


def test_rows_of_a_list_are_short_on_a_phone(browser: Browser, client: Client) -> None:
    with tab(browser, client.base, **MODES["phone"]) as one:
        page = one.go("/c/birds/pages")
        heights = page.locator("[data-row]").evaluate_all("all => all.map(row => row.clientHeight)")
        assert heights
        assert max(heights) < 130
        expect(page.locator("[data-row] button[value=relevant]").first).to_be_visible()


def test_user_judges_a_hit_without_scripts(browser: Browser, fresh: Client) -> None:
    with tab(browser, fresh.base, java_script_enabled=False) as one:
        page = one.go("/search?q=wren")
        page.locator('.hit button[value="irrelevant"]').first.click()
        expect(page.locator("[data-note]")).to_contain_text("Labelled 1 page irrelevant")
        assert "/search?q=wren" in page.url


def test_keys_move_open_and_help(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        page = one.go("/c/birds/pages")
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(page.locator("[data-row].chosen")).to_have_count(1)
        page.keyboard.press("?")
        expect(page.locator("dialog.keys")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        expect(page.locator("#find")).to_be_focused()
        page.locator("main").focus()
        page.keyboard.press("k")
        page.keyboard.press("o")
        page.wait_for_url("**/page?url=*")


def test_theme_is_chosen_and_kept(browser: Browser, client: Client) -> None:
    with tab(browser, client.base, color_scheme="light") as one:
        page = one.go("/")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("[data-theme-button]")
        one.go("/c/birds")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


CONTRAST = """() => {
  const level = (rgb) => { const [r, g, b] = rgb.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [level(a), level(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const under = getComputedStyle(document.querySelector(".panel")).backgroundColor;
  return [[".chart text", "fill"], [".chart path.a", "stroke"], [".chart path.b", "stroke"]].map(([s, p]) =>
    ratio(getComputedStyle(document.querySelector(s))[p], under)); }"""


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_chart_can_be_read_in_both_themes(browser: Browser, client: Client, mode: str) -> None:
    """axe does not look into pictures: text needs 4.5, lines need 3 (WCAG 1.4.3, 1.4.11)."""
    with tab(browser, client.base, **MODES[mode]) as one:
        text, *lines = one.go("/c/birds").evaluate(CONTRAST)
    assert text >= 4.5
    assert min(lines) >= 3


def test_user_edits_the_topic_after_a_preview(browser: Browser, fresh: Client, tmp_path: Path) -> None:
    before = table_history(tmp_path / "birds")[-1][1]
    with tab(browser, fresh.base) as one:
        page = one.go("/c/birds/topic")
        page.fill("#t-keywords", "locomotive\nrailway = 0.5")
        page.click('button[value="preview"] >> nth=0')
        expect(page.get_by_role("heading", name="Preview: not saved yet")).to_be_visible()
        assert table_history(tmp_path / "birds")[-1][1] == before
        assert "locomotive" in one.text()
        page.click("text=Save topic")
        expect(page.locator("[data-note]")).to_contain_text("Saved")
        expect(page.locator("aside")).to_contain_text("Version 1")
        page.locator("summary", has_text="TOML").click()
        page.fill("#t-toml", '[topic]\nkeywords = ["steam"]\n')
        page.click("text=Preview TOML")
        expect(page.locator("main")).to_contain_text("steam")
    after = table_history(tmp_path / "birds")[-1][1]
    assert {"locomot", "railway"} <= set(after.weights) - set(before.weights)


def test_bad_topic_is_reported_and_changes_nothing(browser: Browser, fresh: Client, tmp_path: Path) -> None:
    with tab(browser, fresh.base) as one:
        page = one.go("/c/birds/topic")
        page.fill("#t-keywords", "wren = much")
        page.click('button[value="preview"] >> nth=0')
        expect(page.locator("main")).to_contain_text("the weight must be a number")
    assert len(table_history(tmp_path / "birds")) == 1
