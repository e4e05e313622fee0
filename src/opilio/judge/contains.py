"""Relevant = contains the query (S3-30). It counts every sense of a word (S3-E7): a measure to print beside others."""

from typing import Literal

from opilio.judge.pagewords import PageWords
from opilio.model.errors import TopicError
from opilio.model.records import Reading, Reason, Verdict


class ContainsJudge:
    """Score = share of the query's words that the page has; relevant with all of them, or any."""

    def __init__(self, query: str, words: PageWords, need: Literal["all", "any"] = "all") -> None:
        self.query = query
        self.words = words
        self.need = need
        self._terms = tuple(dict.fromkeys(words.terms(query)))
        if not self._terms:
            raise TopicError(f'the query "{query}" has no words to look for; give it at least one that is no stop word')

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        said = set(self.words.counts(reading)[0].tolist())
        hits = len(said.intersection(self._terms))
        score = hits / len(self._terms)
        relevant = score == 1.0 if self.need == "all" else score > 0.0
        reasons = Reason("query words", score), Reason("query words found", float(hits), 0.0)
        return Verdict(score=score, relevant=relevant, reasons=reasons)
