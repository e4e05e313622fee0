"""Parts that need most of Opilio's insides: a member of the committee, and an assembly of a crawl."""

import sys

import numpy as np
from numpy.typing import NDArray

from opilio.core.records import Reading
from opilio.engine.wiring.assembly import AnalysisParts, CrawlWriters, SingleCrawler, WriterContext
from opilio.rank.committee import CommitteeMember, MemberKind
from opilio.rank.link_scores import LinkTexts
from opilio.topic.setup import BuildContext


def short_anchors(reading: Reading, _: LinkTexts) -> NDArray[np.float64]:
    """One number per link: 1 for an anchor of one word or none, less for longer ones."""
    return np.array([1.0 / max(1, len(link.anchor.split())) for link in reading.page.links], dtype=np.float64)


def short_anchor_member(_: BuildContext) -> CommitteeMember:
    """The number takes the place of the feature `tswt`, which is off by default. The committee learns its weight."""
    return CommitteeMember({"tswt": short_anchors})


SHORT_ANCHOR = MemberKind(short_anchor_member)


class CountingCrawler(SingleCrawler):
    """One crawler, as usual. A run begins with a line that says how many pages the collection has."""

    def build_writers(self, context: WriterContext, parts: AnalysisParts) -> CrawlWriters:
        """See `Assembly`."""
        print(f"counting: {context.writer.counts.pages} pages so far", file=sys.stderr)
        return super().build_writers(context, parts)
