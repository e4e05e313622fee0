"""The behaviour of every `SeedSource`.

An implementation that knows KNOWN on any query is given to the checks by a way to ask it.
"""

from collections.abc import Callable, Sequence

from opilio.core.records import EngineAnswer
from opilio.core.urls import canonicalize_url

KNOWN = [f"http://h{n}.example/wren-{n}.html" for n in range(6)]
Ask = Callable[..., Sequence[EngineAnswer]]  # (query, limit, genre) -> answers


class SourceChecks:
    """Subclass it with a fixture `ask`."""

    def test_answers_name_their_voter_and_have_no_failure(self, ask: Ask) -> None:
        answers = ask("wren", 6)
        assert answers
        assert all(answer.voter and answer.failure is None and answer.has_answered for answer in answers)

    def test_all_that_is_known_is_found_when_the_limit_allows(self, ask: Ask) -> None:
        found = {hit.url for answer in ask("wren", 6) for hit in answer.hits}
        assert {canonicalize_url(url) for url in found} == set(KNOWN)

    def test_limit_is_kept(self, ask: Ask) -> None:
        # URLs that the user wrote are returned completely.
        answers = [answer for answer in ask("wren", 2) if answer.fixed_priority != 1]
        assert all(len(answer.hits) <= 2 for answer in answers)

    def test_ranks_rise_from_one(self, ask: Ask) -> None:
        for answer in ask("wren", 6):
            ranks = [hit.rank for hit in answer.hits]
            assert ranks == sorted(ranks)
            assert ranks[:1] in ([], [1])

    def test_same_question_has_the_same_answer(self, ask: Ask) -> None:
        assert list(ask("wren", 4)) == list(ask("wren", 4))

    def test_genre_is_taken(self, ask: Ask) -> None:
        assert all(isinstance(answer, EngineAnswer) for answer in ask("wren", 2, "news"))
