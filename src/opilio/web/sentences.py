"""Events, failures and verdicts as plain sentences. Pure functions."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from opilio.core.protocols import LENGTH, LINK_TO_PAGE, PAGE_ALONE, SITE_TEXT
from opilio.core.records import Reason
from opilio.engine.commands import EVERY_HOST
from opilio.engine.labels import LABEL_REASON
from opilio.store.connection import CRAWL_COMMAND

MAX_WORDS = 4
MODEL_PREFIX = "text model: "
# Reasons that sum up others; they are not words of the page.
SUMMARY_REASONS = frozenset(
    {"coverage", "text model", "cosine", "topic words", "blend", "query words", "query words found", LABEL_REASON}
    | {PAGE_ALONE, LINK_TO_PAGE, LENGTH}
)
FAILURES = {
    "dns": "host name not found",
    "connect": "connection refused or host unreachable",
    "tls": "TLS or certificate error",
    "timeout": "timed out",
    "slow": "response too slow",
    "reset": "connection reset",
    "closed": "connection closed",
    "empty": "empty response",
    "truncated": "response truncated",
    "too-large": "response too large",
    "bomb": "compressed response expands too much",
    "decode": "content encoding is damaged",
    "headers": "response headers too large or invalid",
    "protocol": "invalid HTTP response",
    "proxy": "proxy error",
    "redirect-loop": "redirect loop",
    "private-address": "private network address",
    "content-type": "unsupported content type",
    "document": "document can't be read",
    "robots": "disallowed by robots.txt",
    "url": "invalid URL",
    "transfer": "transfer failed",
    "challenge": "bot challenge: ask the site's owner to admit your crawler (Web Bot Auth), or deny the host",
    "login": "login form: give cookies of your account in fetch.credentials, or deny the host",
    "consent": "consent form: the page needs a choice by the visitor",
    "scope": "out of scope",
    "signal": "denied by the owner's signals (politeness.heed)",
    "soft-404": "error page with a success status",
    "archive": "the archive has changed",
    "analysis-limit": "page takes too much time or memory to analyze",
    "analysis-crash": "page ended the process that analyzed it",
    "internal": "internal error: please report it",
}
STATUS_WORDS = {401: "login required", 403: "forbidden", 404: "not found", 410: "gone", 429: "too many requests"}
STATUS_WORDS |= {500: "server error", 502: "bad gateway", 503: "service unavailable", 504: "gateway timeout"}


def failure_cause(reason: str) -> str:
    """A stored reason without its details.

    >>> failure_cause("status 404"), failure_cause("timeout after 30 s"), failure_cause("banned by the user")
    ('status 404', 'timeout', 'banned by the user')
    """
    first, _, rest = reason.partition(" ")
    return first if rest and first in FAILURES else reason


def failure_words(kind: str) -> str:
    """A failure for the user.

    >>> failure_words("dns"), failure_words("status 404"), failure_words("robots.txt can't be read (dns)")
    ('host name not found', 'HTTP 404, not found', "robots.txt can't be read: host name not found")
    >>> failure_words("timeout after 30 s")
    'timed out: after 30 s'
    """
    if match := re.fullmatch(r"(?:status|answered) (\d+)", kind):
        words = STATUS_WORDS.get(int(match[1]))
        return f"HTTP {match[1]}, {words}" if words else f"HTTP {match[1]}"
    if match := re.fullmatch(r"(.*) \(([a-z-]+)\)", kind):
        return f"{match[1]}: {FAILURES[match[2]]}" if match[2] in FAILURES else kind
    cause = failure_cause(kind)
    details = kind.removeprefix(cause).strip()
    return f"{FAILURES[cause]}: {details}" if details and cause in FAILURES else FAILURES.get(kind, kind)


def event_sentence(kind: str, fields: dict[str, Any]) -> str:
    """An event as a sentence; empty for kinds that have none, which are shown as fields.

    >>> event_sentence("CommandApplied", {"command": "ban", "target": "a.example"})
    'Host banned: a.example.'
    """
    if kind in _COMPOSED:
        return _COMPOSED[kind](fields)
    simple = _SENTENCES.get(kind)
    return simple.format(**{"reason": "", **fields}) if simple else ""


def without_settings(stop_reason: str) -> str:
    """A stop reason without the setting that it names for the command line.

    >>> without_settings("harvest of the last 500 pages fell below 0.01 (stop.harvest_below; 0 continues)")
    'harvest of the last 500 pages fell below 0.01'
    """
    return re.sub(r" \(stop\.[^)]*\)", "", stop_reason)


def _robots_read(fields: dict[str, Any]) -> str:
    delay = f"crawl delay {fields['delay_s']:g} s" if fields.get("delay_s") else "no crawl delay"
    rules = f"crawling allowed, {delay}" if fields.get("allowed") else "no crawling now"
    return f"robots.txt of {fields.get('host')}: {rules}."


def _backed_off(fields: dict[str, Any]) -> str:
    until = datetime.fromtimestamp(float(fields.get("until") or 0), UTC).strftime("%H:%M:%S")
    reason = failure_words(str(fields.get("reason")))
    return f"{fields.get('host')} is not contacted until {until} UTC: {reason}."


def _topic_changed(fields: dict[str, Any]) -> str:
    added = ", ".join(map(str, (fields.get("added") or ())[:8]))
    new, agent = f"; new: {added}" if added else "", f" of agent {fields['agent']}" if fields.get("agent") else ""
    return f"Topic{agent} changed to version {fields.get('version')}, {fields.get('size')} keywords{new}."


def _started(fields: dict[str, Any]) -> str:
    return f"Crawl {'resumed' if fields.get('resumed') else 'started'} with strategy {fields.get('strategy')}."


def _stopped(fields: dict[str, Any]) -> str:
    reason = without_settings(str(fields.get("reason") or ""))
    counts = f"{fields.get('pages', 0):,} pages, {fields.get('relevant', 0):,} relevant"
    return f"Crawl stopped with {counts}{f': {reason}' if reason else ''}."


def _labeled(fields: dict[str, Any]) -> str:
    return f"{fields.get('url')} was labelled {'relevant' if fields.get('relevant') else 'not relevant'}."


_COMMANDS = {
    "pause": "Crawl paused.",
    "resume": "Crawl continued after a pause.",
    "stop": "Stop requested: {target}.",
    "ban": "Host banned: {target}.",
    "exclude": "URLs excluded: {target}.",
    "delay": "Host slowed down: {target}.",
    "boost": "URL boosted: {target}.",
    "boost_host": "Host boosted: {target}.",
    "unboost_host": "Boost removed from the host {target}.",
    "retry": "Failed URLs queued again: {target}.",
}


def _command_applied(fields: dict[str, Any]) -> str:
    command, target = str(fields.get("command")), str(fields.get("target") or "")
    if command in _COMMANDS and (target or "{" not in _COMMANDS[command]):
        return _COMMANDS[command].format(target="all hosts" if target == EVERY_HOST else target)
    return f"Command {command} was applied{f' to {target}' if target else ''}."


def _agent_lost(fields: dict[str, Any]) -> str:
    others = join_words(list(map(str, fields.get("taken_over_by") or ()))) or "no agent"
    return (
        f"Agent {fields.get('agent')} stopped ({fields.get('reason')}); {others} took over {fields.get('urls')} URLs."
    )


def _problems_found(fields: dict[str, Any]) -> str:
    return f"The integrity check found problems: {'; '.join(map(str, fields.get('problems') or ()))}."


def _page_removed(fields: dict[str, Any]) -> str:
    target = f" to {fields['target']}" if fields.get("target") else ""
    return f"{fields.get('url')} was removed: {fields.get('cause')}{target}. Its versions are kept."


_COMPOSED: dict[str, Callable[[dict[str, Any]], str]] = {
    "RobotsRead": _robots_read,
    "HostBackedOff": _backed_off,
    "TopicChanged": _topic_changed,
    "CrawlStarted": _started,
    "CrawlStopped": _stopped,
    "PageLabeled": _labeled,
    "CommandApplied": _command_applied,
    "AgentLost": _agent_lost,
    "ProblemsFound": _problems_found,
    "PageRemoved": _page_removed,
}
_SENTENCES = {
    "SeedsFound": "{found} seeds found for “{query}”, {new} of them new.",
    "TrapFound": "Trap on {host}: URLs like {pattern} are skipped ({reason}).",
    "TrapRetried": "{urls} URLs like {pattern} are queued again after a low yield.",
    "LabelRemoved": "Label removed from {url}.",
    "PagesLost": "{pages} pages were lost and are fetched again: {detail}.",
    "ClassifierTrained": "The classifier of links ({learner}) was trained on {relevant} relevant and {irrelevant} other"
    " pages and {parents} parents, with {requests} requests.",
    "GraphChanged": "T-Graph changed to version {version}: {nodes} nodes, {added} added, {dropped} removed.",
    "AgentRegistered": "Agent {agent} started on “{topic}” with {seeds} seeds.",
    "AgentFinished": "Agent {agent} ended: {state}. {reason}",
    "AgentsExchanged": "Agent {giver} gave {count} {what} to agent {taker}.",
    "ObjectStorageChanged": "Object storage: {detail}.",
    "VisitFailed": "Internal error on {url}: {error}",
}


def when_applied(writer: str, applied: str = "Applied.") -> str:
    """When a command takes effect; `writer`: the command that writes to the collection meanwhile, empty for none."""
    if not writer:
        return applied
    return "The running crawl applies it in a moment." if writer == CRAWL_COMMAND else "The next crawl applies it."


def join_words(words: Sequence[str]) -> str:
    """
    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def verdict_sentence(relevant: bool, reasons: Sequence[Reason], duplicate: bool = False) -> str:
    """Why a page was kept or not, in one sentence.

    >>> verdict_sentence(True, [Reason("coverage", 0.5), Reason("nest", 0.2), Reason("egg", 0.1)])
    'Kept: its text is about nest and egg.'
    """
    if any(reason.name == LABEL_REASON for reason in reasons):
        return f"{'Kept' if relevant else 'Not kept'}: you labelled it {'relevant' if relevant else 'not relevant'}."
    if duplicate:
        return "Not kept: a copy of a page stored earlier."
    words = [r.name for r in reasons if r.value > 0 and _is_word(r)][:MAX_WORDS]
    learned = [r.name.removeprefix(MODEL_PREFIX) for r in reasons if r.name.startswith(MODEL_PREFIX)]
    if relevant:
        shown = words or [word for word in learned if word][:MAX_WORDS]
        return f"Kept: its text is about {join_words(shown)}." if shown else "Kept: its text is close to the topic."
    against = [r.name.removeprefix(MODEL_PREFIX) for r in reasons if r.value < 0 and r.name.startswith(MODEL_PREFIX)]
    found = f"only few topic keywords ({', '.join(words)})" if words else "no topic keywords"
    other = f"; words such as {join_words(against[:3])} are typical of other pages" if against else ""
    return f"Not kept: {found}{other}."


