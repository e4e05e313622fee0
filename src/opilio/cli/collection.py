"""Commands that look at a collection: status, why, export.

`opilio history`: the versions of one page.

`opilio agents`: who crawled for a collection, what each found and what it learnt.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from opilio.cli.options import CollectionArgument, JsonOption, pluralize, print_json, print_text
from opilio.core.errors import UsageError
from opilio.manage.agents import list_agents
from opilio.manage.agents import retire_agent as ask_to_retire
from opilio.manage.export import FORMATS
from opilio.manage.export import export as export_pages
from opilio.manage.history import format_utc, page_history
from opilio.manage.status import collection_status
from opilio.manage.why import why as all_reasons

UrlArgument = Annotated[str, typer.Argument(metavar="URL", show_default=False, help="The page's address.")]


def status(folder: CollectionArgument, json: JsonOption = False) -> int:
    """Show what a collection holds and how its crawl ended."""
    values = collection_status(folder)
    if json:
        print_json(values)
        return 0
    values["harvest"] = f"{values['harvest']:.3f}"
    values["genres"] = ", ".join(f"{genre} {count}" for genre, count in values["genres"].items()) or "none found"
    if "agents" in values:
        values["agents"] = "; ".join(f"{name}: {stand}" for name, stand in values["agents"].items())
    width = max(map(len, values))
    for name, value in values.items():
        print_text(f"{name.replace('_', ' '):{width}}  {value}")
    return 0


def why(folder: CollectionArgument, url: UrlArgument, json: JsonOption = False) -> int:
    """Tell every reason why a URL was fetched, skipped or kept."""
    facts = all_reasons(folder, url)
    if json:
        print_json(facts)
    else:
        print_text("\n".join(_format_why(facts)))
    return 0 if facts["found"] else 1


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
    if out is None:
        export_pages(folder, form, relevant, sys.stdout.buffer, topic)
        return 0
    if out.exists():
        raise UsageError(f"--out {out}: is there already; choose another name")
    part = out.with_name(f"{out.name}.part")  # a name that appears stands for a whole file
    try:
        with part.open("wb") as file:
            count = export_pages(folder, form, relevant, file, topic)
        part.replace(out)
    except OSError as error:
        raise UsageError(f"--out {out}: can't be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    sys.stderr.write(f"{pluralize(count, 'page')} written to {out}\n")
    return 0


def _format_why(facts: dict[str, Any]) -> list[str]:
    lines = [facts["url"]]
    if not facts["found"]:
        return [*lines, "  was never seen: no fetched page links to it, and it is no seed"]
    state = f"  {facts['state']}" + (f": {facts['reason']}" if facts["reason"] else "")
    lines.append(state)
    if "score" in facts:
        steps = "1 link" if facts["depth"] == 1 else f"{facts['depth']} links"
        lines.append(f"  score {facts['score']:.3f}, {steps} from a seed, found {facts['times_found']}×")
    if "host_waits" in facts:
        lines.append(
            f"  its host waits until {_format_time(facts['host_waits']['until'])}: {facts['host_waits']['reason']}"
        )
    if "seed" in facts:
        lines.append(f"  a seed of priority {facts['seed']['priority']} ({facts['seed']['sources']})")
    if "redirected_from" in facts:
        lines.append(f"  redirected from {', redirected from '.join(facts['redirected_from'])}")
    lines += _found_on(facts["found_on"])
    if "ranker" in facts:
        lines += _format_ranker(facts["ranker"])
    for answer in facts["answers"]:
        outcome = answer["failure"] or f"status {answer['status']}"
        extra = answer["detail"] or answer["location"]
        lines.append(f"  asked {_format_time(answer['at'])}: {outcome} {extra}".rstrip())
    if "looks" in facts:
        looks = facts["looks"]
        found = f", {looks['found']} new links, {looks['brought']} of them relevant" if looks["found"] else ""
        lines.append(f"  looked at again {looks['checks']}×, changed {looks['changes']}×{found}")
    if "page" in facts:
        lines += _page(facts["page"])
    for said in facts.get("agents", ()):
        how = "fetched it" if said["fetched"] else "looked at it"
        verdict = "relevant" if said["relevant"] else "not relevant"
        lines.append(f"  {said['agent']} {how}: {verdict}, score {said['score']:.3f}")
    if len(facts.get("path", ())) > 1:
        lines += ["  shortest known way from a seed:", *(f"    {url}" for url in facts["path"])]
    return lines


def _found_on(contexts: list[dict[str, Any]]) -> list[str]:
    lines = []
    for c in contexts:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in c["parts"].items())
        lines.append(f"  found on {c['page']}")
        note = f"; not followed: {c['not_followed']}" if c["not_followed"] else ""
        lines.append(f"    anchor “{c['anchor']}”: score {c['score']:.3f} = {parts}{note}")
    return lines


def _format_ranker(ranker: dict[str, Any]) -> list[str]:
    """What the committee thinks of a link, with what it has learnt by now."""
    lines = [f"  the ranker gives it {ranker['score_now']:.3f} now, after {ranker['learnt_from']} fetches"]
    for key in ("raised_by", "lowered_by"):
        effects = ", ".join(f"{e['what']} ({e['effect']:+.2f})" for e in ranker[key])
        if effects:
            lines.append(f"    {key.replace('_', ' ')} {effects}")
    for s in ranker["siblings"]:
        told = f"links of the same list on {s['page']} that were fetched: {s['fetched']}"
        lines.append(f"    {told}, mean reward {s['mean_reward']:.2f}")
    return lines


def _page(page: dict[str, Any]) -> list[str]:
    verdict = "relevant" if page["relevant"] else "not relevant"
    lines = [f"  judged {verdict}, score {page['score']:.3f}: {page['title']}"]
    if page["genre"]:
        lines.append(f"  genre: {page['genre']}")
    if page["duplicate_of"]:
        kind = "nearly the same text as" if page["near_duplicate"] else "the same text as"
        lines.append(f"  a duplicate: {kind} {page['duplicate_of']}")
    lines += [f"    {r['name']} {r['value']:.3f}" for r in page["reasons"] if r["weight"]]
    return lines


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def history(folder: CollectionArgument, url: UrlArgument, json: JsonOption = False) -> int:
    """List the stored versions of a page with dates, relevance and what changed in its main text."""
    facts = page_history(folder, url)
    if json:
        print_json(facts)
    else:
        print_text("\n".join(_format_history(facts)))
    return 0 if facts["found"] else 1


def _format_history(facts: dict[str, Any]) -> list[str]:
    lines = [facts["url"]]
    if not facts["found"]:
        return [*lines, "  no version of it is stored"]
    if "moved_to" in facts:
        lines.append(f"  has moved to {facts['moved_to']}")
    if "checks" in facts:
        lines.append(f"  looked at again {facts['checks']}×, changed {facts['changes']}×")
    for version in facts["versions"]:
        end = (
            f" until {format_utc(version['until'])} ({version['ended']})"
            if version["until"] is not None
            else ", current"
        )
        verdict = "relevant" if version["relevant"] else "not relevant"
        lines.append(
            f"  {format_utc(version['fetched_at'])}{end}: {verdict}, score {version['score']:.3f}: {version['title']}"
        )
        lines += [f"    at {version['url']}"] if version["url"] != facts["url"] else []
        lines += [f"    {line}" for line in version["difference"]]
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
