"""Training sets from a collection (S1-13, S1-16…S1-19, S1-22…S1-24, S1-E1, S1-E6, S1-E7), and `opilio lab train`."""

import json
from math import log
from pathlib import Path

import numpy as np
import pytest

from checks.attribute_collections import BIRDS, TAXES, bird, pages, tax, write_collection
from checks.tables import NO_NOISE_FILTER, table_from_documents
from opilio.cli.lab_models import train as command
from opilio.core.errors import UsageError
from opilio.core.records import url_key
from opilio.manage.train_attributes import train
from opilio.manage.verify import verify
from opilio.methods.attributes.features import HEADER, MAX_TRAINING_ROWS, TrainingRow, read_rows
from opilio.methods.attributes.ranker import MODEL_FILE
from opilio.methods.attributes.training import CollectionTrainingSet, load_training_set, read_models
from opilio.text.vocabulary import Vocabulary
from opilio.topic.weights import TfIdf, corpus_idf

pytest.importorskip("sklearn")
HEAD = ",".join(HEADER)


def even(terms: np.ndarray) -> np.ndarray:
    return np.ones(terms.shape)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("s1") / "birds")


@pytest.fixture(scope="module")
def material(folder: Path) -> CollectionTrainingSet:
    return load_training_set(folder, Vocabulary(), even)


def rows_by_url(material: CollectionTrainingSet) -> dict[str, TrainingRow]:
    return {row.url: row for row in material.rows(material.table(np.arange(len(material))))}


def test_one_row_per_page_with_four_attributes_and_its_label_s1_13_s1_16(material: CollectionTrainingSet) -> None:
    rows = rows_by_url(material)
    assert len(rows) == 16
    assert [rows[bird(n)].relevant for n in BIRDS] == [True] * 8
    assert [rows[tax(n)].relevant for n in TAXES] == [False] * 8  # S1-E1: what the crawl met on its way
    assert all(0.0 <= value <= 1.0 for row in rows.values() for value in row.values)


def test_label_is_the_list_that_a_page_comes_from_s1_13(folder: Path) -> None:
    """Whatever the judge of the crawl found."""
    lists = {bird(n): False for n in BIRDS[2:5]} | {tax(n): True for n in TAXES[2:5]}
    listed = load_training_set(folder, Vocabulary(), even, {url_key(url): label for url, label in lists.items()})
    assert {row.url: row.relevant for row in rows_by_url(listed).values()} == lists


def test_topic_table_is_seven_words_of_relevant_pages_s1_17_s1_19(material: CollectionTrainingSet) -> None:
    table = material.table(np.arange(len(material)))
    assert len(table) == 7 and table.keywords[0].weight == 1.0
    words = {keyword.label for keyword in table.keywords}
    assert "bird" in words and not words & {"office", "duty", "law", *TAXES}


def test_idf_and_normalising_by_hand_s1_18_s1_19() -> None:
    assert corpus_idf(8, 2) == pytest.approx(log(4))
    weighing = TfIdf(idf_source="corpus", noise=NO_NOISE_FILTER)
    table = table_from_documents(
        [{"dna": 3, "gene": 1}, {"dna": 1, "gene": 1, "cell": 2}, {"law": 1}, {"tax": 1}], 7, weighing
    )
    largest = 1.0 / 4 * log(4)  # of "law" and of "tax"
    assert table.weights["dna"] == pytest.approx((0.75 + 0.25) / 4 * log(2) / largest)
    assert table.weights["cell"] == pytest.approx(0.5 / 4 * log(4) / largest)


def test_attributes_separate_the_two_kinds_s1_21_s1_24(material: CollectionTrainingSet) -> None:
    rows = rows_by_url(material)
    for name, other in list(zip(BIRDS, TAXES, strict=True))[1:]:  # the first page was a seed
        assert rows[bird(name)].values > (0.3, 0.3, 0.3, 0.3)
        url, anchor, _, _ = rows[tax(other)].values  # both kinds stand in one list, so the same words are around them
        assert url == anchor == 0.0 and sum(rows[tax(other)].values) < sum(rows[bird(name)].values) - 0.6


def test_parents_fetched_before_the_page_count_the_first_five_of_them_s1_22_s1_23(
    material: CollectionTrainingSet,
) -> None:
    """Tax pages are linked by one bird page, fetched first, and by all tax pages, of which those before them count."""
    parents = [len(one.evidence) for one in material._examples]  # what the attributes are made of shows nowhere else
    assert parents == [0, 1, 2, 3, 4, 5, 5, 5, 1, 2, 3, 4, 5, 5, 5, 5]


def test_page_without_known_parents_has_missing_attributes_s1_e6(tmp_path: Path) -> None:
    alone = ("http://alone.example/bird", True, "<p>a bird on its own</p>")
    rows = rows_by_url(load_training_set(write_collection(tmp_path / "c", [*pages(), alone]), Vocabulary(), even))
    row = rows[alone[0]]
    assert row.values[0] > 0.0 and row.values[1:] == (0.0, 0.0, 0.0)
    assert row.missing == (False, True, True, True)


def test_table_is_built_from_the_pages_that_may_be_known_s1_e7(material: CollectionTrainingSet) -> None:
    known = np.array([1, 2, 3, *range(9, 16)])  # no wren, no income
    assert material.table(known).weights != material.table(np.arange(16)).weights
    only_tax = material.table(np.arange(8, 16))
    assert "bird" not in {keyword.label for keyword in only_tax.keywords}
    assert (material.rows_for(known) != material.rows_for(np.arange(16))).any()


