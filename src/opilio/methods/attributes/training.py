"""S1's learners before a crawl: the training set of a finished collection (S1-13, S1-16, S1-17), tests, model files.

Pages are read again from the WARC files. Relevant and irrelevant rows are the pages judged so; the irrelevant ones are
those that a crawl fetches on its way (S1-E1). Parents are those that the crawl knew when it fetched a page (S1-E6):
later ones would leak the future. Words are counted once; attributes are computed for a table as a crawl does.

A test has folds grouped by host and reports means with intervals, time and complexity (S1-30…S1-33, S1-E4). The rows of
a fold are computed from the pages it may know (S1-E7): a table built from the test pages would leak the labels. No
clock is read: `timer` is passed in.

A model file is JSON with plain numbers, so an untrusted file can't contain code. It includes the training rows: a crawl
that starts with a model continues its training set (S1-12). Reads and writes no file itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import ConfigError, ParseError, UsageError
from opilio.core.records import Reading
from opilio.learn.logistic import roc_auc
from opilio.methods.attributes.features import (
    ATTRIBUTES,
    TABLE_SIZE,
    Labels,
    Rows,
    TrainingRow,
    add_parent_evidence,
    attribute_rows,
    gather_evidence,
    pack_evidence,
    page_evidence,
    rows_to_arrays,
)
from opilio.methods.attributes.learner import AnyModel, Probabilities, RowLearner, make_learner, require_sklearn
from opilio.parse.html import HtmlParser
from opilio.rank.link_scores import refused_links
from opilio.store.collection import Collection, open_readonly
from opilio.store.pages import RecordedPage, first_pages
from opilio.store.warc import read_record
from opilio.text.reading import PageReader
from opilio.text.term_arrays import Terms
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.evolving import compile_table
from opilio.topic.page_terms import PageTerms
from opilio.topic.weights import NoiseFilter, WeightTable, table_from_weights

FOLDS = 10
PAPER_PRECISION = {"neural": 0.50125, "tree": 0.30388, "bayes": 0.23325}  # S1-31
# Rows of each class: one to learn from, one to be tested on.
MIN_CLASS_ROWS = 2
RowPositions = NDArray[np.int64]


class TrainingSet(Protocol):
    """A training set. `rows_for` returns all rows, computed only from the pages at `known` (S1-E7)."""

    @property
    def labels(self) -> Labels: ...

    @property
    def groups(self) -> Sequence[str]: ...

    def rows_for(self, known: RowPositions) -> Rows: ...


class FixedTrainingSet:
    """A training set whose attributes were computed elsewhere, such as a CSV file."""

    def __init__(self, rows: Sequence[TrainingRow]) -> None:
        self._rows, self.labels = rows_to_arrays(rows)
        self.groups = [row.group for row in rows]

    def rows_for(self, known: RowPositions) -> Rows:
        """The given rows."""
        del known
        return self._rows


class MeanInterval(msgspec.Struct, frozen=True):
    """Mean over the folds where it is defined, with its 95 % interval (Student's t).

    With one fold the variance is unknown, so the interval is the whole range of the figure.
    """

    mean: float
    low: float
    high: float
    folds: int


class LearnerResult(msgspec.Struct, frozen=True, kw_only=True):
    """One learner. Less time and fewer parameters are better (S1-E3)."""

    precision: MeanInterval
    recall: MeanInterval
    f1: MeanInterval
    auc: MeanInterval
    accuracy: MeanInterval
    fit_s: float  # one training, mean
    predict_us: float  # one link, mean
    parameters: int  # mean over folds, rounded


class LearnerComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The results with the conditions of the test."""

    rows: int
    relevant: int
    groups: int
    folds: int
    # False: there is one host only, so its pages are on both sides of a fold.
    by_host: bool
    results: dict[str, LearnerResult]

    @property
    def prior(self) -> float:
        """The share of relevant rows: the precision of guessing."""
        return self.relevant / self.rows


FoldScores = dict[str, float]


def compare_learners(
    material: TrainingSet, names: Iterable[str], timer: Callable[[], float], seed: int = 0
) -> LearnerComparison:
    """Test learners on the same folds."""
    require_sklearn()
    labels, groups = material.labels, material.groups
    fewest = int(min(labels.sum(), (~labels).sum()))
    if fewest < MIN_CLASS_ROWS:
        have = f"{int(labels.sum())} relevant, {int((~labels).sum())} irrelevant"
        raise UsageError(f"too few rows to learn from ({have}); at least {MIN_CLASS_ROWS} of each kind are needed")
    splits = list(_splits(labels, groups, fewest, seed))
    prepared = [(known, tested, material.rows_for(known)) for known, tested in splits]
    results = {name: _summarize([_evaluate_fold(name, labels, *fold, timer) for fold in prepared]) for name in names}
    hosts = len(set(groups))
    return LearnerComparison(
        rows=len(labels),
        relevant=int(labels.sum()),
        groups=hosts,
        folds=len(splits),
        by_host=hosts >= 2,
        results=results,
    )


def _splits(
    labels: Labels, groups: Sequence[str], fewest: int, seed: int
) -> Iterator[tuple[RowPositions, RowPositions]]:
    """Stratified folds; with two or more hosts, no host is on both sides."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    _, numbers = np.unique(np.array(groups), return_inverse=True)
    hosts = int(numbers.max()) + 1
    folds = max(2, min(FOLDS, fewest, hosts if hosts >= 2 else FOLDS))
    if hosts >= 2:
        yield from StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(labels, labels, numbers)
    else:
        yield from StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)


def _evaluate_fold(
    name: str, labels: Labels, known: RowPositions, tested: RowPositions, rows: Rows, timer: Callable[[], float]
) -> FoldScores:
    learner = make_learner(name)
    began = timer()
    learner.fit(rows[known], labels[known])
    fitted = timer()
    chances = learner.probability(rows[tested])
    ended = timer()
    times = {"fit_s": fitted - began, "predict_us": (ended - fitted) / max(1, len(tested)) * 1e6}
    return classification_scores(chances, labels[tested]) | times | {"parameters": float(learner.parameters)}


def classification_scores(chances: Probabilities, truth: Labels) -> FoldScores:
    """Precision, recall, F1, AUC and accuracy of one fold; NaN where one is not defined."""
    predicted = chances >= 0.5
    hits = float((predicted & truth).sum())
    precision, recall = _ratio(hits, predicted.sum()), _ratio(hits, truth.sum())
    f1 = _ratio(2.0 * hits, float(predicted.sum() + truth.sum()))
    accuracy = _ratio(float((predicted == truth).sum()), len(truth))
    return {"precision": precision, "recall": recall, "f1": f1, "auc": auc(chances, truth), "accuracy": accuracy}


def auc(chances: Probabilities, truth: Labels) -> float:
    """The probability that a relevant row is placed above an irrelevant one; ties count half."""
    found = roc_auc(chances[truth], chances[~truth])
    return float("nan") if found is None else found


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def _summarize(folds: list[FoldScores]) -> LearnerResult:
    column = {name: [fold[name] for fold in folds] for name in folds[0]}
    return LearnerResult(
        precision=mean_interval(column["precision"]),
        recall=mean_interval(column["recall"]),
        f1=mean_interval(column["f1"]),
        auc=mean_interval(column["auc"]),
        accuracy=mean_interval(column["accuracy"]),
        fit_s=float(np.mean(column["fit_s"])),
        predict_us=float(np.mean(column["predict_us"])),
        parameters=round(float(np.mean(column["parameters"]))),
    )


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """Mean and interval of the values that are numbers."""
    from scipy.stats import t

    known = np.array([value for value in values if not np.isnan(value)])
    if not len(known):
        return MeanInterval(0.0, 0.0, 0.0, 0)
    mean = float(known.mean())
    if len(known) == 1:
        return MeanInterval(mean, 0.0, 1.0, 1)
    half = float(t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
    return MeanInterval(mean, mean - half, mean + half, len(known))


# The first pages of a collection: a few kilobytes each.
MAX_TRAINING_PAGES = 20_000
TermWeightArray = NDArray[np.float64]
TermIdf = Callable[[Terms], TermWeightArray]


@dataclass(slots=True)
class TrainingPage:
    """A page with its words, and the evidence of its first parents from before it was fetched (by key)."""

    url: str
    host: str
    relevant: bool
    terms: Terms = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    # tf
    term_shares: TermWeightArray = field(default_factory=lambda: np.zeros(0))
    evidence: dict[int, bytes] = field(default_factory=dict)


class CollectionTrainingSet:
    """A training set whose table is built when it is known which pages may be used (S1-E7)."""

    def __init__(self, examples: Sequence[TrainingPage], vocabulary: Vocabulary) -> None:
        self._examples = examples
        self._vocabulary = vocabulary
        self.labels: Labels = np.array([one.relevant for one in self._examples], dtype=np.bool_)
        self.groups: Sequence[str] = [one.host for one in self._examples]
        sizes = [len(one.terms) for one in self._examples]
        self._page_of = np.repeat(np.arange(len(sizes)), sizes)
        every = np.concatenate([one.terms for one in self._examples]) if sizes else np.zeros(0, dtype=np.uint32)
        self._terms, self._number_of = np.unique(every, return_inverse=True)
        self._shares = np.concatenate([one.term_shares for one in self._examples]) if sizes else np.zeros(0)

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def parent_count(self) -> int:
        """The parents of all pages together."""
        return sum(len(one.evidence) for one in self._examples)

    def rows_for(self, known: RowPositions) -> Rows:
        """Every row, by the table of the pages that may be known."""
        return self._attribute_rows(self.table(known))

    def rows(self, table: WeightTable) -> list[TrainingRow]:
        """Every row, by a given table."""
        return [_training_row(*of) for of in zip(self._examples, self._attribute_rows(table).tolist(), strict=True)]

    def _attribute_rows(self, table: WeightTable) -> Rows:
        urls = UrlTerms(self._vocabulary).terms_batch([one.url for one in self._examples])
        return attribute_rows(
            urls, *gather_evidence([one.evidence.values() for one in self._examples]), compile_table(table)
        )

    def table(self, known: RowPositions) -> WeightTable:
        """The topic's seven words (S1-17…S1-19): mean tf in relevant pages · log(N/n) over all pages, normalised."""
        chosen = np.zeros(len(self._examples), dtype=np.bool_)
        chosen[known] = True
        wanted = chosen & self.labels if (chosen & self.labels).any() else chosen
        here, relevant = chosen[self._page_of], wanted[self._page_of]
        size = len(self._terms)
        containing = np.bincount(self._number_of[here], minlength=size)
        occurrences = np.bincount(self._number_of[relevant], minlength=size)
        shares = np.bincount(self._number_of[relevant], self._shares[relevant], minlength=size)
        documents = int(chosen.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(occurrences > 0, shares * np.log(documents / containing), 0.0)
        return self._heaviest_terms(np.nan_to_num(weights), occurrences, int(wanted.sum()))

    def _heaviest_terms(self, weights: TermWeightArray, occurrences: NDArray[np.int64], documents: int) -> WeightTable:
        noise, kept, shown = NoiseFilter(), dict[str, float](), dict[str, str]()
        for at in np.lexsort((self._terms, -weights)).tolist():
            if len(kept) == TABLE_SIZE or weights[at] <= 0.0:
                break
            term = int(self._terms[at])
            stem = self._vocabulary.stem_of(term)
            if stem and noise.allows(stem, int(occurrences[at]), documents):
                kept[stem] = float(weights[at])
                shown[stem] = self._vocabulary.surface_of(term)
        return table_from_weights(kept, TABLE_SIZE, shown)


def _training_row(one: TrainingPage, found: Sequence[float]) -> TrainingRow:
    a, b, c, d, *missing = found
    flags = missing[0] > 0, missing[1] > 0, missing[2] > 0, missing[3] > 0
    return TrainingRow(url=one.url, group=one.host, values=(a, b, c, d), missing=flags, relevant=one.relevant)


def load_training_set(
    folder: Path, vocabulary: Vocabulary, idf: TermIdf, labels: Mapping[int, bool] | None = None
) -> CollectionTrainingSet:
    """The training set of a collection; UsageError where it holds no page.

    `labels`: only these pages, by key, are rows, with the label of the list that they come from (S1-13); the others are
    their parents. Listed pages without a known parent are left out: three of their four attributes are missing (S1-E6).
    """
    words, reader = PageTerms(vocabulary.terms, idf, weights="tfidf"), PageReader(vocabulary)
    with open_readonly(folder) as collection:
        examples = list(_gather_pages(collection, words, reader, labels).values())
    if not examples:
        raise UsageError(f"{folder}: holds no pages to learn from; crawl first")
    return CollectionTrainingSet([one for one in examples if labels is None or one.evidence], vocabulary)


def _gather_pages(
    collection: Collection, words: PageTerms, reader: PageReader, labels: Mapping[int, bool] | None
) -> dict[int, TrainingPage]:
    pages = first_pages(collection.connection, MAX_TRAINING_PAGES)
    if labels is None:
        examples = {page.key: TrainingPage(page.url, page.host, page.relevant) for page in pages}
    else:
        examples = {p.key: TrainingPage(p.url, p.host, labels[p.key]) for p in pages if p.key in labels}
    children = dict(examples)
    for key, read in _read_pages(collection, pages, reader):
        if labels is None:
            # What is left was fetched after this page.
            children.pop(key)
        if read is not None:
            if key in examples:
                terms, counts = words.counts(read)
                examples[key].terms, examples[key].term_shares = terms, counts / max(1.0, counts.sum())
            add_link_evidence(key, read, words, children)
    return examples


def _read_pages(
    collection: Collection, pages: Sequence[RecordedPage], reader: PageReader
) -> Iterator[tuple[int, Reading | None]]:
    """Each page with its reading; None for a page that can't be read: without words nothing is learned."""
    parser = HtmlParser()
    for page in pages:
        read = None
        with suppress(ParseError):
            read = reader.read(parser.parse(read_record(collection.folder, *page.position)))
        yield page.key, read


def add_link_evidence(parent: int, read: Reading, words: PageTerms, later: dict[int, TrainingPage]) -> None:
    """Add the evidence of this page to the pages that were fetched later and that it links to."""
    found = pack_evidence(page_evidence(read, words.weighted_terms(read), words.idf))
    dropped = refused_links(read.page)
    for at, (link, evidence) in enumerate(zip(read.page.links, found, strict=True)):
        if link.key in later and link.key != parent and at not in dropped:
            add_parent_evidence(later[link.key].evidence, parent, evidence)


class ModelFile(msgspec.Struct, kw_only=True):
    """The content of a model file."""

    schema: int = 1
    made_by: str = ""
    topic: str = ""
    # The words that the attributes were computed with: a crawl uses the same.
    table: dict[str, float] = {}
    attributes: tuple[str, ...] = ATTRIBUTES
    # Of irrelevant and relevant pages, float32.
    rows: tuple[bytes, bytes] = (b"", b"")
    models: dict[str, AnyModel] = {}


def write_models(learners: list[RowLearner], **about: object) -> bytes:
    """The file of learners that were trained on the same rows."""
    models = {learner.name: learner.model for learner in learners}
    file = ModelFile(rows=learners[0].pack_rows(), models=models, **about)  # type: ignore[arg-type]
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def read_models(data: bytes, source: str) -> ModelFile:
    """Decode a file; ConfigError names what is wrong with it."""
    try:
        file = msgspec.json.decode(data, type=ModelFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: not a model file ({error}); 'opilio lab train' makes one") from error
    if file.schema != 1 or file.attributes != ATTRIBUTES:
        raise ConfigError(f"{source}: was made by another version of Opilio; train again with 'opilio lab train'")
    return file


def load_learner(file: ModelFile, name: str, source: str) -> RowLearner:
    """The learner of this name, or the first one where none is named, ready to continue."""
    name = name or next(iter(file.models), "")
    if name not in file.models:
        known = ", ".join(file.models) or "none"
        raise ConfigError(f"{source}: has no learner '{name}' (it has: {known}); see 'opilio lab train --learner'")
    learner = make_learner(name)
    try:
        learner.load(file.models[name], file.rows)
    except ValueError as error:
        raise ConfigError(f"{source}: is damaged: {error}") from error
    return learner