def _is_word(reason: Reason) -> bool:
    return reason.name not in SUMMARY_REASONS and not reason.name.startswith((MODEL_PREFIX, SITE_TEXT))


def _logit(chance: float) -> float:
    bounded = min(0.995, max(0.005, chance))
    return math.log(bounded / (1.0 - bounded))


def score_parts(score: float, reasons: Sequence[Reason]) -> dict[str, Any]:
    """The score of a judge by coverage as parts that add up; empty for other judges.

    `points` are log odds: the keywords and the text model add up to the total, and 0 points are a score of one half.
    `words` add up to the coverage.
    """
    by_name = {reason.name: reason for reason in reasons}
    coverage, model = by_name.get("coverage"), by_name.get("text model")
    if coverage is None or LABEL_REASON in by_name or not 0.0 < score < 1.0:
        return {}
    total = math.log(score / (1.0 - score))
    alone, link = by_name.get(PAGE_ALONE), by_name.get(LINK_TO_PAGE)
    share = alone.weight if alone else 1.0
    learned = share * model.value * model.weight if model else 0.0
    length = by_name.get(LENGTH)
    others = [("Length of the page", share * length.value * length.weight)] if length and length.value else []
    others += [("Link to it", link.weight * _logit(link.value))] if link else []
    words = [(reason.name, reason.value) for reason in reasons if _is_word(reason)]
    rest = coverage.value - sum(value for _, value in words)
    # Another part of the judge raised the coverage, or words overlap.
    if rest < -0.005:
        return {}
    return {
        "total": total,
        "points": [("Topic keywords", total - learned - sum(points for _, points in others))]
        + ([("Learned text model", learned)] if model else [])
        + others,
        "words": words + ([("other keywords", rest)] if rest > 0.0005 else []),
        "coverage": coverage.value,
        "model": [(r.name.removeprefix(MODEL_PREFIX), r.value) for r in reasons if r.name.startswith(MODEL_PREFIX)],
    }
