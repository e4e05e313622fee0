"""Tables from a sentence, keywords, examples, a query log."""

import math
from functools import partial

import msgspec
import pytest

from opilio.core.errors import TopicError
from opilio.text.term_arrays import TermEncoder
from opilio.text.vocabulary import Vocabulary
from opilio.topic.topic import SourceWeights, Topic, build_topic_table, count_stems, make_stemmer, make_topic
from opilio.topic.weights import QueryLogSmoothing, QueryLogWeights, stem_query

COMMON = {"speci": 1.0, "place": 0.5, "lake": 2.0}
PAGE = "The heron is a wading bird. Herons nest near lakes. A heron eats fish in shallow water."


def rarity(stem: str) -> float:
    return COMMON.get(stem, 5.0)


def weights(topic: Topic, **mixture: object) -> dict[str, float]:
    table = build_topic_table(topic, Vocabulary(), rarity, SourceWeights(**mixture))  # type: ignore[arg-type]
    return {k.label: k.weight for k in table.keywords}


def test_sentence_gives_its_words_by_rarity_without_stop_words() -> None:
    assert weights(make_topic("Herons of the lakes")) == {"herons": 1.0, "lakes": 0.4}


def test_keywords_outweigh_the_sentence_and_keep_their_order() -> None:
    found = weights(make_topic("Waterside places", {"heron": 1.0, "reed": 0.6}))
    assert list(found)[:2] == ["heron", "reed"]
    assert found["reed"] == pytest.approx(0.6)


def test_examples_add_words_and_confirm_keywords() -> None:
    found = weights(make_topic("Birds", ["heron", "stork"], positive=(PAGE, PAGE)))
    assert found["heron"] == 1.0 and 0.4 < found["stork"] < 1.0
    assert {"wading", "fish", "water"} <= found.keys()


def test_examples_may_be_counts() -> None:
    counts = dict(count_stems(TermEncoder(Vocabulary()), PAGE))
    by_text, by_counts = (
        build_topic_table(make_topic("Birds", positive=(e,)), Vocabulary(), rarity) for e in (PAGE, counts)
    )
    assert by_counts.weights == by_text.weights


def test_words_of_negative_examples_lose_weight() -> None:
    with_it = weights(make_topic("Birds", positive=(PAGE,)))
    without = weights(make_topic("Birds", positive=(PAGE,), negative=("Fish, fish and water.",)))
    assert without.get("fish", 0.0) < with_it["fish"]


def test_table_is_no_larger_than_asked_x_10() -> None:
    page = " ".join(f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200))
    assert len(weights(make_topic("Birds", positive=(page,)))) == 50
    assert len(weights(make_topic("Birds", positive=(page,)), size=7)) == 7


def test_name_changes_a_given_table_only_by_its_weight() -> None:
    given = make_topic("Birds of the lake", {"heron": 1.0, "egret": 0.5})
    table = partial(build_topic_table, vocabulary=Vocabulary())
    assert table(given, source_weights=SourceWeights(sentence=0.0)).weights == {"heron": 1.0, "egret": 0.5}
    assert "bird" in table(given).weights
    assert "bird" in table(make_topic("Birds of the lake"), source_weights=SourceWeights(sentence=0.0)).weights


def test_table_is_a_pure_function_of_the_topic() -> None:
    topic = make_topic("Birds of the lake", ["heron"], positive=(PAGE,), negative=("law",))
    assert weights(topic) == weights(topic)


@pytest.mark.parametrize("sentence", ["", "the of and", "... !"])
def test_topic_without_words_is_refused_in_one_line(sentence: str) -> None:
    with pytest.raises(TopicError, match="no usable words") as caught:
        weights(make_topic(sentence))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_impossible_keyword_weight_is_refused(weight: float) -> None:
    with pytest.raises(TopicError, match="must be above 0"):
        make_topic("Birds", {"wren": weight})


def test_topic_record_survives_the_wire_and_refuses_unknown_fields() -> None:
    topic = make_topic("Birds", ["wren"], contexts=("cricket",), genres=("news",), positive=(PAGE, {"wren": 2}))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(topic), type=Topic) == topic
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "Birds", "color": "red"}, Topic)


def test_query_log_gives_a_table_through_the_vocabulary_s4_11() -> None:
    queries = ["Kejriwal new manifesto for lok sabha polls 2014.", "Manifesto of BJP for lok sabha polls 2014."]
    queries.append("lok sabha polls 2014 dates")
    asked = [stem_query(query, make_stemmer(Vocabulary()), ("lok sabha",)) for query in queries]
    log = QueryLogSmoothing(threshold=1.0)
    table = log.table(log.update(QueryLogWeights(), asked))
    assert table.weights.keys() == {"lok sabha", "poll", "manifesto", "2014"}
