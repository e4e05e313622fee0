"""Results as text: explanations, forecasts, page history, and search hits with matching words highlighted."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from opilio.cli.options import print_message
from opilio.core.display import pluralize
from opilio.core.protocols import LENGTH, LINK_TO_PAGE, PAGE_ALONE, SITE_TEXT
from opilio.core.records import Reason
from opilio.manage.results import Explanation, Forecast, LinkContext, PageExplanation, PageHistory, RankerExplanation
from opilio.search.passages import PassageResults
from opilio.search.results import SearchHit, SearchResults, rich_hit, rich_passage

MOVED_TO_FRONT = "moved to the front: by a user, or because its host was tried least and the crawl found nothing"


def format_why(found: Explanation) -> list[str]:
    lines = [found.url]
    if not found.found:
        return [*lines, "  never seen: no fetched page links to it, and it is not a seed"]
    lines.append(f"  {found.state}" + (f": {found.reason}" if found.reason else ""))
    if found.score is not None:
        steps = "1 link" if found.depth == 1 else f"{found.depth} links"
        moved = f"; {MOVED_TO_FRONT}" if found.moved_to_front else ""
        lines.append(f"  score {found.score:.3f}, {steps} from a seed, found {found.times_found}×{moved}")
    if wait := found.host_waits:
        lines.append(f"  its host waits until {_format_time(wait.until)}: {wait.reason}")
    if seed := found.seed:
        lines.append(f"  a seed of priority {seed.priority} ({seed.sources})")
    if found.redirected_from:
        lines.append(f"  redirected from {', redirected from '.join(found.redirected_from)}")
    lines += _format_contexts(found.found_on)
    if found.ranker is not None:
        lines += _format_ranker(found.ranker)
    for answer in found.answers:
        outcome = answer.failure or f"status {answer.status}"
        lines.append(f"  fetched {_format_time(answer.at)}: {outcome} {answer.detail or answer.location}".rstrip())
    if revisits := found.revisits:
        new = f", {revisits.found} new links, {revisits.brought} of them relevant" if revisits.found else ""
        lines.append(f"  revisited {revisits.checks}×, changed {revisits.changes}×{new}")
    if found.page is not None:
        lines += _format_page(found.page)
    for verdict in found.agents or ():
        how = "fetched it" if verdict.fetched else "judged it"
        relevance = "relevant" if verdict.relevant else "not relevant"
        lines.append(f"  {verdict.agent} {how}: {relevance}, score {verdict.score:.3f}")
    if len(found.path) > 1:
        lines += ["  shortest known path from a seed:", *(f"    {url}" for url in found.path)]
    return lines


def _format_contexts(contexts: list[LinkContext]) -> list[str]:
    lines = []
    for context in contexts:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in context.parts.items())
        lines.append(f"  found on {context.page}")
        note = f"; not followed: {context.not_followed}" if context.not_followed else ""
        lines.append(f"    anchor “{context.anchor}”: score {context.score:.3f} = {parts}{note}")
    return lines


def _format_ranker(ranker: RankerExplanation) -> list[str]:
    """The ranker's score of a link with what it has learned up to now."""
    lines = [f"  the ranker gives it {ranker.score_now:.3f} now, learned from {pluralize(ranker.learnt_from, 'page')}"]
    for verb, effects in (("raised by", ranker.raised_by), ("lowered by", ranker.lowered_by)):
        if effects:
            lines.append(f"    {verb} " + ", ".join(f"{e.what} ({e.effect:+.2f})" for e in effects))
    for sibling in ranker.siblings:
        fetched = f"links of the same list on {sibling.page} that were fetched: {sibling.fetched}"
        lines.append(f"    {fetched}, mean reward {sibling.mean_reward:.2f}")
    return lines


def _format_page(page: PageExplanation) -> list[str]:
    verdict = "relevant" if page.relevant else "not relevant"
    lines = [f"  judged {verdict}, score {page.score:.3f}: {page.title}"]
    if page.probability is not None:
        lines.append(f"  {page.labels} labels of other pages correct its score to {page.probability:.3f}")
    if page.genre:
        lines.append(f"  genre: {page.genre}")
    if page.truncated:
        lines.append(f"  truncated: {TRUNCATION_REASONS.get(page.truncated, page.truncated)}")
    if page.rendered:
        lines.append("  rendered: read as a browser shows it, after its scripts ran")
    if page.duplicate_of:
        kind = "nearly the same text as" if page.near_duplicate else "the same text as"
        lines.append(f"  a duplicate: {kind} {page.duplicate_of}")
    lines += [f"  also at {url}" for url in page.aliases]
    return lines + [_format_reason(reason) for reason in page.reasons if reason.weight]


