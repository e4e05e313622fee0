"""The topic editor: keywords, examples, contexts, genres, Dewey classes; preview and history."""

from typing import Any

import msgspec
import tomli_w

from opilio.core.errors import UsageError
from opilio.core.urls import canonicalize_url
from opilio.engine.commands import TopicReplacement
from opilio.engine.wiring.start import stored_topic
from opilio.manage.topic_builder import table_history, table_to_dict
from opilio.manage.topic_editor import (
    current_table,
    draft_topic,
    known_genres,
    learned_words,
    page_text,
    preview_topic,
    save_topic,
)
from opilio.store.collection import Collection
from opilio.store.connection import CRAWL_COMMAND
from opilio.topic.topic import Topic
from opilio.web.context import (
    MAX_TEXT_CHARS,
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
    parse_toml,
)
from opilio.web.sentences import when_applied

FIELDS = ("description", "keywords", "contexts", "genres", "dewey")
EXCERPT = 120


def show_topic(context: AppContext, request: PageRequest) -> PageView:
    with context.open(request.name) as collection:
        data = _data(collection, stored_topic(collection))
    data["history"] = _history(context, request.name)
    return PageView(template="topic.html", data=data, title="Topic", table_key="keywords")


def _data(collection: Collection, shown: Topic) -> dict[str, Any]:
    """Data of the editor. `shown` may be a draft."""
    table = current_table(collection)
    return {
        "name": shown.name,
        "description": shown.description,
        "given": shown.keywords,
        "contexts": list(shown.contexts),
        "genres": list(shown.genres),
        "known_genres": known_genres(collection),
        "dewey": list(shown.dewey),
        "language": shown.language,
        "positive": _excerpts(shown.positive),
        "negative": _excerpts(shown.negative),
        "keywords": [{"word": k.label, "stem": k.stem, "weight": round(k.weight, 4)} for k in table.keywords],
        "grown": [{"stem": s, "word": label} for s, (label, _) in learned_words(collection).items()],
        "version": table.version,
        "toml": topic_to_toml(shown),
        "preview": None,
        "_typed": _form_values(shown),
    }


def _form_values(shown: Topic) -> dict[str, Any]:
    """A topic as values of the form fields."""
    keywords = (word if weight == 1 else f"{word} = {weight:g}" for word, weight in shown.keywords.items())
    lists = {"keywords": keywords, "contexts": shown.contexts, "dewey": shown.dewey}
    texts = {name: "\n".join(lines) for name, lines in lists.items()}
    return {**texts, "description": shown.description, "genres": shown.genres, "toml": topic_to_toml(shown)}


def _excerpts(examples: tuple[Any, ...]) -> list[str]:
    return [(e if isinstance(e, str) else " ".join(e))[:EXCERPT] for e in examples]


def _history(context: AppContext, name: str) -> list[dict[str, Any]]:
    versions = [table_to_dict(at, table) for at, table in table_history(context.collections.folder(name))]
    return [{k: v[k] for k in ("version", "at", "size", "added")} for v in reversed(versions)]


def topic_to_toml(shown: Topic) -> str:
    """The editable part of a topic as TOML."""
    tree = {field: msgspec.to_builtins(getattr(shown, field)) for field in FIELDS}
    return tomli_w.dumps({"topic": tree})


def edit_topic(context: AppContext, request: PageRequest) -> PageView | ActionResult:
    """Preview a changed topic, or save it."""
    values = request.values
    with context.open(request.name) as collection:
        try:
            new = draft_topic(collection, _parse_topic(collection, values), _dropped_stems(collection, values))
        except UsageError as error:
            return _rejected_form(context, request, collection, str(error))
        if values["do"] == "preview":
            data = _data(collection, new.topic)
            data["preview"] = msgspec.to_builtins(seen := preview_topic(collection, new)) | {"changed": seen.changed}
            data["dropped"] = _dropped_stems(collection, values)
            data["new_keywords"] = _words(new)
            data["form"] = {name: value for name, value in values.items() if name != "do"}
            data["history"] = _history(context, request.name)
            return PageView(template="topic.html", data=data, title="Topic: preview", table_key="keywords")
    writer = save_topic(context.collections.folder(request.name), new, context.clock.now())
    message = f"Saved: {len(new.table)} keywords. {when_applied(writer)} Pages judged earlier keep their verdicts."
    return ActionResult(
        message=message,
        redirect_to=f"/c/{request.name}/topic",
        data={"keywords": _words(new), "running": writer == CRAWL_COMMAND},
    )


