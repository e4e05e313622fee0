"""Topics of an offline web: the brief and the seed sets a crawler may see, and which labels count as relevant."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from opilio.core.errors import OfflineWebError
from opilio.core.files import parse_toml
from opilio.core.settings import describe_validation_error
from opilio.core.urls import canonicalize_url
from opilio.lab.webs.web import LabProblem


class TopicBrief(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a topic that a crawler gets, as the user would write it; besides it, only seeds."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    # Words of senses that are not meant (S3-09).
    contexts: tuple[str, ...] = ()
    # The genres that are wanted (S3-23); empty: all.
    genres: tuple[str, ...] = ()


class SeedSet(msgspec.Struct, frozen=True, kw_only=True):
    """Start pages: `on-topic-N` (relevant pages) or `generic-N` (irrelevant ones).

    `on-topic-of-N` are N relevant pages, `generic-of-N` the N irrelevant ones with the most links, such as directories.
    """

    name: str
    urls: tuple[str, ...]
    # As stated in the file; the lab counts for itself.
    reaches: int | None = None


_DRAWN_SEEDS = re.compile(r"(on-topic|generic)-of-(\d+)")


def drawn_seed_count(name: str) -> int:
    """The size of a seed set that is drawn from the web; 0 for other names.

    >>> drawn_seed_count("on-topic-of-17"), drawn_seed_count("generic-of-7"), drawn_seed_count("generic-1")
    (17, 7, 0)
    """
    found = _DRAWN_SEEDS.fullmatch(name)
    return int(found[2]) if found else 0


class LabTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its relevant labels. Only `brief` and `seed_sets` may be passed to a crawler."""

    brief: TopicBrief
    relevant: tuple[str, ...]
    seed_sets: tuple[SeedSet, ...]

    @property
    def name(self) -> str:
        return self.brief.name

    def is_relevant(self, labels: Sequence[str]) -> bool:
        """Is a page with these labels relevant? One equals a relevant label or begins with it and a dot.

        >>> birds = LabTopic(brief=TopicBrief(name="birds"), relevant=("Science.Birds",), seed_sets=())
        >>> birds.is_relevant(["Science.Birds.Wrens"]), birds.is_relevant(["Science.Birdsong"])
        (True, False)
        """
        return any(has == r or has.startswith(r + ".") for has in labels for r in self.relevant)


class _SeedTable(msgspec.Struct, forbid_unknown_fields=True):
    urls: tuple[str, ...]
    name: str = ""
    reaches: int | None = None


class _TopicTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    relevant: tuple[str, ...] = ()
    description: str = ""
    keywords: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    genres: tuple[str, ...] = ()
    seeds: tuple[_SeedTable, ...] = ()


class _TopicsFile(msgspec.Struct, forbid_unknown_fields=True):
    topic: tuple[_TopicTable, ...] = ()


def load_topics(folder: Path) -> tuple[list[LabTopic], list[LabProblem]]:
    """The usable topics in `topics.toml`, and problems with the others; empty without the file."""
    path = folder / "topics.toml"
    if not path.exists():
        return [], []
    try:
        tables = msgspec.convert(parse_toml(path.read_text("utf-8-sig")), _TopicsFile).topic
    except msgspec.ValidationError as error:
        raise OfflineWebError(f"{path}: {describe_validation_error(error)}") from error
    except (OSError, ValueError) as error:
        raise OfflineWebError(f"{path}: {error}") from error
    topics: list[LabTopic] = []
    problems: list[LabProblem] = []
    for table in tables:
        topic = _build_topic(table, problems)
        if not topic.seed_sets:
            problems.append(LabProblem("topic", table.name, "topic without a usable seed; skipped"))
        elif any(t.name == topic.name for t in topics):
            problems.append(LabProblem("topic", table.name, "second topic of this name; skipped"))
        else:
            topics.append(topic)
    return topics, problems


def select_topics(topics: Sequence[LabTopic], names: Sequence[str], folder: Path) -> list[LabTopic]:
    """The topics of these names (all without a name), or an error that lists the known ones."""
    known = {t.name: t for t in topics}
    if not known:
        raise OfflineWebError(f"{folder}: no usable topic in topics.toml; an experiment needs at least one")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise OfflineWebError(f"{folder}: topic {unknown[0]!r}: unknown; known: {', '.join(known)}")
    return [known[n] for n in dict.fromkeys(names)] if names else list(topics)


def _build_topic(table: _TopicTable, problems: list[LabProblem]) -> LabTopic:
    sets: list[SeedSet] = []
    for number, seeds in enumerate(table.seeds, start=1):
        name = seeds.name or f"seeds-{number}"
        usable = [u for u in map(canonicalize_url, seeds.urls) if u is not None]
        if len(usable) < len(seeds.urls):
            problems.append(LabProblem("seed", f"{table.name}/{name}", "contains a URL that is not http(s)"))
        if any(name == known.name for known in sets):
            problems.append(LabProblem("seed", f"{table.name}/{name}", "second seed set of this name; skipped"))
        elif usable:
            sets.append(SeedSet(name=name, urls=tuple(dict.fromkeys(usable)), reaches=seeds.reaches))
    brief = TopicBrief(
        name=table.name,
        description=table.description,
        keywords=table.keywords,
        contexts=table.contexts,
        genres=table.genres,
    )
    return LabTopic(brief=brief, relevant=table.relevant, seed_sets=tuple(sets))
