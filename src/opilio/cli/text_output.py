"""Results as text: explanations, page history, search hits with matching words highlighted, and the training report
in the layout of the paper (S1-30…S1-33).
"""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console

from opilio.cli.options import print_message
from opilio.core.files import pluralize
from opilio.core.protocols import LENGTH, LINK_TO_PAGE, PAGE_ALONE, SITE_TEXT
from opilio.core.records import Reason
from opilio.manage.pages import format_utc
from opilio.manage.results import Explanation, Forecast, LinkContext, PageExplanation, PageHistory, RankerExplanation
from opilio.manage.train_attributes import TrainingResult
from opilio.methods.attributes.training import PAPER_PRECISION, LearnerResult, MeanInterval
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


def format_history(found: PageHistory) -> list[str]:
    lines = [found.url]
    if not found.found:
        return [*lines, "  no version is stored"]
    if found.moved_to is not None:
        lines.append(f"  moved to {found.moved_to}")
    if found.checks is not None:
        lines.append(f"  revisited {found.checks}×, changed {found.changes}×")
    for version in found.versions:
        end = f" until {format_utc(version.until)} ({version.ended})" if version.until is not None else ", current"
        verdict = "relevant" if version.relevant else "not relevant"
        begin = format_utc(version.fetched_at)
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


# S1-32, S1-33: the paper gives time and complexity only as an order, highest first.
PAPER_ORDER = ("neural", "bayes", "tree")
TITLES = {"bayes": "naive Bayes", "tree": "decision tree", "neural": "neural network"}


def format_report(trained: TrainingResult) -> str:
    """The whole report."""
    return "\n".join(_lines(trained))


def _lines(trained: TrainingResult) -> Iterator[str]:
    trial = trained.trial
    yield f"{trial.rows:,} rows, {trial.relevant:,} of them relevant ({trial.prior:.1%}), from {_hosts(trial.groups)}."
    kept = trained.learners[0].row_count
    if kept < trial.rows:
        yield f"A learner learns from {kept:,} of them, the last ones; the larger kind gives way."
    if trained.table.keywords:
        yield "Words of the topic: " + ", ".join(f"{k.label} {k.weight:.2f}" for k in trained.table.keywords) + "."
    yield _describe_folds(trained)
    if trained.table.keywords:
        yield (
            "Relevant means the crawl's own verdict, or the user's label where there is one. These figures show how "
            "well a link predicts that verdict, which shares words with the attributes, not whether it is right."
        )
    yield ""
    yield from _table(_quality(trial.results))
    yield ""
    yield from _table(_cost(trial.results))
    yield ""
    yield from _conclusion_lines(trained)


def _hosts(count: int) -> str:
    return "one host" if count == 1 else f"{count:,} hosts"


def _describe_folds(trained: TrainingResult) -> str:
    trial = trained.trial
    if trial.by_host:
        held = f"Tested on {trial.folds} folds; no host is in training and test of one fold (S1-E4)"
    else:
        held = f"Tested on {trial.folds} folds of one host's pages: expect less on hosts never seen (S1-E4)"
    table = "its table was built from its own training pages (S1-E7)"
    given = "attributes as given: it is unknown whether their table included the tested pages (S1-E7)"
    return f"{held}; {table if trained.table.keywords else given}."


def _quality(results: dict[str, LearnerResult]) -> list[Sequence[str]]:
    head = ("", "precision", "paper", "recall", "F1", "AUC", "accuracy")
    return [
        head,
        *(
            (
                TITLES[name],
                _format_measure(r.precision),
                f"{PAPER_PRECISION[name]:.3f}",
                _format_measure(r.recall),
                _format_measure(r.f1),
                _format_measure(r.auc),
                _format_measure(r.accuracy),
            )
            for name, r in results.items()
        ),
    ]


def _cost(results: dict[str, LearnerResult]) -> list[Sequence[str]]:
    head = ("", "training", "prediction", "parameters", "paper: time", "paper: complexity")
    words = dict(zip(PAPER_ORDER, ("highest", "middle", "lowest"), strict=True))
    return [
        head,
        *(
            (
                TITLES[name],
                f"{r.fit_s * 1000:,.1f} ms",
                f"{r.predict_us:,.1f} µs a link",
                f"{r.parameters:,}",
                words[name],
                words[name],
            )
            for name, r in results.items()
        ),
    ]


def _conclusion_lines(trained: TrainingResult) -> Iterator[str]:
    trial = trained.trial
    best = max(trial.results, key=lambda name: (trial.results[name].auc.mean, name))
    quality = trial.results[best].auc
    yield (
        f"Figures are means over folds ± half a 95 % interval. Guessing would have a precision of {trial.prior:.3f} "
        "and an AUC of 0.500."
    )
    if quality.low <= 0.5:
        yield "No learner orders these links surely better than chance (AUC)."
    elif len(trial.results) > 1:
        rivals = _format_rivals(trial.results, best)
        yield f"The best order comes from {_with_article(best)} (AUC {quality.mean:.3f}){rivals}."
    yield (
        "Less time and fewer parameters are better; the paper calls its network better in both although it had the "
        "highest values of both (S1-E3). Its precision comes from data it does not describe (S1-E4): no claim."
    )


def _with_article(name: str) -> str:
    return TITLES[name] if name == "bayes" else f"the {TITLES[name]}"


def _format_rivals(results: dict[str, LearnerResult], best: str) -> str:
    """Who is not surely worse: intervals that overlap."""
    close = [_with_article(name) for name, r in results.items() if name != best and r.auc.high >= results[best].auc.low]
    return f", not surely better than {' and '.join(close)}: the intervals overlap" if close else ""


def _format_measure(measure: MeanInterval) -> str:
    if not measure.folds:
        # For example a precision where nothing was called relevant.
        return "–"
    if measure.folds == 1:
        return f"{measure.mean:.3f} (1 fold)"
    return f"{measure.mean:.3f} ±{(measure.high - measure.low) / 2:.3f}"


def _table(rows: list[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            cell.ljust(w) if at == 0 else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()
