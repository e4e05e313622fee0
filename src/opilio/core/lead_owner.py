"""Which agent a URL belongs to: the first byte of a lead's features is the agent's number.

The frontier does not interpret features and keeps those of the better link when it merges two leads. So a URL belongs
to the agent that gives it the highest score, and neither the frontier nor its tables know about agents. A lead without
features (a seed) has no owner yet.
"""

from msgspec.structs import replace

from opilio.core.records import Lead

MAX_AGENTS = 255
NO_OWNER = 0


def lead_owner(lead: Lead) -> int:
    """The number of the lead's agent.

    >>> lead_owner(Lead(url="", key=1, host=""))
    0
    """
    return lead.features[0] if lead.features else NO_OWNER


def with_owner(lead: Lead, number: int) -> Lead:
    """The lead with this agent as its owner."""
    return replace(lead, features=bytes([number]) + lead.features)


def without_owner(lead: Lead) -> Lead:
    """The lead without its owner, as rankers expect it."""
    return replace(lead, features=lead.features[1:]) if lead.features else lead


def transfer_lead(lead: Lead, number: int) -> Lead:
    """The lead with another owner. The old owner's features are dropped: only its own ranker can read them."""
    return lead if lead_owner(lead) == number else replace(lead, features=bytes([number]))
