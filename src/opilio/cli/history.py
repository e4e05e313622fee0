"""`opilio history`: the versions of one page."""

from typing import Any

from opilio.cli.collection import Url
from opilio.cli.options import AsJson, Folder, print_json, print_text
from opilio.crawl.history import day, history_of


def history(folder: Folder, url: Url, json: AsJson = False) -> int:
    """List the stored versions of a page with dates, relevance and what changed in its main text."""
    facts = history_of(folder, url)
    if json:
        print_json(facts)
    else:
        print_text("\n".join(_told(facts)))
    return 0 if facts["found"] else 1


def _told(facts: dict[str, Any]) -> list[str]:
    lines = [facts["url"]]
    if not facts["found"]:
        return [*lines, "  no version of it is stored"]
    if "moved_to" in facts:
        lines.append(f"  has moved to {facts['moved_to']}")
    if "checks" in facts:
        lines.append(f"  looked at again {facts['checks']}×, changed {facts['changes']}×")
    for version in facts["versions"]:
        end = f" until {day(version['until'])} ({version['ended']})" if version["until"] is not None else ", current"
        verdict = "relevant" if version["relevant"] else "not relevant"
        lines.append(
            f"  {day(version['fetched_at'])}{end}: {verdict}, score {version['score']:.3f}: {version['title']}"
        )
        lines += [f"    at {version['url']}"] if version["url"] != facts["url"] else []
        lines += [f"    {line}" for line in version["difference"]]
    return lines
