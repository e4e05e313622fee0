"""Judges that reject pages about another sense of the topic's words."""

import msgspec

from opilio.core.errors import TopicError
from opilio.core.page import Reading
from opilio.core.protocols import Judge
from opilio.core.records import Reason, Verdict
from opilio.text.phrases import PhraseMatcher
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.senses import OTHER_SENSE, ContextRule, SenseWeights


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
            return title + reading.terms
        return title + [t for start, end in reading.anchors for t in reading.terms[start:end]]

    def _context_hits(self, reading: Reading) -> int:
        page = reading.page
        text = page.text if self._rule.where == "page" else " ".join(link.anchor for link in page.links)
        text = f"{page.title} {text}".lower()
        return sum(text.count(c) for c in self._contexts)


class SenseJudge:
    """Rejects pages on which words of other senses outweigh the topic's near the ambiguous words.

    `ambiguous` are the words with several senses (usually the topic's name); they do not count.
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
        self._others = {t: 1.0 for c in contexts for t in words.terms(c)}
        self._ambiguous = frozenset(words.terms(ambiguous))
        self._words = words
        self._margin = margin
        if not self._others:
            raise TopicError("topic.contexts: is empty; give words of the other senses")

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self._judge.judge(reading)
        topic = self._topic.compiled.vector
        others = {t: w for t, w in self._others.items() if t not in topic}
        scale = SenseWeights(topic=topic, others=others, ambiguous=self._ambiguous, margin=self._margin)
        ours, theirs = scale.weigh(reading.terms, self._words.idf)
        evidence = Reason("topic company", ours, 0.0), Reason("other company", theirs, 0.0)
        if scale.rejects(ours, theirs):
            return _rejected(verdict, Reason(OTHER_SENSE, theirs - ours), *evidence)
        return msgspec.structs.replace(verdict, reasons=verdict.reasons + evidence)


def _rejected(verdict: Verdict, *reasons: Reason) -> Verdict:
    return Verdict(score=0.0, relevant=False, reasons=(*reasons, *verdict.reasons))