def _format_reason(reason: Reason) -> str:
    if reason.name == PAGE_ALONE:
        return f"    its text alone gives {reason.value:.3f}"
    if reason.name == LINK_TO_PAGE:
        return f"    the link to it had {reason.value:.3f} before the page was fetched"
    if reason.name == LENGTH:
        return f"    its length is {math.exp(reason.value):.1f} times the usual one of this crawl"
    if reason.name.startswith(SITE_TEXT):
        text = reason.name.removeprefix(SITE_TEXT)
        return f"    not learned from, because most pages of the site have it ({reason.value:.0f} words): {text}"
    return f"    {reason.name} {reason.value:.3f}"


# docs/lab/forecast.md: coverage of the intervals was measured up to here.
FORECAST_CHECKED_FACTOR = 8


def format_forecast(forecast: Sequence[Forecast], fetched: int) -> list[str]:
    """One line per number of fetches, and a remark where the intervals were never checked."""
    if not forecast:
        return ["no forecast: it needs 50 fetches, fewer than 20,000, and a relevant page"]
    lines = [
        f"after {one.fetches:,} fetches about {one.relevant:,} relevant pages ({one.low:,} to {one.high:,})"
        for one in forecast
    ]
    checked = FORECAST_CHECKED_FACTOR * fetched
    if any(one.fetches > checked for one in forecast):
        lines.append(f"beyond {checked:,} fetches ({FORECAST_CHECKED_FACTOR} times as many as now): never checked")
    return lines


# The reasons of WARC-Truncated.
TRUNCATION_REASONS = {
    "length": "the page is longer than the limit; only its beginning was read",
    "time": "the server was too slow; only a part was received",
    "disconnect": "the connection ended early; only a part was received",
    "unspecified": "the response is damaged; only the part before the damage was read",
}


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def format_history(found: PageHistory) -> list[str]:
    lines = [found.url]
    if not found.found:
        return [*lines, "  no version is stored"]
    if found.moved_to is not None:
        lines.append(f"  moved to {found.moved_to}")
    if found.checks:
        lines.append(f"  revisited {found.checks}×, changed {found.changes}×")
    if found.strikes:
        lines.append(f"  missing at the last {pluralize(found.strikes, 'visit')}")
    for version in found.versions:
        end = f" until {_format_minute(version.until)} ({version.ended})" if version.until is not None else ", current"
        verdict = "relevant" if version.relevant else "not relevant"
        begin = _format_minute(version.fetched_at)
        lines.append(f"  {begin}{end}: {verdict}, score {version.score:.3f}: {version.title}")
        lines += [f"    at {version.url}"] if version.url != found.url else []
        lines += [f"    {line}" for line in version.difference]
    return lines


def print_hits(hits: Sequence[SearchHit], first: int = 1) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for number, hit in enumerate(hits, start=first):
        console.print(rich_hit(number, hit))


def print_passages(found: PassageResults) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for number, passage in enumerate(found, start=1):
        console.print(rich_passage(number, passage))
    for note in found.notes:
        print_message(note)
    if found.suggestion:
        print_message(f"did you mean: {found.suggestion}")
    print_message(f"{pluralize(len(found), 'passage') if found else 'no results'} ({found.took_s * 1000:.0f} ms)")


def print_results(results: SearchResults) -> None:
    first = (results.page - 1) * results.size
    print_hits(results.hits, first + 1)
    for note in results.notes:
        print_message(note)
    if results.suggestion:
        print_message(f"did you mean: {results.suggestion}")
    print_message(f"{_summary_line(results, first)} ({results.took_s * 1000:.0f} ms)")


def _summary_line(results: SearchResults, first: int) -> str:
    if results.hits:
        return f"{first + 1}–{first + len(results.hits)} of {pluralize(results.total, 'page')}"
    if results.total:
        return f"no page {results.page} of results: --page goes up to {results.pages}"
    return "no results"
