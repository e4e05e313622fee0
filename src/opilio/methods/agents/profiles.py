"""The settings of each agent: those of the crawl with its own topic and seeds. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.records import MAX_AGENTS, url_key
from opilio.core.settings import AgentSettings, AgentTeamSettings, Settings, TopicSettings, Tree
from opilio.core.settings_input import suggest_name
from opilio.core.urls import require_url
from opilio.methods.agents.agent import assign_seeds

AGENT_TOPIC_OPTIONS = (
    "name",
    "description",
    "keywords",
    "contexts",
    "genres",
    "dewey",
)


class AgentProfile(msgspec.Struct, frozen=True):
    """One agent with its settings."""

    number: int
    name: str
    requests: int
    settings: Settings


def check_agent_settings(settings: Settings) -> None:
    """ConfigError for settings that agents can't use."""
    agent_profiles(settings)
    for key, value, fit in (
        ("order.kind", settings.order["kind"], ("best-first", "expiring", "breadth-first")),
        ("frontier.merge", settings.frontier.merge, ("max", "discard")),
        ("order.top", settings.order.get("top", 0), (0,)),
    ):
        if value not in fit:
            raise ConfigError(
                f"{key} = {value!r}: agents keep their own order; with them it can be {_format_choices(fit)}"
            )
    if settings.rank.get("model") and settings.rank["kind"] == "committee":
        raise ConfigError("rank.model: agents start with untrained rankers; leave rank.model or the agents out")


def agent_profiles(settings: Settings) -> list[AgentProfile]:
    """Every agent with its settings; ConfigError for invalid ones."""
    given = _named_agents(settings.agents)
    own = [[_canonical_seed(url, one) for url in one.seeds] for one in given]
    shares = assign_seeds(list(settings.seeds.urls), own, settings.agents.split)
    found = []
    for number, (one, seeds) in enumerate(zip(given, shares, strict=True), start=1):
        own_settings = msgspec.structs.replace(
            settings,
            topic=_agent_topic(settings, one),
            seeds=msgspec.structs.replace(settings.seeds, urls=seeds),
            agents=AgentTeamSettings(),
        )
        found.append(AgentProfile(number, one.name, one.requests or settings.agents.requests, own_settings))
    return found


def seed_agents(settings: Settings) -> dict[int, int]:
    """The number of the agent that starts at a seed, by the seed's key."""
    return {url_key(url): p.number for p in agent_profiles(settings) for url in p.settings.seeds.urls}


def _named_agents(agents: AgentTeamSettings) -> list[AgentSettings]:
    """The agents of the settings, named; `agents.count` may add agents without settings of their own."""
    more = max(0, agents.count - len(agents.each))
    each = [*agents.each, *(AgentSettings() for _ in range(more))]
    if len(each) > MAX_AGENTS:
        raise ConfigError(f"agents.count = {len(each)}: there can be at most {MAX_AGENTS} agents")
    named = [
        one if one.name else msgspec.structs.replace(one, name=f"agent-{n}") for n, one in enumerate(each, start=1)
    ]
    twice = {one.name for one in named if [other.name for other in named].count(one.name) > 1}
    if twice:
        raise ConfigError(f"agents.each: two agents have the name '{min(twice)}'")
    for one in named:
        if "/" in one.name:
            raise ConfigError(f"agents.each: the name '{one.name}' may not contain a slash")
    return named


def _agent_topic(settings: Settings, one: AgentSettings) -> TopicSettings:
    """The crawl's topic overlaid with the agent's own. A new name is a new topic without the old words."""
    for key in one.topic:
        if key not in AGENT_TOPIC_OPTIONS:
            known, hint = ", ".join(AGENT_TOPIC_OPTIONS), suggest_name(key, list(AGENT_TOPIC_OPTIONS))
            raise ConfigError(f"agents.each: topic.{key} of '{one.name}' can't be its own{hint}; {known} can")
    base: Mapping[str, object] = msgspec.to_builtins(settings.topic)
    if "name" in one.topic:
        base = {
            key: value
            for key, value in base.items()
            if key not in (*AGENT_TOPIC_OPTIONS, "examples", "counterexamples")
        }
    tree: Tree = {**base, **one.topic}
    try:
        return msgspec.convert(tree, TopicSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"agents.each: topic of '{one.name}': {error}") from error


def _canonical_seed(url: str, one: AgentSettings) -> str:
    return require_url(url, f"agents.each: '{one.name}': seed", ConfigError)


def _format_choices(values: Sequence[object]) -> str:
    return ", ".join(map(repr, values))
