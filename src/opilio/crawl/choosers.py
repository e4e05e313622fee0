"""Which chooser belongs to a ranker: who scores links in the writing process."""

from msgspec.structs import replace

from opilio.agents.tags import owner, untagged
from opilio.crawl.chooser import Chooser, CommitteeChooser, PlainChooser
from opilio.crawl.kinds import Scorer
from opilio.crawl.parents import ParentsChooser
from opilio.crawl.profiles import Profile
from opilio.crawl.rankmemory import RankMemory, Whose
from opilio.crawl.s1chooser import LIMIT, S1Chooser
from opilio.frontier.browse import best_first
from opilio.judge.learned import LearnedJudge
from opilio.learn.committee import Committee
from opilio.model.protocols import Entry, Learns
from opilio.rank.committee import CommitteeRanker
from opilio.rank.s1 import S1Ranker
from opilio.rank.tswt import TswtRanker
from opilio.store.collection import Collection


def chooser_of(ranker: Scorer, judge: Learns | None, collection: Collection, agent: Profile | None = None) -> Chooser:
    """Who scores links in the writing process, with what the collection says was learnt (by this agent).

    `judge` is the one that learns beside it, where one does.
    """
    if isinstance(ranker, CommitteeRanker) and ranker.options.learn:
        whose = Whose(agent.name, agent.number) if agent else Whose()
        memory = RankMemory(Committee(ranker.options), collection, whose)
        memory.resume()
        return CommitteeChooser(memory, judge if isinstance(judge, LearnedJudge) else None)
    if isinstance(ranker, TswtRanker):
        parents = ParentsChooser(ranker.options)
        parents.resume(collection.connection, agent.number if agent else 0)
        return parents
    if isinstance(ranker, S1Ranker):
        chooser = S1Chooser(ranker)
        waiting = best_first(collection.connection, LIMIT)
        mine = waiting if agent is None else (_own(entry) for entry in waiting if owner(entry.lead) == agent.number)
        chooser.resume(mine, collection.connection, agent.number if agent else 0)
        return chooser
    return PlainChooser()


def _own(entry: Entry) -> Entry:
    return replace(entry, lead=untagged(entry.lead))
