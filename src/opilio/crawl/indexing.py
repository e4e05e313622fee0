"""From a collection to its index: what changed since the index last looked is read, parsed again and taken in.

Runs in whoever reads (search, serve), never in the process that crawls. Incremental by the number of the last answer
that was taken in, idempotent, and safe against a kill at any moment: what is half done is done again.

What depends on the whole collection (authority, subtopics, texts of links found later) is worked out anew when the
collection has grown by a good part, and once more when nobody writes to it.
"""

from collections.abc import Sequence
from contextlib import closing
from enum import Enum, auto
from pathlib import Path

import msgspec

from opilio.crawl.pagefeed import PageFeed, Stored, with_text
from opilio.index.faults import DamagedIndexError, told_well
from opilio.index.fulltext import FullText, only_readable, prepare, ready, tell_change, wipe, writing
from opilio.index.intake import Intake
from opilio.index.manifest import Manifest
from opilio.index.records import Progress
from opilio.parse.html import HtmlParser
from opilio.store.collection import check, reading
from opilio.store.locks import being_written

BATCH = 250  # answers of one commit
GROWN = 1.25  # times as many pages as last time: work out anew what depends on all of them


def catch_up(folder: Path, most: int = 0) -> Progress:
    """Take in what the collection gained, at most about so many pages (0: all). A few looks where nothing is new.

    An index that can't be read is made again; one that can't be written stays as it is.
    """
    check(folder)
    if only_readable(folder):
        return Progress(waiting=behind(folder), read_only=True)
    with writing(folder) as ours:
        if not ours:
            return Progress(busy=True, waiting=behind(folder))
        try:
            return _caught_up(folder, most)
        except DamagedIndexError:
            wipe(folder)
            return _caught_up(folder, most)


def _caught_up(folder: Path, most: int) -> Progress:
    """Only inside `writing`."""
    place = prepare(folder)
    with told_well(place):
        stands = _standing(folder, place)
        if stands is Stands.ELSEWHERE:
            wipe(folder)
            prepare(folder)
        if stands is Stands.UP_TO_DATE:
            return Progress()
        manifest = Manifest(place)
        try:
            if stands is Stands.ELSEWHERE:  # before anything is read: what is dropped from now on makes it so again
                manifest.set_marks(dropped=_dropped(folder))
            return _CatchUp(folder, FullText(place), manifest).run(most)
        finally:
            manifest.close()
            tell_change(place)


class Stands(Enum):
    """Where an index stands."""

    UP_TO_DATE = auto()
    BEHIND = auto()
    ELSEWHERE = auto()  # it has seen more than the collection has


def _dropped(folder: Path) -> int:
    with reading(folder) as collection:
        return PageFeed(collection).dropped()


def _standing(folder: Path, place: Path) -> Stands:
    """An index that has seen more than there is belongs to another past (the collection was put back from a copy,
    another one took its place, or old versions were dropped): nothing says which of its documents still hold."""
    quiet = not being_written(folder)  # asked first: what is settled now is settled for all that was written
    manifest = Manifest(place)
    try:
        with reading(folder) as collection:
            feed = PageFeed(collection)
            ahead = (feed.last() - manifest.mark("seq"), feed.last_label() - manifest.mark("label"))
            same_past = feed.dropped() == manifest.mark("dropped")
        if min(ahead) < 0 or not same_past:
            return Stands.ELSEWHERE
        unsettled = quiet and manifest.mark("settled") < manifest.mark("seq")
        return Stands.BEHIND if max(ahead) or unsettled else Stands.UP_TO_DATE
    finally:
        manifest.close()


def behind(folder: Path) -> int:
    """How many pages of a collection its index has not taken in yet: all, where it must be made again."""
    with reading(folder) as collection:
        feed = PageFeed(collection)
        return feed.waiting(_taken_in(ready(folder), feed.dropped()))


def _taken_in(place: Path, dropped: int) -> int:
    try:
        with told_well(place), closing(Manifest(place)) as manifest:
            return manifest.mark("seq") if manifest.mark("dropped") == dropped else 0
    except DamagedIndexError:
        return 0


def rebuild(folder: Path) -> Progress:
    """Throw the index away and make it again."""
    check(folder)
    with writing(folder) as ours:
        if not ours:
            return Progress(busy=True)
        wipe(folder)
    done = catch_up(folder)
    # A page that others came to link to was taken in once more: what counts is what is there in the end.
    return msgspec.structs.replace(done, indexed=FullText(ready(folder)).searcher().num_docs)


class _CatchUp:
    """One catching up, under the lock of the index."""

    def __init__(self, folder: Path, index: FullText, manifest: Manifest) -> None:
        self._folder = folder
        self._index = index
        self._manifest = manifest
        self._parser = HtmlParser(paths=False)
        self._indexed = self._removed = 0

    def run(self, most: int) -> Progress:
        quiet = not being_written(self._folder)
        with self._index.writer() as writer:
            intake = Intake(writer, self._manifest)
            while self._step(intake) and not (most and self._indexed >= most):
                pass
            if not most or self._indexed < most:
                self._relabel(intake)
                self._settle(intake, quiet=quiet)
        return Progress(indexed=self._indexed, removed=self._removed, waiting=behind(self._folder))

    def _step(self, intake: Intake) -> bool:
        """One batch of answers; False where there are no more."""
        after = self._manifest.mark("seq")
        with reading(self._folder) as collection:
            feed = PageFeed(collection)
            upto = min(after + BATCH, feed.last())
            if upto <= after:
                return False
            changes = feed.changes(after, upto)
        self._take(intake, changes.pages, changes.removed, seq=upto)
        self._removed += len(changes.removed)
        return True

    def _take(self, intake: Intake, pages: Sequence[Stored], removed: Sequence[int] = (), **marks: int) -> None:
        intake.take([with_text(self._folder, page, self._parser) for page in pages], removed, **marks)
        self._indexed += len(pages)

    def _relabel(self, intake: Intake) -> None:
        """Pages that a person judged: their verdict is another one now."""
        with reading(self._folder) as collection:
            feed = PageFeed(collection)
            keys, last = feed.labelled(self._manifest.mark("label"))
            pages = feed.pages(keys)
        self._take(intake, pages, label=last)

    def _settle(self, intake: Intake, *, quiet: bool) -> None:
        """What depends on all pages, where it is time for it."""
        pages, relevant = self._manifest.count(), self._manifest.count(relevant_only=True)
        if quiet or pages >= GROWN * self._manifest.mark("weighed"):
            with reading(self._folder) as collection:
                hosts = PageFeed(collection).hosts()
            intake.weigh(hosts)
        if quiet or relevant >= GROWN * self._manifest.mark("divided"):
            if relevant != self._manifest.mark("divided"):
                intake.divide(FullText(self._index.folder).searcher())
            self._again(intake, intake.misplaced())
        if quiet:
            with reading(self._folder) as collection:
                outdated = intake.outdated(PageFeed(collection).parent_counts())
            self._again(intake, outdated)
            self._manifest.set_marks(settled=self._manifest.mark("seq"))

    def _again(self, intake: Intake, keys: Sequence[int]) -> None:
        """Take pages in once more, as they are now."""
        for first in range(0, len(keys), BATCH):
            with reading(self._folder) as collection:
                pages = PageFeed(collection).pages(keys[first : first + BATCH])
            self._take(intake, pages)
