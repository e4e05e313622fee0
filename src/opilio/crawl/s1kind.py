"""The ranker kind `attributes` (S1): its options, and the file with trained learners that it may begin from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from opilio.judge.pagewords import PageWords
from opilio.learn.learner import RowLearner, require_library
from opilio.learn.learners import make_learner
from opilio.learn.modelfile import learner_from, read_models
from opilio.learn.teacher import Teacher
from opilio.model.errors import ConfigError
from opilio.rank.committee import Member
from opilio.rank.evidence import TOP
from opilio.rank.linkrows import LinkRows, Words
from opilio.rank.s1 import S1Ranker
from opilio.text.urlwords import UrlTerms
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable, table_of

MODEL = "model.json"  # where `opilio train` leaves its learners in a collection


class S1Tools(Protocol):
    """What the ranker is made from."""

    @property
    def living(self) -> LivingTopic: ...

    @property
    def words(self) -> PageWords: ...

    @property
    def url_terms(self) -> UrlTerms: ...


def attributes_ranker(
    tools: S1Tools,
    *,
    learner: Literal["bayes", "tree", "neural"] = "bayes",
    table: int = TOP,
    every: int = 50,
    model: str = "",
    tunnel_depth: int = -1,
) -> S1Ranker:
    """S1's ranker, before anything was learnt; `begin_with_model` reads the file that `model` names."""
    del model
    require_library()
    teacher = Teacher(make_learner(learner), every)
    words = Words(tools.url_terms.of_all, tools.words.weighed_by("tfidf").weigh, tools.words.idf)
    return S1Ranker(LinkRows(tools.living, words, table), teacher, tunnel_depth)


def begin_with_model(ranker: S1Ranker, options: Mapping[str, Any]) -> None:
    """Let a new crawl begin with what `opilio train` found, where a file is named."""
    trained = trained_learner(options)
    if trained is not None:
        ranker.teacher.learner, ranker.links.given = trained


def trained_learner(options: Mapping[str, Any]) -> tuple[RowLearner, WeightTable] | None:
    """The learner in the file or collection that `model` names; ConfigError where it can't be used."""
    require_library()
    name = str(options.get("model", ""))
    return learner_in(name, str(options["learner"]), "rank.model") if name else None


def trained_member(tools: S1Tools, model: str) -> Member:
    """What the first learner of a file or collection says of links, for the committee."""
    ranker = attributes_ranker(tools)
    ranker.teacher.learner, ranker.links.given = learner_in(model)
    return ranker.probable


def learner_in(name: str, learner: str = "", option: str = "rank.trained") -> tuple[RowLearner, WeightTable]:
    """A learner of a file or collection, the first where none is named, and the table its rows were counted with.

    The table is empty where rows were given. ConfigError where the file can't be used.
    """
    path = Path(name) / MODEL if Path(name).is_dir() else Path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} {path}: can't be read: {error.strerror}; 'opilio train' makes one") from error
    file = read_models(data, f"{option} {path}")
    return learner_from(file, learner, f"{option} {path}"), table_of(file.table)
