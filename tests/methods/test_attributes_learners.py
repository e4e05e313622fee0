"""The three learners of S1 behind one protocol (S1-27, S1-28, S1-29)."""

import importlib.util

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from checks.learner_checks import check_chances, check_learner, some_rows
from opilio.core.errors import ConfigError, MissingExtraError
from opilio.methods.attributes.features import ROW_WIDTH, RowMemory
from opilio.methods.attributes.learner import (
    LEARNER_NAMES,
    MAX_ITERATIONS,
    WEIGHT_DECAY,
    AnyModel,
    BayesModel,
    ConstantModel,
    TreeModel,
    binned,
    constant_model,
    make_learner,
    require_sklearn,
    train_bayes,
    train_neural,
    train_tree,
)

pytest.importorskip("sklearn")
each_learner = pytest.mark.parametrize("name", LEARNER_NAMES)


@each_learner
def test_learner_keeps_to_the_protocol_s1_27_s1_28_s1_29(name: str) -> None:
    check_learner(lambda seed: make_learner(name, seed, capacity=400))


@each_learner
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_rows_give_usable_chances(name: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    rows = data.draw(arrays(np.float64, (count, ROW_WIDTH), elements=st.floats(allow_nan=True, width=64)))
    labels = data.draw(arrays(np.bool_, count))
    learner = make_learner(name)
    learner.update(rows, labels)
    check_chances(learner, rows)
    check_chances(learner, some_rows(5)[0])


def test_unknown_learner_is_named() -> None:
    with pytest.raises(ConfigError, match=r"learner 'magic': unknown; known: bayes, tree, neural"):
        make_learner("magic")


def test_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'opilio\[learn\]'"):
        require_sklearn()


def test_rows_of_the_wrong_width_are_refused() -> None:
    with pytest.raises(ValueError, match="8 columns"):
        make_learner("bayes").probability(np.zeros((2, 4)))


def test_share_is_never_certain_laplace() -> None:
    assert constant_model(np.array([True, True])) == ConstantModel(0.75)
    assert constant_model(np.zeros(0, dtype=np.bool_)) == ConstantModel(0.5)


def test_bayes_counts_bins_by_hand() -> None:
    """Two rows a class, Laplace's correction: P(bin 5 | yes) = (2+1)/(2+6), P(bin 5 | no) = (0+1)/(2+6)."""
    rows = np.zeros((4, ROW_WIDTH))
    rows[2:, 1] = 1.0
    model = train_bayes(rows, np.array([False, False, True, True]), 0)
    assert model.prior == pytest.approx(0.0)
    assert model.odds[1][5] == pytest.approx(np.log(3.0))
    assert model.odds[0] == pytest.approx([0.0] * 6)
    assert model.probability(rows[2:3])[0] == pytest.approx(0.75)


def test_zero_is_a_bin_of_its_own() -> None:
    rows = np.array([[0.0, 0.01, 0.2, 0.21, 1.0, 0.0, 1.0, 0.0]])
    assert binned(rows).tolist() == [[0, 1, 1, 2, 1, 0, 1, 0]]


def test_bayes_is_what_the_library_says() -> None:
    from sklearn.naive_bayes import CategoricalNB

    rows, labels = some_rows(300)
    theirs = CategoricalNB(min_categories=[6] * 4 + [2] * 4).fit(binned(rows), labels)
    ours = train_bayes(rows, labels, 0).probability(rows)
    assert ours == pytest.approx(theirs.predict_proba(binned(rows))[:, 1])


def test_tree_goes_down_as_the_library_does() -> None:
    from sklearn.tree import DecisionTreeClassifier

    rows, labels = some_rows(300)
    theirs = DecisionTreeClassifier(criterion="entropy", max_depth=8, min_samples_leaf=5, random_state=4)
    leaves = theirs.fit(rows, labels).apply(rows)
    ours = train_tree(rows, labels, 4).probability(rows)
    by_leaf = {leaf: (labels[leaves == leaf].sum() + 1) / ((leaves == leaf).sum() + 2) for leaf in set(leaves)}
    assert ours == pytest.approx([by_leaf[leaf] for leaf in leaves])


def test_net_gives_what_the_library_gives() -> None:
    from sklearn.neural_network import MLPClassifier

    rows, labels = some_rows(200)
    model = train_neural(rows, labels, 2)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    theirs = MLPClassifier(
        (8,), activation="tanh", solver="lbfgs", alpha=WEIGHT_DECAY, max_iter=MAX_ITERATIONS, random_state=2
    )
    assert model.probability(rows) == pytest.approx(theirs.fit(scaled, labels).predict_proba(scaled)[:, 1], abs=1e-9)
    assert model.parameters == 8 * 8 + 8 + 8 + 1


def test_complexity_is_counted_in_parameters_s1_33() -> None:
    rows, labels = some_rows(400)
    counted = {}
    for name in LEARNER_NAMES:
        learner = make_learner(name)
        learner.fit(rows, labels)
        counted[name] = learner.parameters
    assert counted["bayes"] == 2 * (4 * 5 + 4 * 1) + 1
    assert counted["neural"] == 81 and counted["tree"] > 3


@pytest.mark.parametrize(
    "damage",
    [
        {"left": (0, -1, -1)},  # a node that is its own child would never end
        {"left": (7, -1, -1)},
        {"column": (99, 0, 0)},
        {"chance": (0.5, 2.0, 0.1)},
        {"threshold": (0.5,)},
        {"left": (), "right": (), "column": (), "threshold": (), "chance": ()},
    ],
)
def test_damaged_tree_is_refused(damage: dict[str, tuple[float, ...]]) -> None:
    fine: dict[str, tuple[float, ...]] = {"left": (1, -1, -1), "right": (2, -1, -1), "column": (1, 0, 0)}
    fine |= {"threshold": (0.5, 0.0, 0.0), "chance": (0.5, 0.1, 0.9)}
    good = msgspec.convert({"type": "tree", **fine}, AnyModel)
    assert isinstance(good, TreeModel)
    assert good.probability(np.eye(ROW_WIDTH)[:2]).tolist() == [0.1, 0.9]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "tree", **fine, **damage}, AnyModel)


