"""The topics of a web: what the crawler is told (brief, seeds) and, kept apart, which labels make a page relevant."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from opilio.crawl.config import in_words
from opilio.lab.web import Problem
from opilio.model.errors import WebError
from opilio.model.urls import canonical


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What a person would tell the crawler of the topic: all it gets beside the seeds."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()  # words of senses that are not meant (S3-09)


class SeedSet(msgspec.Struct, frozen=True, kw_only=True):
    """A place to begin: `on-topic-N` (relevant pages) or `generic-N` (irrelevant ones)."""

    name: str
    urls: tuple[str, ...]
    reaches: int | None = None  # as stated in the file; the lab counts for itself


class LabTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its truth. Only `brief` and `seed_sets` may be handed to a crawler."""

    brief: Brief
    relevant: tuple[str, ...]
    seed_sets: tuple[SeedSet, ...]

    @property
    def name(self) -> str:
        return self.brief.name

    def makes_relevant(self, labels: Sequence[str]) -> bool:
        """Is a page with these labels relevant? One equals a relevant label or begins with it and a dot.

        >>> birds = LabTopic(brief=Brief(name="birds"), relevant=("Science.Birds",), seed_sets=())
        >>> birds.makes_relevant(["Science.Birds.Wrens"]), birds.makes_relevant(["Science.Birdsong"])
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
    seeds: tuple[_SeedTable, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    topic: tuple[_TopicTable, ...] = ()


def load_topics(folder: Path) -> tuple[list[LabTopic], list[Problem]]:
    """The topics in `topics.toml` that can be used, and what is wrong with the others; none when there is no file."""
    path = folder / "topics.toml"
    if not path.exists():
        return [], []
    try:
        tables = msgspec.convert(tomllib.loads(path.read_text("utf-8-sig")), _File).topic
    except msgspec.ValidationError as error:
        raise WebError(f"{path}: {in_words(error)}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WebError(f"{path}: {error}") from error
    topics: list[LabTopic] = []
    problems: list[Problem] = []
    for table in tables:
        topic = _topic(table, problems)
        if not topic.seed_sets:
            problems.append(Problem("topic", table.name, "topic without a usable seed; skipped"))
        elif any(t.name == topic.name for t in topics):
            problems.append(Problem("topic", table.name, "second topic of this name; skipped"))
        else:
            topics.append(topic)
    return topics, problems


def chosen_topics(topics: Sequence[LabTopic], names: Sequence[str], folder: Path) -> list[LabTopic]:
    """The topics of these names (all without a name), or a message that lists what there is."""
    known = {t.name: t for t in topics}
    if not known:
        raise WebError(f"{folder}: no usable topic in topics.toml; an experiment needs at least one")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise WebError(f"{folder}: no topic {unknown[0]!r}; there are: {', '.join(known)}")
    return [known[n] for n in dict.fromkeys(names)] if names else list(topics)


def _topic(table: _TopicTable, problems: list[Problem]) -> LabTopic:
    sets: list[SeedSet] = []
    for number, seeds in enumerate(table.seeds, start=1):
        name = seeds.name or f"seeds-{number}"
        usable = [u for u in map(canonical, seeds.urls) if u is not None]
        if len(usable) < len(seeds.urls):
            problems.append(Problem("seed", f"{table.name}/{name}", "holds an address that is not http or https"))
        if any(name == known.name for known in sets):
            problems.append(Problem("seed", f"{table.name}/{name}", "second seed set of this name; skipped"))
        elif usable:
            sets.append(SeedSet(name=name, urls=tuple(dict.fromkeys(usable)), reaches=seeds.reaches))
    brief = Brief(name=table.name, description=table.description, keywords=table.keywords, contexts=table.contexts)
    return LabTopic(brief=brief, relevant=table.relevant, seed_sets=tuple(sets))