def _rejected_form(context: AppContext, request: PageRequest, collection: Collection, problem: str) -> PageView:
    """The form as it was filled in, with the error."""
    data = _data(collection, stored_topic(collection))
    typed = {name: request.values[name] for name in data["_typed"]}
    data["_typed"] = data["_typed"] | {"toml": typed["toml"]} if typed["toml"] else typed | {"toml": data["toml"]}
    data |= {"error": problem, "dropped": _dropped_stems(collection, request.values), "form": request.values}
    data["history"] = _history(context, request.name)
    return PageView(template="topic.html", data=data, title="Topic", table_key="keywords", status=400)


def _words(new: TopicReplacement) -> list[dict[str, Any]]:
    return [{"word": k.label, "stem": k.stem, "weight": round(k.weight, 4)} for k in new.table.keywords]


def _dropped_stems(collection: Collection, values: dict[str, Any]) -> list[str]:
    """Words added by the crawl that were unticked; a request without `keeps` keeps all."""
    return [s for s in learned_words(collection) if s not in values["keep"]] if values["keeps"] else []


def _parse_topic(collection: Collection, values: dict[str, Any]) -> Topic:
    now = stored_topic(collection)
    fields = _from_toml(values["toml"]) if values["toml"] else _from_form(values)
    positive = _examples(collection, now.positive, values, "positive")
    negative = _examples(collection, now.negative, values, "negative")
    try:
        return msgspec.convert(
            msgspec.structs.asdict(now) | fields | {"positive": positive, "negative": negative}, Topic
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"topic: {error}") from error


def _from_form(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": values["description"],
        "keywords": parse_keywords(values["keywords"]),
        "contexts": _lines(values["contexts"]),
        "genres": tuple(values["genres"]),
        "dewey": _lines(values["dewey"]),
    }


def _from_toml(text: str) -> dict[str, Any]:
    tree: dict[str, Any] = parse_toml(text, "TOML").get("topic", {})
    unknown = sorted(set(tree) - set(FIELDS))
    if unknown:
        raise UsageError(f"TOML: unknown key '{unknown[0]}'; known: {', '.join(FIELDS)}")
    words = tree.get("keywords", {})
    return tree | {"keywords": words if isinstance(words, dict) else dict.fromkeys(words, 1.0)}


def parse_keywords(text: str) -> dict[str, float]:
    """Keywords of a text area: one per line, optional weight.

    >>> parse_keywords("wren\\nsmall bird = 0.5\\n")
    {'wren': 1.0, 'small bird': 0.5}
    """
    words = {}
    for line in text.splitlines():
        word, equals, weight = line.rpartition("=")
        name = (word if equals else line).strip()
        if not name:
            continue
        try:
            words[name] = float(weight) if equals else 1.0
        except ValueError as error:
            raise UsageError(f"keyword '{line[:80]}': the weight must be a number, such as: wren = 0.8") from error
    return words


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _examples(collection: Collection, now: tuple[Any, ...], values: dict[str, Any], kind: str) -> list[Any]:
    """Kept examples, added pages of the collection, and a pasted text."""
    gone = {int(n) for n in values[f"drop_{kind}"] if n.isascii() and n.isdecimal() and len(n) < 9}
    kept = [example for number, example in enumerate(now) if number not in gone]
    kept += [page_text(collection, canonicalize_url(url) or url) for url in _lines(values[f"add_{kind}"])]
    pasted = values[f"text_{kind}"].strip()
    return [*kept, pasted] if pasted else kept


PAGES = (
    PageRoute(
        path="/c/{name}/topic",
        show=show_topic,
        about="The topic: its definition, the current keywords, and all versions.",
    ),
)
ACTIONS = (
    ActionRoute(
        path="/c/{name}/topic",
        run=edit_topic,
        about="Preview a changed topic on known pages, or save it.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=("preview", "save"), required=True),
            Param(name="toml", about="The topic as TOML, instead of the fields.", max_chars=MAX_TEXT_CHARS),
            Param(name="description", about="Description of the topic.", max_chars=MAX_TEXT_CHARS),
            Param(name="keywords", about="Keywords, one per line, optional weight", max_chars=MAX_TEXT_CHARS),
            Param(name="contexts", about="Words of meanings to exclude, one per line.", max_chars=MAX_TEXT_CHARS),
            Param(name="genres", about="Wanted genres.", kind="list"),
            Param(name="dewey", about="Dewey classes, one per line.", max_chars=MAX_TEXT_CHARS),
            Param(name="keeps", about="1: `keep` lists the added words to keep.", kind="flag", default=False),
            Param(name="keep", about="Stems added by the crawl to keep.", kind="list"),
            *(
                param
                for kind in ("positive", "negative")
                for param in (
                    Param(name=f"drop_{kind}", about="Numbers of examples to remove.", kind="list"),
                    Param(name=f"add_{kind}", about="URLs of stored pages, one per line.", max_chars=MAX_TEXT_CHARS),
                    Param(name=f"text_{kind}", about="An example text.", max_chars=MAX_TEXT_CHARS),
                )
            ),
        ),
    ),
)
