"""Every command of Opilio: its name, the function that runs it and its line in the help.

The table is all that `opilio --help` reads. A module is imported when one of its commands is used.
"""

from collections.abc import Mapping
from typing import NamedTuple, Union


class CommandEntry(NamedTuple):
    """A command: `module:function` below `opilio.cli`, the line in the help, examples after the options."""

    target: str
    help: str
    examples: tuple[str, ...] = ()


class GroupEntry(NamedTuple):
    """Commands under one name."""

    help: str
    commands: Mapping[str, Union[CommandEntry, "GroupEntry"]]


Entries = Mapping[str, CommandEntry | GroupEntry]

TOPIC = GroupEntry(
    "Build topic files; show what a crawl knows about its topic.",
    {
        "build": CommandEntry(
            "topic:build_topic", "Make a topic file from a sentence, keywords, pages or a query log."
        ),
        "seeds": CommandEntry("seeds:seeds", "Ask search engines for seeds."),
        "show": CommandEntry("topic:show_topic", "Print a collection's topic table, or its history."),
        "suggest": CommandEntry("topic:suggest", "Print words that WordNet suggests for a topic file."),
        "subtopics": CommandEntry("search:subtopics", "List the subtopics of the relevant pages."),
        "dewey": CommandEntry("dewey:dewey", "Show the Dewey classes of a text or a page."),
    },
)
TGRAPH = GroupEntry(
    "T-Graphs of the s2 strategies: build one from target pages, show one.",
    {
        "build": CommandEntry("tgraph:build_graph", "Build a T-Graph from target pages and their back-links."),
        "show": CommandEntry("tgraph:show_graph", "Print a T-Graph: a file, or the current one of a crawl."),
    },
)
LAB = GroupEntry(
    "Offline webs and experiments: measure strategies, train models.",
    {
        "webs": CommandEntry("lab:webs", "Summarize offline webs: pages, hosts, links, labels, topics, seed sets."),
        "make": CommandEntry("lab:make", "Write a synthetic web: pages, labels, topics and host faults."),
        "serve": CommandEntry("lab:serve", "Serve a web over HTTP on loopback, by Host header and as a forward proxy."),
        "run": CommandEntry("lab:run", "Run an experiment over offline webs and write a report."),
        "revisit": CommandEntry("lab:revisit", "Compare revisit policies while a web changes."),
        "traps": CommandEntry(
            "lab:traps", "Measure how much of the budget spider traps take, without and with waste control."
        ),
        "train": CommandEntry("train:train", "Train and test the learners of the s1 strategies."),
        "tgraph": TGRAPH,
    },
)
MAINTAIN = GroupEntry(
    "Check, repair, compact and merge collections; check this machine.",
    {
        "verify": CommandEntry("maintain:verify", "Check a collection and repair what can be derived again."),
        "compact": CommandEntry("maintain:compact", "Remove unused records from the WARC files and the database."),
        "merge": CommandEntry("maintain:merge", "Merge collections into a new one, without duplicate pages."),
        "copy": CommandEntry("maintain:copy", "Copy a collection into a PostgreSQL database, or back."),
        "upgrade": CommandEntry("maintain:upgrade", "Bring a collection of an earlier Opilio to the current schema."),
        "reindex": CommandEntry("maintain:reindex", "Delete the search index of a collection and build it again."),
        "agents": CommandEntry("maintain:agents", "List the agents of a crawl, or retire one."),
        "doctor": CommandEntry("serve:doctor", "Check this machine and list what Opilio can do."),
    },
)
COMMANDS: Entries = {
    "crawl": CommandEntry(
        "crawl:crawl",
        "Crawl a topic into a collection.",
        (
            'opilio crawl "sign languages" --seed https://en.wikipedia.org/wiki/Sign_language',
            'opilio crawl "sign languages" --seeds signs.txt --pages 5000 --into signs',
            "opilio crawl --into signs --revisit",
        ),
    ),
    "worker": CommandEntry("crawl:worker", "Join a crawl in PostgreSQL, beside any number of other workers."),
    "search": CommandEntry(
        "search:search",
        "Search one or more collections.",
        (
            'opilio search signs "deaf education"',
            'opilio search signs birds "language of wrens" --after 2026-01-31 --limit 20',
            "opilio search signs https://example.org/page --like",
        ),
    ),
    "serve": CommandEntry("serve:serve", "Start the web interface and the HTTP API, or an MCP server."),
    "status": CommandEntry("collection:status", "Show what a collection holds and how its crawl ended."),
    "why": CommandEntry("collection:why", "Explain why a URL was fetched, skipped or kept."),
    "label": CommandEntry(
        "collection:label", "Mark pages as relevant or irrelevant, tag them, write notes, make lists."
    ),
    "export": CommandEntry(
        "collection:export",
        "Write the pages as JSON Lines, CSV, Parquet, Markdown, WARC, CDXJ, WACZ or citations.",
        (
            "opilio export signs --relevant --out pages.jsonl",
            "opilio export signs --format markdown --out pages",
            "opilio export signs --format warc --out pages.warc.gz",
        ),
    ),
    "topic": TOPIC,
    "maintain": MAINTAIN,
    "lab": LAB,
    "demo": CommandEntry("demo:demo", "Crawl a synthetic web on this machine and compare two strategies."),
}

# Names of earlier versions: still accepted, with a hint on stderr.
ALIASES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("verify",): ("maintain", "verify"),
    ("compact",): ("maintain", "compact"),
    ("merge",): ("maintain", "merge"),
    ("agents",): ("maintain", "agents"),
    ("doctor",): ("maintain", "doctor"),
    ("seeds",): ("topic", "seeds"),
    ("mcp",): ("serve", "--mcp", "stdio"),
    ("index", "rebuild"): ("maintain", "reindex"),
    ("index", "like"): ("search", "--like"),
    ("index", "subtopics"): ("topic", "subtopics"),
    ("topic", "expand"): ("topic", "suggest"),
    ("history",): ("why", "--history"),
    ("train",): ("lab", "train"),
    ("tgraph",): ("lab", "tgraph"),
}


def resolve_alias(arguments: list[str]) -> tuple[list[str], str]:
    """The arguments with today's command name, and a hint if an old name was used.

    >>> resolve_alias(["verify", "birds"])
    (['maintain', 'verify', 'birds'], "'opilio verify' is now 'opilio maintain verify'")
    >>> resolve_alias(["crawl", "birds"])
    (['crawl', 'birds'], '')
    """
    for old, new in ALIASES.items():
        if tuple(arguments[: len(old)]) == old:
            return [*new, *arguments[len(old) :]], f"'opilio {' '.join(old)}' is now 'opilio {' '.join(new)}'"
    return arguments, ""
