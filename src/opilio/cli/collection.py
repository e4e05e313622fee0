"""Commands that look at a collection: status, why, export.

`opilio history`: the versions of one page.

`opilio agents`: who crawled for a collection, what each found and what it learnt.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from opilio.cli.options import CollectionArgument, JsonOption, pluralize, print_json, print_text
from opilio.manage.agents import list_agents
from opilio.manage.agents import retire_agent as ask_to_retire
from opilio.manage.export import FORMATS, export_to_file
from opilio.manage.export import export as export_pages
from opilio.manage.history import format_utc, page_history
from opilio.manage.results import Explanation, LinkContext, PageExplanation, PageHistory, RankerExplanation
from opilio.manage.status import collection_status
from opilio.manage.why import why as explain_url
from opilio.store.page_selection import PageFilter

UrlArgument = Annotated[str, typer.Argument(metavar="URL", show_default=False, help="The page's address.")]


def status(folder: CollectionArgument, json: JsonOption = False) -> int:
    """Show what a collection holds and how its crawl ended."""
    found = collection_status(folder)
    if json:
        print_json(found)
        return 0
    values: dict[str, Any] = msgspec.to_builtins(found)
    values["harvest"] = f"{found.harvest:.3f}"
    values["genres"] = ", ".join(f"{genre} {count}" for genre, count in found.genres.items()) or "none found"
    if found.agents is not None:
        values["agents"] = "; ".join(f"{name}: {line}" for name, line in found.agents.items())
    width = max(map(len, values))
    for name, value in values.items():
        print_text(f"{name.replace('_', ' '):{width}}  {value}")
    return 0


def why(folder: CollectionArgument, url: UrlArgument, json: JsonOption = False) -> int:
    """Show every reason why a URL was fetched, skipped or kept."""
    found = explain_url(folder, url)
    if json:
        print_json(found)
    else:
        print_text("\n".join(_format_why(found)))
    return 0 if found.found else 1


def export(
    folder: CollectionArgument,
    form: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "jsonl",
    relevant: Annotated[bool, typer.Option("--relevant", help="Only pages judged relevant.")] = False,
    topic: Annotated[
        str, typer.Option(help="Only pages that an agent of this topic found relevant.", show_default=False)
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of stdout.")] = None,
) -> int:
    """Write the pages for other programs to read."""
    wanted = PageFilter(relevant=relevant or None, topic=topic)
    if out is None:
        export_pages(folder, form, wanted, sys.stdout.buffer)
        return 0
    count = export_to_file(folder, out, form, wanted)
    sys.stderr.write(f"{pluralize(count, 'page')} written to {out}\n")
    return 0


def _format_why(found: Explanation) -> list[str]:
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


def history(folder: CollectionArgument, url: UrlArgument, json: JsonOption = False) -> int:
    """List the stored versions of a page with dates, relevance and what changed in its main text."""
    found = page_history(folder, url)
    if json:
        print_json(found)
    else:
        print_text("\n".join(_format_history(found)))
    return 0 if found.found else 1


def _format_history(found: PageHistory) -> list[str]:
    lines = [found.url]
    if not found.found:
        return [*lines, "  no version of it is stored"]
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


def agents(
    folder: CollectionArgument,
    retire: Annotated[
        str, typer.Option(metavar="NAME", help="Send this agent home; others go on with its links.", show_default=False)
    ] = "",
    json: JsonOption = False,
) -> int:
    """List the agents of a crawl: state, harvest, and what each learnt."""
    if retire:
        running = ask_to_retire(folder, retire, time.time())
        print_text(f"{retire}: goes home " + ("in a moment" if running else "when the crawl goes on"))
        return 0
    found = list_agents(folder)
    if json:
        print_json({"agents": found})
    else:
        print_text("\n".join([*_format_agents_table(found), *map(_learnt, found)]))
    return 0


def _format_agents_table(found: list[dict[str, Any]]) -> list[str]:
    """Columns of text, however narrow the terminal: a line for each agent."""
    counts = ("seeds", "pages", "relevant", "harvest", "hosts", "shared", "received")
    rows = [["agent", "topic", *counts, "state"]]
    for agent in found:
        state = f"{agent['state']}: {agent['reason']}" if agent["reason"] else agent["state"]
        numbers = [f"{agent[name]:.2f}" if name == "harvest" else str(agent[name]) for name in counts]
        rows.append([agent["name"], agent["topic"], *numbers, state])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _learnt(agent: dict[str, Any]) -> str:
    words = ", ".join(agent["learnt"]) or "no new word"
    return f"{agent['name']} learnt: {words} ({agent['table_size']} words in its table)"
