"""The collections that are served, by name; and the folder in which new ones are begun."""

import re
from collections.abc import Sequence
from pathlib import Path

from opilio.model.errors import CollectionError, UsageError
from opilio.store.collection import check, exists


class Shelf:
    """Collections by the names that addresses use. Invariant: a name stands for one folder as long as we run."""

    def __init__(self, folders: Sequence[Path], home: Path) -> None:
        self.home = home
        self._folders: dict[str, Path] = {}
        for folder in folders:
            check(folder)
            self.add(folder)

    def add(self, folder: Path) -> str:
        """Serve one more collection; returns its name."""
        for name, known in self._folders.items():
            if known.resolve() == folder.resolve():
                return name
        base = slug(folder.resolve().name) or "collection"
        name, number = base, 2
        while name in self._folders:
            name, number = f"{base}-{number}", number + 1
        self._folders[name] = folder
        return name

    @property
    def names(self) -> list[str]:
        return list(self._folders)

    @property
    def folders(self) -> dict[str, Path]:
        """By their names."""
        return dict(self._folders)

    def folder(self, name: str) -> Path:
        """The folder of a name; UnknownCollectionError where there is none."""
        if name not in self._folders:
            raise UnknownCollectionError(f"'{name[:80]}': no collection of this name is served here")
        return self._folders[name]

    def readable(self, names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
        """The folders of these names, and in place of those that can't be read what is wrong with them."""
        folders, problems = dict[str, Path](), list[str]()
        for name in names:
            folder = self.folder(name)
            try:
                check(folder)
            except CollectionError as error:
                problems.append(str(error))
            else:
                folders[name] = folder
        return folders, problems

    def fresh(self, topic: str) -> Path:
        """A folder for a new collection on a topic, which is not there yet."""
        base = "-".join(slug(topic).split("-")[:6]) or "crawl"
        folder, number = self.home / base, 2
        while exists(folder) or folder.exists():
            folder, number = self.home / f"{base}-{number}", number + 1
        return folder


class UnknownCollectionError(UsageError):
    """An address names a collection that is not served."""


def slug(text: str) -> str:
    """A name for addresses and folders, of the letters and figures of any script.

    >>> slug("Birds of Europe, and others!"), slug("Vögel & 鳥")
    ('birds-of-europe-and-others', 'vögel-鳥')
    """
    return "-".join(re.findall(r"[^\W_]+", text.lower()))[:80]
