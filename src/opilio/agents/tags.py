"""Whose URL it is: the first byte of a lead's features names its agent. Pure.

Features are opaque to the frontier and follow the better link when two are merged, so a URL belongs to the agent that
promises most for it, and neither frontier nor schema know of agents. No features at all: nobody's yet (a seed).
"""

from msgspec.structs import replace

from opilio.model.records import Lead

MOST = 255  # agents
NOBODY = 0


def owner(lead: Lead) -> int:
    """The number of the lead's agent.

    >>> owner(Lead(url="", key=1, host=""))
    0
    """
    return lead.features[0] if lead.features else NOBODY


def tagged(lead: Lead, number: int) -> Lead:
    """The lead as this agent's."""
    return replace(lead, features=bytes([number]) + lead.features)


def untagged(lead: Lead) -> Lead:
    """The lead as rankers know it."""
    return replace(lead, features=lead.features[1:]) if lead.features else lead


def passed_on(lead: Lead, number: int) -> Lead:
    """The lead as another agent's. What its ranker kept with it stays behind: that is for its own eyes."""
    return lead if owner(lead) == number else replace(lead, features=bytes([number]))
