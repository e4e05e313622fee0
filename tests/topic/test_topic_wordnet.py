"""WordNet's files, in small: senses, suggestions, damage (S2-F3)."""

from pathlib import Path

import pytest

from opilio.core.errors import TopicError
from opilio.topic.wordnet import WordNet, parse_synset

LICENCE = "  1 This is a small WordNet for tests.\n"


class Writer:
    """Writes noun files: synsets by name, with what they point to."""

    def __init__(self) -> None:
        self.synsets: dict[str, tuple[list[str], str, list[tuple[str, str]]]] = {}

    def add(self, name: str, words: str, gloss: str, *pointers: tuple[str, str]) -> None:
        self.synsets[name] = words.split(), gloss, list(pointers)

    def write(self, folder: Path) -> Path:
        places = self._places()
        data = LICENCE + "".join(self._line(name, places) for name in self.synsets)
        senses: dict[str, list[int]] = {}
        for name, (words, _, _) in self.synsets.items():
            for word in words:
                senses.setdefault(word.lower(), []).append(places[name])
        index = LICENCE + "".join(
            f"{word} n {len(found)} 1 @ {len(found)} 0 {' '.join(f'{at:08}' for at in found)}  \n"
            for word, found in sorted(senses.items())
        )
        (folder / "data.noun").write_text(data)
        (folder / "index.noun").write_text(index)
        return folder

    def _places(self) -> dict[str, int]:
        blank = dict.fromkeys(self.synsets, 0)  # places have eight digits, so lines are as long with any of them
        places, at = {}, len(LICENCE)
        for name in self.synsets:
            places[name] = at
            at += len(self._line(name, blank))
        return places

    def _line(self, name: str, places: dict[str, int]) -> str:
        words, gloss, pointers = self.synsets[name]
        written = " ".join(f"{word} 0" for word in words)
        pointing = " ".join(f"{how} {places[to]:08} n 0000" for how, to in pointers)
        return f"{places[name]:08} 05 n {len(words):02x} {written} {len(pointers):03} {pointing} | {gloss}  \n"


@pytest.fixture
def wordnet(tmp_path: Path) -> WordNet:
    small = Writer()
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
    with pytest.raises(TopicError, match=r"--wordnet .*: has no index\.noun and data\.noun"):
        WordNet.find(tmp_path / "nowhere")


def test_damaged_file_is_named(wordnet: WordNet) -> None:
    (wordnet.folder / "data.noun").write_text("x" * 1000)
    with pytest.raises(TopicError, match="is damaged near byte"):
        wordnet.senses("crane")


@pytest.mark.parametrize("line", ["", "00000001 05 n zz", "00000001 05 n 03 wren 0", "1 2 n 01 wren 0 001 @ 2 q 0 | x"])
def test_line_that_is_no_synset_is_refused(line: str) -> None:
    with pytest.raises((ValueError, IndexError, KeyError)):
        parse_synset(line)


def test_adjective_marks_are_left_out() -> None:
    assert parse_synset("00000001 00 s 01 galore(ip) 0 000 | in great numbers").words == ("galore",)
