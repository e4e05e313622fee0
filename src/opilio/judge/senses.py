"""Judges that reject pages about another sense of the topic's words."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import TopicError
from opilio.core.protocols import BaseLearner, Judge, Learns
from opilio.core.records import Outcome, Reading, Reason, Verdict
from opilio.core.settings import Amount, Positive
from opilio.text.vocabulary import PhraseMatcher
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.setup import BuildContext
from opilio.topic.topic import OTHER_SENSE, ContextRule, SenseWeights, nearby_terms

SENSES_STATE = "senses"  # name of the state among the snapshots
# The reason of a rejection by words that were learned.
LEARNT = "learnt company"
PAGES_PER_VERSION = 10
MIN_TERM_PAGES = 3
MIN_RATIO = 4.0
MAX_COMPANY_TERMS = 20_000


class ContextJudge:
    """Rejects pages with words of irrelevant contexts, and their links (S3-09; options of S3-E12 in `rule`).

    A context of several words must occur as a phrase: `jaguar cat` does not reject every page with `jaguar`.
    """

    def __init__(
        self,
        judge: Judge,
        topic: EvolvingTopic,
        contexts: tuple[str, ...],
        words: PageTerms,
        rule: ContextRule | None = None,
    ) -> None:
        if not contexts:
            raise TopicError("topic.contexts: is empty; give words of the other senses")
        self._judge = judge
        self._topic = topic
        self._contexts = tuple(c.lower() for c in contexts)
        self._phrases = PhraseMatcher({tuple(words.terms(c)): at for at, c in enumerate(contexts)})
        self._words = words
        self._rule = rule or ContextRule()

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self._judge.judge(reading)
        terms = self._inspected_terms(reading)
        hits = len(self._phrases.matches(terms)) if self._rule.whole_word else self._context_hits(reading)
        topic_words = sum(1 for t in terms if t in self._topic.compiled.vector)
        if not self._rule.rejects(hits, topic_words):
            return verdict
        return _rejected(
            verdict, Reason(OTHER_SENSE, float(hits)), Reason("topic words beside", float(topic_words), 0.0)
        )

    def _inspected_terms(self, reading: Reading) -> list[int]:
        title = list(self._words.terms(reading.page.title))
        if self._rule.where == "page":
            return [*title, *reading.terms]
        return title + [t for start, end in reading.anchors for t in reading.terms[start:end]]

    def _context_hits(self, reading: Reading) -> int:
        page = reading.page
        text = page.text if self._rule.where == "page" else " ".join(link.anchor for link in page.links)
        text = f"{page.title} {text}".lower()
        return sum(text.count(c) for c in self._contexts)


class _CompanyState(msgspec.Struct, array_like=True):
    version: int = 0
    # Irrelevant, relevant.
    pages: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    # Term -> on how many of both it is near the ambiguous word.
    counts: dict[int, list[int]] = {}


class WordCompany(BaseLearner):
    """Learns which words stand near an ambiguous word on relevant pages, and which on others (S4-F1).

    A word belongs to a side if it is at least `MIN_RATIO` times as frequent there, on `MIN_TERM_PAGES` pages or more.
    Pages that are rejected because of learned words teach nothing: an error must not confirm itself.
    """

    def __init__(self) -> None:
        self._state = _CompanyState()
        self._weights: tuple[int, dict[int, float], dict[int, float]] = (0, {}, {})

    @property
    def version(self) -> int:
        """Grows after every `PAGES_PER_VERSION` pages."""
        return self._state.version

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The words near the ambiguous word on new pages, with what the judge thinks of the page."""
        samples = [
            (found.verdict.relevant, found.sample_terms)
            for outcome in outcomes
            if not outcome.duplicate_of and (found := outcome.analysis) is not None and found.sample_terms
            if found.verdict is not None and not any(reason.name == LEARNT for reason in found.verdict.reasons)
        ]
        return msgspec.msgpack.encode(samples) if samples else b""

    def apply_lesson(self, lesson: bytes) -> None:
        """Count the words."""
        state = self._state
        for relevant, sample in msgspec.msgpack.decode(lesson, type=list[tuple[bool, bytes]]) if lesson else ():
            state.pages[relevant] += 1
            for term in np.frombuffer(sample, dtype=np.uint32).tolist():
                state.counts.setdefault(term, [0, 0])[relevant] += 1
            if sum(state.pages) % PAGES_PER_VERSION == 0:
                state.version += 1
                if len(state.counts) > MAX_COMPANY_TERMS:
                    state.counts = {term: counts for term, counts in state.counts.items() if sum(counts) > 1}

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def worker_state(self) -> bytes:
        """Workers need all of it."""
        return self.snapshot()

    def restore(self, state: bytes) -> None:
        self._state = msgspec.msgpack.decode(state, type=_CompanyState)

    def weights(self) -> tuple[dict[int, float], dict[int, float]]:
        """The words of the topic's sense and of other senses, with weights up to 1; both empty at first."""
        if self._weights[0] != self.version:
            self._weights = self.version, *self._compute_weights()
        return self._weights[1:]

    def _compute_weights(self) -> tuple[dict[int, float], dict[int, float]]:
        theirs, ours = self._state.pages
        sides: tuple[dict[int, float], dict[int, float]] = {}, {}
        if min(theirs, ours) < MIN_TERM_PAGES:
            return sides
        for term, (other, own) in self._state.counts.items():
            share, other_share = (own + 0.5) / (ours + 1.0), (other + 0.5) / (theirs + 1.0)
            larger, smaller = max(share, other_share), min(share, other_share)
            if max(own, other) >= MIN_TERM_PAGES and larger >= MIN_RATIO * smaller:
                sides[share < other_share][term] = 1.0 - smaller / larger
        return sides


