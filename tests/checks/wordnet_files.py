"""Small WordNet databases, written in the format of the real one."""

from pathlib import Path

LICENCE = "  1 This is a small WordNet for tests.\n"


class WordNetWriter:
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
