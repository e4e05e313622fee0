"""The results of `opilio why` and `opilio why --history` as lines of text."""

from datetime import UTC, datetime

from opilio.manage.history import format_utc
from opilio.manage.results import Explanation, LinkContext, PageExplanation, PageHistory, RankerExplanation


def format_why(found: Explanation) -> list[str]:
    lines = [found.url]
    if not found.found:
        return [*lines, "  never seen: no fetched page links to it, and it is not a seed"]
    lines.append(f"  {found.state}" + (f": {found.reason}" if found.reason else ""))
    if found.score is not None:
        steps = "1 link" if found.depth == 1 else f"{found.depth} links"
        lines.append(f"  score {found.score:.3f}, {steps} from a seed, found {found.times_found}×")
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
    """The committee's score of a link with what it has learnt up to now."""
    lines = [f"  the ranker gives it {ranker.score_now:.3f} now, after {ranker.learnt_from} fetches"]
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
    if page.genre:
        lines.append(f"  genre: {page.genre}")
    if page.duplicate_of:
        kind = "nearly the same text as" if page.near_duplicate else "the same text as"
        lines.append(f"  a duplicate: {kind} {page.duplicate_of}")
    lines += [f"    {reason.name} {reason.value:.3f}" for reason in page.reasons if reason.weight]
    return lines


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
