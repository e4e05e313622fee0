"""The URLs to queue after a visit: the links of a page, the target of a redirect, URLs to fetch again."""

from collections.abc import Sequence

import msgspec

from opilio.core.caches import evict_oldest
from opilio.core.protocols import Database, LinkScorer
from opilio.core.records import Lead, Outcome, PageChange, Tier, url_key
from opilio.core.urls import host_of
from opilio.engine.copy_links import CopyLinkFilter
from opilio.engine.visit import VisitLimits

MAX_COOKIE_RETRIES = 20_000  # remembered


class OutgoingLeads:
    """Finds what to queue after a batch of visits."""

    def __init__(self, connection: Database, link_scorer: LinkScorer, limits: VisitLimits) -> None:
        self._link_scorer = link_scorer
        self._limits = limits
        self._copy_links = CopyLinkFilter(connection, limits.follow_copies)
        self._cookie_retries: dict[int, None] = {}

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        """The leads of each outcome: its redirect target, or its links."""
        pages: list[Outcome] = []
        leads: list[list[Lead] | None] = []
        for outcome in outcomes:
            redirects = self._redirect_leads(outcome)
            page = self._copy_links.distinct_links(outcome) if redirects is None and outcome.duplicate_of else outcome
            leads.append(redirects if page is not None else [])
            if page is not None and redirects is None:
                pages.append(page)
        found = iter(self._link_scorer.score_links(pages))
        return [next(found) if known is None else known for known in leads]

    def refetches(self, outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
        """(host, key) of known URLs to fetch soon: pages have moved there, or the host now has a cookie."""
        moved = [outcome.fetched.location for outcome in outcomes if outcome.change is PageChange.MOVED]
        return [(host_of(target), url_key(target)) for target in moved] + self._cookie_targets(outcomes)

    def _redirect_leads(self, outcome: Outcome) -> list[Lead] | None:
        """The leads of a redirect; empty for a page whose links are not followed; None for an ordinary page."""
        page, target = outcome.lead, outcome.fetched.location
        # The new address is fetched soon, also if it was known before.
        if outcome.change is PageChange.MOVED:
            return [msgspec.structs.replace(_redirect_lead(page, target), hops=1, tier=Tier.FIRST)]
        if target:
            return [_redirect_lead(page, target)] if page.hops < self._limits.max_redirects else []
        if self._limits.max_depth and page.depth >= self._limits.max_depth:
            return []
        return None

    def _cookie_targets(self, outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
        """(host, key) of URLs whose response set a cookie and redirects back to them, as consent pages do."""
        targets = []
        for outcome in outcomes:
            target = outcome.fetched.location
            returns = target and (outcome.lead.hops or target == outcome.lead.url)
            if (
                returns
                and outcome.fetched.header("set-cookie")
                and (key := url_key(target)) not in self._cookie_retries
            ):
                self._cookie_retries[key] = None
                targets.append((host_of(target), key))
        evict_oldest(self._cookie_retries, MAX_COOKIE_RETRIES)
        return targets


def _redirect_lead(page: Lead, target: str) -> Lead:
    """The target of a redirect, with the score of the URL that redirects; a seed's target counts as a seed."""
    return msgspec.structs.replace(
        page,
        url=target,
        key=url_key(target),
        host=host_of(target),
        hops=page.hops + 1,
        retries=0,
        tier=Tier.FIRST if page.tier == Tier.FIRST else Tier.LINK,
    )
