"""What every `Fetcher`, `DuplicateDetector` and `SeedSource` does: suites to subclass in tests.

A fetcher serves SITE, and its tests give a way to run a coroutine with the fetcher and the site's root. A detector
gives the fixtures `exact` and `near`: fresh, empty sets. A seed source that knows KNOWN on any query is given by a way
to ask it. `MemoryFetcher` serves pages from memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from opilio.core.protocols import DuplicateDetector, Fetcher
from opilio.core.records import EngineAnswer, FetchResult
from opilio.core.urls import canonicalize_url

T = TypeVar("T")
Job = Callable[[Fetcher, str], Awaitable[T]]  # (fetcher, root of the site without a final slash)
Run = Callable[[Job[T]], T]

_HTML = ("Content-Type", "text/html")
SITE = {
    "/": FetchResult(url="/", status=200, headers=(_HTML, ("ETag", '"a1"')), body=b"<p>wren</p>"),
    "/robin": FetchResult(url="/robin", status=200, headers=(_HTML,), body=b"<p>robin</p>"),
    "/moved": FetchResult(url="/moved", status=301, headers=(_HTML, ("Location", "/robin"))),
    "/empty": FetchResult(url="/empty", status=200, headers=(_HTML,)),
}


class FetcherChecks:
    """Subclass it with a fixture `run`."""

    def test_answer_carries_url_status_headers_and_body(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/"))
        assert found.url.endswith("/")
        assert (found.status, found.body, found.failure) == (200, b"<p>wren</p>", None)
        assert found.header("content-type") == "text/html"

    def test_unknown_page_is_an_answer_when_missing(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/nowhere"))
        assert (found.status, found.failure) == (404, None)

    def test_redirect_is_returned_not_followed(self, run: Run[tuple[FetchResult, str]]) -> None:
        async def job(fetcher: Fetcher, root: str) -> tuple[FetchResult, str]:
            return await fetcher.fetch(f"{root}/moved"), root

        found, root = run(job)
        assert (found.status, found.location) == (301, f"{root}/robin")

    def test_body_is_empty_when_the_page_is(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/empty"))
        assert (found.status, found.body, found.failure) == (200, b"", None)

    def test_answer_is_304_when_the_validator_holds(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/", {"If-None-Match": '"a1"'}))
        assert (found.status, found.body, found.failure) == (304, b"", None)

    def test_answer_is_whole_when_the_validator_is_old(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/", {"If-None-Match": '"a0"'}))
        assert (found.status, found.body) == (200, b"<p>wren</p>")

    def test_answers_do_not_mix_when_asked_at_once(self, run: Run[list[FetchResult]]) -> None:
        async def job(fetcher: Fetcher, root: str) -> list[FetchResult]:
            return await asyncio.gather(*(fetcher.fetch(root + path) for path in ("/", "/robin") * 8))

        assert [f.body for f in run(job)] == [b"<p>wren</p>", b"<p>robin</p>"] * 8

    def test_close_is_harmless_when_repeated(self, run: Run[None]) -> None:
        async def job(fetcher: Fetcher, root: str) -> None:
            await fetcher.fetch(f"{root}/")
            await fetcher.close()
            await fetcher.close()

        run(job)


class MemoryFetcher:
    """Serves a mapping of canonical URLs; 404 for other URLs, 304 if a validator matches."""

    def __init__(self, pages: Mapping[str, FetchResult]) -> None:
        self._pages = pages

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        page = self._pages.get(url)
        if page is None:
            return FetchResult(url=url, status=404)
        if _is_unmodified(page, validators or {}):
            return replace(page, url=url, status=304, body=b"")
        return replace(page, url=url)

    async def close(self) -> None:
        """Nothing to close."""


def _is_unmodified(page: FetchResult, validators: Mapping[str, str]) -> bool:
    given = {name.lower(): value for name, value in validators.items()}
    tag = given.get("if-none-match") or given.get("etag")
    # RFC 9110, 13.1.3: the date counts only without a tag.
    if tag:
        return tag == page.header("etag")
    date = given.get("if-modified-since") or given.get("last-modified")
    return bool(date) and date == page.header("last-modified")


BIG = (1 << 63) - 1


class ContentSeenChecks:
    def test_new_text_has_no_original(self, exact: DuplicateDetector) -> None:
        assert exact.find_original(1, 100, 0) is None

    def test_same_fingerprint_names_first_page_s0_08(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0)
        assert exact.find_original(2, 100, 0) == (1, False)
        assert exact.find_original(3, 100, 0) == (1, False)

    def test_page_fetched_again_is_no_duplicate_of_itself(self, near: DuplicateDetector) -> None:
        assert near.find_original(1, 100, 7) is None
        assert near.find_original(1, 100, 7) is None
        assert near.find_original(1, 101, 6) is None

    def test_too_little_text_is_never_a_duplicate(self, near: DuplicateDetector) -> None:
        assert near.find_original(1, 0, 0) is None
        assert near.find_original(2, 0, 0) is None

    def test_near_text_is_not_looked_for_when_off(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0b1111)
        assert exact.find_original(2, 101, 0b1110) is None

    def test_near_text_is_found_up_to_three_bits_s0_e6(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0)
        near.find_original(2, 101, -1)
        flipped = BIG ^ (1 << 20) ^ 1  # one bit in three of the four bands, the sign among them
        assert near.find_original(3, 102, flipped) == (2, True)
        assert near.find_original(4, 103, BIG ^ (1 << 40) ^ (1 << 20) ^ 1) is None

    def test_nearest_of_several_is_named(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0xFF00FF00FF)
        near.find_original(2, 101, 0xFF00FF00FF ^ 0b1111)
        assert near.find_original(3, 102, 0xFF00FF00FF ^ 0b1110) == (2, True)

    def test_exact_match_goes_before_near_match(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, BIG)
        near.find_original(2, 200, 12345)
        assert near.find_original(3, 200, BIG) == (2, False)

    def test_changed_page_is_found_by_its_new_text_only(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0x1111_2222_3333_4444)
        near.find_original(1, 101, 0x5555_6666_7777_0008)
        assert near.find_original(2, 102, 0x5555_6666_7777_0009) == (1, True)
        assert near.find_original(3, 103, 0x1111_2222_3333_4445) is None

    def test_extreme_values_are_kept(self, exact: DuplicateDetector) -> None:
        exact.find_original(-BIG - 1, -BIG - 1, 1)
        assert exact.find_original(BIG, -BIG - 1, 1) == (-BIG - 1, False)
        assert exact.find_original(BIG, BIG, 1) is None

    def test_text_of_a_page_that_changed_or_went_belongs_to_whoever_has_it_next(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0)
        exact.find_original(1, 101, 0)
        exact.forget(1, 100)
        assert exact.find_original(2, 100, 0) is None
        exact.forget(1, 100)
        assert exact.find_original(3, 100, 0) == (2, False)
        assert exact.find_original(3, 101, 0) == (1, False)

    def test_signature_of_a_page_that_went_is_forgotten_that_of_a_changed_one_is_not(
        self, near: DuplicateDetector
    ) -> None:
        near.find_original(1, 100, BIG)
        near.forget(1, 99)
        assert near.find_original(2, 101, BIG) == (1, True)
        near.forget(1, 100, gone=True)
        assert near.find_original(2, 101, BIG) is None


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