@pytest.mark.slow
def test_learners_are_tested_by_host_and_stored(folder: Path) -> None:
    trained = train(folder, ("bayes", "tree", "neural"))
    assert trained.trial.by_host and trained.trial.folds == 8 and trained.trial.prior == 0.5
    assert trained.trial.results["bayes"].auc.mean > 0.8
    assert [learner.name for learner in trained.learners] == ["bayes", "tree", "neural"]


def test_empty_collection_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no pages to learn from"):
        train(write_collection(tmp_path / "c", []), ("bayes",))


def test_collection_of_one_class_is_reported(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "c", pages()[:8])
    with pytest.raises(UsageError, match=r"c: too few rows to learn from \(8 relevant, 0 irrelevant\)"):
        train(folder, ("bayes",))


def test_command_exports_reads_back_and_reports_s1_25_s1_30_s1_31(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, model = tmp_path / "rows.csv", tmp_path / "m.json"
    assert command(folder, learner="bayes", export=rows, out=model) == 0
    result = capsys.readouterr()
    assert "16 rows, 8 of them relevant (50.0%)" in result.out and "0.233" in result.out  # the paper's precision
    assert "Relevant means the crawl's own verdict, or the user's label" in result.out
    assert "Less time and fewer parameters are better" in result.out  # S1-E3
    assert f"16 rows written to {rows}" in result.err and "--strategy s1-bayes" in result.err
    assert list(read_models(model.read_bytes(), "m.json").models) == ["bayes"]
    with rows.open(encoding="utf-8", newline="") as lines:
        assert len(read_rows(lines, "rows.csv")) == 16


@pytest.mark.slow
def test_command_reads_rows_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    lines = [f"http://{at}.example/,0.{at % 9},0.{at % 7},0,0,parent,{'yes' if at % 3 else 'no'}" for at in range(30)]
    rows.write_text("\n".join((HEAD, *lines)), encoding="utf-8")
    assert command(rows, json=True) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["schema"] == 1 and set(facts["results"]) == {"bayes", "tree", "neural"}
    assert facts["paper_precision"] == {"bayes": 0.23325, "tree": 0.30388, "neural": 0.50125}
    assert facts["rows"] == 30 and facts["model"] == "" and facts["results"]["tree"]["parameters"] > 0
    assert command(rows) == 0
    result = capsys.readouterr().out
    assert "attributes as given" in result and "the crawl's own verdict" not in result


def test_rows_that_a_learner_does_not_keep_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        f"http://{at % 9}.example/{at},0.{at % 9},0,0,0,,{'yes' if at % 9 else 'no'}"
        for at in range(MAX_TRAINING_ROWS + 9)
    ]
    (tmp_path / "rows.csv").write_text("\n".join((HEAD, *lines)), encoding="utf-8")
    assert command(tmp_path / "rows.csv", learner="bayes") == 0
    result = capsys.readouterr().out
    assert "5,009 rows" in result and "A learner learns from 5,000 of them" in result
    assert command(tmp_path / "rows.csv", learner="bayes", json=True) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["kept_rows"]) == (MAX_TRAINING_ROWS + 9, MAX_TRAINING_ROWS)


def test_order_that_one_fold_shows_is_not_called_sure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the first host has pages of both kinds: there the order is right, elsewhere no order is possible."""
    both = [f"http://a.example/{at},{at % 2},{at % 2},0,0,,{'yes' if at % 2 else 'no'}" for at in range(10)]
    rest = [f"http://{at}.example/,{at % 2},{at % 2},0,0,,{'yes' if at % 2 else 'no'}" for at in range(4)]
    head = HEAD.replace("url,url_", '"url",url_')  # some programs quote it, behind the mark of an editor
    (tmp_path / "rows.csv").write_text("\n".join((head, *both, *rest)), encoding="utf-8-sig")
    assert command(tmp_path / "rows.csv") == 0
    result = capsys.readouterr().out
    assert "1.000 (1 fold)" in result
    assert "No learner orders these links surely better than chance" in result


def test_learners_go_into_the_collection_and_may_be_made_again(folder: Path) -> None:
    for name in ("tree", "bayes"):
        assert command(folder, learner=name) == 0
        assert list(read_models((folder / MODEL_FILE).read_bytes(), MODEL_FILE).models) == [name]
    assert not any(MODEL_FILE in problem for problem in verify(folder))  # one more file is no damage


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", "is empty"),
        ("url,relevant\nx,yes\n", "has no column 'url_relevancy'"),
        (f"{HEAD}\nx,a,0,0,0,,yes\n", "line 2: url_relevancy is 'a'"),
        (f"{HEAD}\nx,0,0,0,0,,perhaps\n", "line 2: relevant is 'perhaps'"),
        (f"{HEAD}\n" + "x,0,0,0,0,,yes\n" * 3, "too few rows to learn from (3 relevant, 0 irrelevant)"),
    ],
)
def test_bad_rows_end_with_one_line_and_code_2(tmp_path: Path, text: str, result: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        train(path, ("bayes",))
    assert result in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 2


def test_usage_errors_are_reported_before_any_work(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    with pytest.raises(UsageError, match="new: the same file as --out"):
        command(there, export=tmp_path / "new", out=tmp_path / "new")
    with pytest.raises(UsageError, match="gone: can't be read: No such file"):
        command(tmp_path / "gone")
    with pytest.raises(UsageError, match="--learner oracle: unknown; known: bayes, tree, neural, all"):
        command(there, learner="oracle")
    for option in ("out", "export"):
        with pytest.raises(UsageError, match=f"--{option} .*already exists"):
            command(there, **{option: there})  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"--{option} .*x: can't be written: .*there is not a folder"):
            command(there, **{option: there / "x"})  # type: ignore[arg-type]


def test_name_that_no_file_can_have_is_reported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--export .*: can't be written: File name too long"):
        command(folder, learner="bayes", export=tmp_path / ("x" * 253))
