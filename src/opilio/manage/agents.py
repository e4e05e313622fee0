"""What a collection knows of its agents: for `opilio maintain agents`, `status` and pages. Reads only."""

from pathlib import Path
from typing import Any

import msgspec

from opilio.core.errors import UsageError
from opilio.engine.commands import send_command
from opilio.engine.learning import state_name
from opilio.methods.agents.agent import WORKING, AgentRecord
from opilio.methods.agents.directory import read_agent_records
from opilio.store.collection import Collection, open_readonly
from opilio.store.locks import is_crawl_running
from opilio.store.pages import relevant_host_count
from opilio.store.run_tables import has_table, snapshots
from opilio.topic.evolving import restored_table
from opilio.topic.weights import WeightTable

STOPPED = "stopped"  # stopped with the crawl: it continues with it
MAX_SHOWN_WORDS = 10  # of a table that are shown


def list_agents(folder: Path) -> list[dict[str, Any]]:
    """Every agent: how it stands, what it found, where, and what it learnt. UsageError where there are none."""
    with open_readonly(folder) as collection:
        cards = agent_cards(collection)
        if not cards:
            raise UsageError(
                f"{folder}: was not crawled by agents; 'opilio crawl --strategy s3-agents' or --set agents.count=3 does"
            )
        return [_agent_to_dict(collection, card) for card in cards]


def agent_cards(collection: Collection) -> list[AgentRecord]:
    """The directory as it was saved last; empty where a collection has no agents, or is older than they are."""
    db = collection.connection
    cards = read_agent_records(db) if has_table(db, "agent") else []
    if not is_crawl_running(collection.folder):
        for card in cards:
            card.state = STOPPED if card.state == WORKING else card.state
    return cards


def retire_agent(folder: Path, name: str, now: float) -> bool:
    """Ask that an agent goes home and others go on with its links; True: a crawl is running and will see to it."""
    names = [agent["name"] for agent in list_agents(folder)]
    if name not in names:
        raise UsageError(f"--retire {name}: no such agent; there are: {', '.join(names)}")
    send_command(folder, "retire", now, name)
    return is_crawl_running(folder)


def _agent_to_dict(collection: Collection, card: AgentRecord) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.structs.asdict(card)
    facts["harvest"] = card.relevant / card.pages if card.pages else 0.0
    facts["hosts"] = relevant_host_count(collection.connection, card.number)
    tables = _tables(collection, card.name)
    first, last = (tables[0], tables[-1]) if tables else (WeightTable(), WeightTable())
    begun = {keyword.stem for keyword in first.keywords}
    facts["table_size"] = len(last)
    facts["words"] = {k.label: round(k.weight, 3) for k in last.keywords[:MAX_SHOWN_WORDS]}
    facts["learnt"] = [k.label for k in last.keywords if k.stem not in begun][:MAX_SHOWN_WORDS]
    return facts


def _tables(collection: Collection, name: str) -> list[WeightTable]:
    """The first and the last version of an agent's table."""
    states = snapshots(collection.connection, state_name(name, "topic"))
    return [restored_table(row.state) for row in (states[:1] + states[-1:])]
