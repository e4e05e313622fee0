"""Commands that look at a collection: status, why, export."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from opilio.cli.options import AsJson, Folder, counted, print_json, print_text
from opilio.crawl.export import FORMATS
from opilio.crawl.export import export as export_pages
from opilio.crawl.status import status_of
from opilio.crawl.why import why as all_reasons
from opilio.model.errors import UsageError

Url = Annotated[str, typer.Argument(metavar="URL", show_default=False, help="The page's address.")]


def status(folder: Folder, json: AsJson = False) -> int:
    """Show what a collection holds and how its crawl ended."""
    values = status_of(folder)
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


def why(folder: Folder, url: Url, json: AsJson = False) -> int:
    """Tell every reason why a URL was fetched, skipped or kept."""
    facts = all_reasons(folder, url)
    if json:
        print_json(facts)
    else:
        print_text("\n".join(_told(facts)))
    return 0 if facts["found"] else 1


def export(
    folder: Folder,
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
    sys.stderr.write(f"{counted(count, 'page')} written to {out}\n")
    return 0


def _told(facts: dict[str, Any]) -> list[str]:
    lines = [facts["url"]]
    if not facts["found"]:
        return [*lines, "  was never seen: no fetched page links to it, and it is no seed"]
    state = f"  {facts['state']}" + (f": {facts['reason']}" if facts["reason"] else "")
    lines.append(state)
    if "score" in facts:
        steps = "1 link" if facts["depth"] == 1 else f"{facts['depth']} links"
        lines.append(f"  score {facts['score']:.3f}, {steps} from a seed, found {facts['times_found']}×")
    if "host_waits" in facts:
        lines.append(f"  its host waits until {_when(facts['host_waits']['until'])}: {facts['host_waits']['reason']}")
    if "seed" in facts:
        lines.append(f"  a seed of priority {facts['seed']['priority']} ({facts['seed']['sources']})")
    if "redirected_from" in facts:
        lines.append(f"  redirected from {', redirected from '.join(facts['redirected_from'])}")
    lines += _found_on(facts["found_on"])
    if "ranker" in facts:
        lines += _ranked(facts["ranker"])
    for answer in facts["answers"]:
        outcome = answer["failure"] or f"status {answer['status']}"
        extra = answer["detail"] or answer["location"]
        lines.append(f"  asked {_when(answer['at'])}: {outcome} {extra}".rstrip())
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


def _ranked(ranker: dict[str, Any]) -> list[str]:
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


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