class SenseJudge:
    """Rejects pages on which words of other senses outweigh the topic's near the ambiguous words.

    `ambiguous` are the words with several senses (usually the topic's name); they do not count. The words of other
    senses are those of `contexts`, and those that `company` learns during the crawl.
    """

    def __init__(
        self,
        judge: Judge,
        topic: EvolvingTopic,
        contexts: tuple[str, ...],
        words: PageTerms,
        ambiguous: str = "",
        margin: float = 1.0,
    ) -> None:
        self._judge = judge
        self._topic = topic
        self._contexts = {t: 1.0 for c in contexts for t in words.terms(c)}
        self._ambiguous = frozenset(words.terms(ambiguous))
        self._words = words
        self._margin = margin
        self.company = WordCompany()

    def learners(self) -> Mapping[str, Learns]:
        """See `HasLearners`."""
        return {SENSES_STATE: self.company}

    def sample(self, reading: Reading) -> NDArray[np.int64]:
        """The words near the ambiguous ones, each once; none on a page without an ambiguous word."""
        near = nearby_terms(reading.terms, self._ambiguous) - self._ambiguous
        return np.array(sorted(near) if self._ambiguous.intersection(reading.terms) else [], dtype=np.int64)

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self._judge.judge(reading)
        table = self._topic.compiled.vector
        given = SenseWeights(
            topic=table,
            others={t: w for t, w in self._contexts.items() if t not in table},
            ambiguous=self._ambiguous,
            margin=self._margin,
        )
        ours, theirs = given.weigh(reading.terms, self._words.idf)
        learnt_ours, learnt_theirs = self.company.weights()
        if given.rejects(ours, theirs) or not learnt_theirs:
            return self._verdict(verdict, given, ours, theirs)
        both = msgspec.structs.replace(
            given,
            topic=learnt_ours | table,
            others={t: w for t, w in learnt_theirs.items() if t not in table} | given.others,
        )
        return self._verdict(verdict, both, *both.weigh(reading.terms, self._words.idf), Reason(LEARNT, 1.0, 0.0))

    def _verdict(self, verdict: Verdict, weights: SenseWeights, ours: float, theirs: float, *learnt: Reason) -> Verdict:
        evidence = Reason("topic company", ours, 0.0), Reason("other company", theirs, 0.0)
        if weights.rejects(ours, theirs):
            return _rejected(verdict, Reason(OTHER_SENSE, theirs - ours), *evidence, *learnt)
        return msgspec.structs.replace(verdict, reasons=verdict.reasons + evidence)


def _rejected(verdict: Verdict, *reasons: Reason) -> Verdict:
    return Verdict(score=0.0, relevant=False, reasons=(*reasons, *verdict.reasons))


def any_sense(judge: Judge, _: BuildContext) -> Judge:
    """The judge as it is."""
    return judge


def context_judge(
    judge: Judge,
    context: BuildContext,
    *,
    minimum: Positive = 1,
    ratio: Amount = 0.0,
    where: Literal["page", "title"] = "page",
    whole_word: bool = True,
) -> Judge:
    rule = ContextRule(minimum=minimum, ratio=ratio, where=where, whole_word=whole_word)
    return ContextJudge(judge, context.evolving_topic, context.topic.contexts, context.page_words, rule)


def company_judge(judge: Judge, context: BuildContext, *, margin: Amount = 1.0) -> Judge:
    topic = context.topic
    return SenseJudge(judge, context.evolving_topic, topic.contexts, context.page_words, topic.name, margin)