@pytest.mark.parametrize(
    "damaged",
    [
        {"type": "bayes", "prior": 0.0, "odds": ((0.0,),)},
        {"type": "constant", "chance": 7.0},
        {"type": "neural", "mean": (), "scale": (), "hidden": (), "hidden_bias": (), "output": (), "output_bias": 0.0},
    ],
)
def test_damaged_model_is_refused(damaged: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(damaged, AnyModel)


def test_snapshot_that_is_no_snapshot_is_refused() -> None:
    learner = make_learner("tree")
    learner.fit(*some_rows(50))
    for state in (b"", b"\x80\x04cos\nsystem\n", learner.snapshot()[:-3]):
        with pytest.raises((msgspec.DecodeError, ValueError)):
            make_learner("tree").restore(state)


def test_numbers_of_a_stranger_that_are_none_become_zero() -> None:
    learner = make_learner("bayes")
    learner.model = BayesModel(float("nan"), tuple([(0.0,) * 6] * 4 + [(0.0,) * 2] * 4))
    assert learner.probability(np.zeros((1, ROW_WIDTH))).tolist() == [0.0]


def test_full_memory_forgets_the_oldest_of_the_larger_class() -> None:
    memory = RowMemory(4)
    rows = np.linspace(0.0, 1.0, 6)[:, None] * np.ones(ROW_WIDTH)
    memory.add(rows, np.array([True, False, False, False, False, False]))
    kept, labels = memory.arrays()
    assert len(memory) == 4 and memory.smaller_class_size == 1
    assert labels.tolist() == [False, False, False, True]
    assert kept[:, 0] == pytest.approx([0.6, 0.8, 1.0, 0.0])
