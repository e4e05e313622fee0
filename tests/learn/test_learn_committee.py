"""The committee learns, is saved, restored from a journal, and is bounded for any input."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from checks.link_visits import features, found, taught, url_of, visit
from opilio.learn.committee import Committee, FoundLinks
from opilio.learn.logistic import FEATURE_NAMES, PRIOR_WEIGHTS
from opilio.learn.scoring import CommitteeOptions, LinkLesson, SourcePage
from opilio.learn.word_model import (
    ANCHOR_TEXT,
    LINK_FEATURES_DTYPE,
    URL_TEXT,
    WORD_BUCKETS,
    WORD_SLOTS,
    WordValues,
    hash_first_terms,
)

SMALL = CommitteeOptions(capacity=400)


def fresh() -> Committee:
    return Committee(SMALL)


def sane(committee: Committee) -> bool:
    scores = committee.scores(committee.pool.used_rows)
    weights: list[NDArray[Any]] = [committee.dense.weights, committee.words.weights]
    return bool(np.isfinite(scores).all() and all(np.isfinite(w).all() and np.abs(w).max() <= 12.0 for w in weights))


def test_committee_prefers_what_paid_when_words_tell() -> None:
    committee = taught(fresh(), 120)
    even, odd = (found(committee, 5, [number])[0] for number in (10_002, 10_003))
    assert even > odd


def test_feature_that_is_left_out_weighs_nothing_and_is_not_learnt() -> None:
    kept, without = taught(Committee(), 60), taught(Committee(CommitteeOptions(without=("host", "S3"))), 60)
    for committee, silent in ((kept, False), (without, True)):
        rows = committee.dense_features(committee.pool.used_rows)[
            :, [FEATURE_NAMES.index("host"), FEATURE_NAMES.index("S3")]
        ]
        assert bool((rows == 0.0).all()) is silent
    begun = Committee().dense.weights
    assert without.dense.weights[FEATURE_NAMES.index("host")] == begun[FEATURE_NAMES.index("host")]
    assert kept.dense.weights[FEATURE_NAMES.index("host")] != begun[FEATURE_NAMES.index("host")]


def test_two_committees_agree_when_they_saw_the_same() -> None:
    assert taught(fresh(), 60).snapshot() == taught(fresh(), 60).snapshot()


def test_committee_is_the_same_after_a_snapshot() -> None:
    committee, again = taught(fresh(), 80), fresh()
    again.restore(committee.snapshot())
    assert again.snapshot() == committee.snapshot()
    assert (again.dense.weights == committee.dense.weights).all()
    assert (again.words.weights == committee.words.weights).all()
    assert found(again, 7, [9001, 9002]) == found(committee, 7, [9001, 9002])


def test_links_of_many_pages_are_met_as_page_by_page() -> None:
    """Also one that stands on many pages, twice on one of them, and one that was fetched already."""
    links = [[1, 2, 3, 2], [2, 3, 4], [5], [], *([2, 10 + page] for page in range(8)), [1, 2, 9]]
    together, apart = taught(fresh(), 5), taught(fresh(), 5)
    pages = []
    for number, keys in enumerate(links):
        page = SourcePage(100 + number, number % 3 == 0, number % 4)
        rows = features(keys, np.random.default_rng(number)) if keys else features([1], np.random.default_rng(0))[:0]
        pages.append(FoundLinks(page, [f"h{key}.example" for key in keys], np.array(keys, dtype=np.int64), rows))
    scores = together.add_pages(pages)
    assert [len(result) for result in scores] == [len(keys) for keys in links]
    for found_page in pages:
        apart.add_pages([found_page])
    assert together.pool.row_of == apart.pool.row_of
    for name, column in together.pool.rows.items():
        assert column.tolist() == apart.pool.rows[name].tolist(), name


def test_words_of_pages_speak_for_links_that_no_link_has_taught() -> None:
    committee = fresh()
    telling, other = 77, 88
    rows = features([2, 4], np.random.default_rng(1))
    rows["words"], rows["dense"][1], rows["path"] = 0, rows["dense"][0], 1
    for row, term in enumerate((telling, other)):
        rows["words"][row, WORD_SLOTS[URL_TEXT]] = hash_first_terms(ANCHOR_TEXT, [term], 1)[0]
    page, hosts = SourcePage(9, True, 0), ["h.example"] * 2
    first, second = committee.add_links(page, hosts, [2, 4], rows)
    assert first == second
    committee.update_word_values(np.array([telling, other]), np.array([3.0, -3.0]))
    first, second = committee.scores(np.array([committee.pool.row_of[key] for key in (2, 4)]))
    assert first > second
    third, fourth = committee.add_links(SourcePage(10, True, 0), hosts, [12, 14], rows)  # and for those found later
    assert third > fourth
    committee.update_word_values(np.zeros(0, dtype=np.int64), np.zeros(0))
    first, second = committee.scores(np.array([committee.pool.row_of[key] for key in (2, 4)]))
    assert first == second


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(-1e6, 1e6)), max_size=30))
@settings(max_examples=30, deadline=None)
def test_values_of_words_are_bounded_and_no_word_is_worth_nothing(heard: list[tuple[int, float]]) -> None:
    values = WordValues()
    values.update(np.array([t for t, _ in heard], dtype=np.int64), np.array([v for _, v in heard]))
    words = np.array([hash_first_terms(ANCHOR_TEXT, [t for t, _ in heard], 30), [0] * 30], dtype=np.uint32)
    of_words, of_nothing = values.row_values(words)
    assert np.abs(of_words) <= 1.5
    assert of_nothing == 0.0


@given(st.integers(0, 39))
@settings(max_examples=10, deadline=None)
def test_journal_behind_a_snapshot_brings_back_the_model_wherever_it_was_cut(cut: int) -> None:
    committee, state = fresh(), b""
    journal: list[bytes] = []
    for step in range(40):
        if step == cut:
            state, journal = committee.snapshot(), []
        found(committee, 1000 + step, [5 * step + i + 1 for i in range(5)])
        if step % 7 == 3:  # a learner that replays the journal never saw it: a row brings its values along
            committee.update_word_values(np.arange(1, WORD_BUCKETS // 9), np.full(WORD_BUCKETS // 9 - 1, 0.1 * step))
        key = int(committee.pool.rows["key"][committee.pool.used_rows[0]])
        lesson = committee.make_lesson(visit(key))
        journal.append(msgspec.msgpack.encode(lesson))
        committee.apply_lessons(lesson)
        if step % 9 == 8:
            corrected = msgspec.structs.replace(lesson, visit=visit(key, 1.0 - lesson.visit.reward), old_reward=0.5)
            journal.append(msgspec.msgpack.encode(corrected))
            committee.apply_lessons(corrected)
    again = fresh()
    again.restore(state)
    for data in journal:
        again.apply_lessons(msgspec.msgpack.decode(data, type=LinkLesson))
    assert again.snapshot() == committee.snapshot()


def test_snapshot_of_other_features_is_taken_by_name() -> None:
    committee = taught(fresh(), 30)
    state = msgspec.msgpack.decode(committee.snapshot())
    state[0] = ["forgotten" if name == "url" else name for name in state[0]]
    again = fresh()
    again.restore(msgspec.msgpack.encode(state))
    at = FEATURE_NAMES.index("url")
    assert again.dense.weights[at] == PRIOR_WEIGHTS["url"]
    assert np.delete(again.dense.weights == committee.dense.weights, at).all()


def test_row_of_another_version_is_passed_over_in_a_journal() -> None:
    committee = fresh()
    committee.apply_lessons(LinkLesson(visit(4), b"too short", 0.5))
    assert committee.visits_learned == 1
    assert len(committee.pool) == 0


def test_essence_carries_weights_and_nothing_of_places() -> None:
    committee, other = taught(fresh(), 60), fresh()
    other.restore(committee.transferable_state())
    assert (other.words.weights == committee.words.weights).all()
    assert (other.dense.weights == committee.dense.weights).all()
    assert other.visits_learned == 0
    assert 1 not in other._fetched
    assert len(committee.transferable_state()) < len(committee.snapshot())


def test_correction_moves_scores_towards_the_label() -> None:
    committee = taught(fresh(), 60)
    found(committee, 77, [501])
    lesson = committee.make_lesson(visit(501))
    committee.apply_lessons(lesson)
    before = found(committee, 77, [503])[0]
    committee.apply_lessons(msgspec.structs.replace(lesson, visit=visit(501, 1.0), old_reward=0.0))
    assert found(committee, 77, [503])[0] > before
    committee.apply_lessons(msgspec.structs.replace(lesson, visit=visit(501, 0.0), old_reward=1.0))
    assert sane(committee)


def test_recalled_row_is_the_discovered_one() -> None:
    committee, other = taught(fresh(), 30), taught(fresh(), 30)
    rows = features([801], np.random.default_rng(3))
    page = SourcePage(9, True, 2)
    committee.add_links(page, [url_of(801).split("/")[2]], [801], rows)
    other.load_link(801, url_of(801).split("/")[2], rows.tobytes(), [page])
    assert committee.pool.row_bytes(801) == other.pool.row_bytes(801)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_committee_stays_sane_when_all_pages_are_alike(reward: float) -> None:
    committee = fresh()
    for step in range(200):
        found(committee, step, [5 * step + i + 1 for i in range(5)])
        committee.apply_lessons(committee.make_lesson(visit(5 * step + 1, reward)))
    assert sane(committee)
    assert 0.0 <= committee.base_rate <= 1.0


def test_committee_stays_sane_when_labels_contradict() -> None:
    committee = fresh()
    rows = features([1] * 400, np.random.default_rng(0))
    rows[:] = rows[0]
    committee.add_links(SourcePage(1, True, 0), ["h1.example"] * 400, list(range(1, 401)), rows)
    for number in range(1, 401):
        committee.apply_lessons(committee.make_lesson(visit(number, float(number % 2))))
    assert sane(committee)


def test_unseen_features_score_between_nothing_and_one() -> None:
    committee = taught(fresh(), 100)
    scores = np.array(found(committee, 3, list(range(20_000, 20_050)), seed=99))
    assert ((scores >= 0.0) & (scores <= 1.0)).all()


@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1), st.booleans(), st.integers(0, 8)), max_size=60))
@settings(max_examples=25, deadline=None)
def test_any_sequence_of_visits_leaves_it_sane_and_bounded(
    steps: list[tuple[int, float, bool, int]],
) -> None:
    committee = Committee(CommitteeOptions(capacity=32))
    for number, reward, page, parent in steps:
        found(committee, parent, [number, number + 1, number + 100])
        committee.apply_lessons(committee.make_lesson(visit(number, reward, page)))
        assert len(committee.pool) <= 32
        for _, _, score in committee.rescored():
            assert 0.0 <= score <= 1.0
    assert sane(committee)


def test_packed_nonsense_does_not_harm() -> None:
    """float16 can hold infinity, and a stored blob may be damaged."""
    committee = fresh()
    rows = np.zeros(2, dtype=LINK_FEATURES_DTYPE)
    rows["dense"][0] = np.float16("inf")
    rows["dense"][1] = np.float16("nan")
    scores = committee.add_links(SourcePage(1, True, 0), ["a", "b"], [1, 2], rows)
    for key in (1, 2):
        committee.apply_lessons(committee.make_lesson(visit(key, 1.0)))
    assert np.isfinite(scores).all()
    assert sane(committee)


def test_snapshot_stays_bounded_when_the_crawl_goes_on() -> None:
    """Everything is a table of fixed size: twelve bytes a bucket, two million for marks, and recent visits."""
    committee = taught(Committee(CommitteeOptions(capacity=100)), 400)
    assert len(committee.snapshot()) < 2_000_000
    assert len(committee.pool) <= 100
