"""Any flipped byte of a collection is found by verify or harmless, and no command ends in a traceback."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from benchmarks.simulation.disk import Disk, SqliteHook

from checks.small_webs import SmallWeb, crawl, grid, rows, served, settings_for
from opilio.cli.main import run_command
from opilio.core.errors import CollectionError
from opilio.manage.compact import check_and_repair
from opilio.manage.export import export
from opilio.manage.verify import verify
from opilio.search.indexer import update_index
from opilio.store import seal
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import has_log, log_of, sqlite_uri
from opilio.store.learner_states import STATE_DAMAGED, LearnerJournal
from opilio.store.log_file import read_log
from opilio.store.page_selection import PageFilter
from opilio.store.seal import SEAL_FILE, read_seal, seal_problems

SEED = "http://h0.example/0.html"
PAGE = 4096
# Files without content: a lock is empty or names a command, and `changed` only has a time.
WITHOUT_CONTENT = ("crawl.lock", "index.lock", "index/changed", "index/version")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage") / "c"
    with served(SmallWeb(grid(hosts=2, pages=5))) as server:
        crawl(folder, settings_for(server, [SEED], strategy="opilio", stop={"pages": 8}))
    update_index(folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "c"))


def files_of(folder: Path) -> list[str]:
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(
        name for name in names if name not in WITHOUT_CONTENT and not name.endswith((".lock", "-shm", "-wal"))
    )


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    # In place: a file that is cut short while it is mapped into memory ends the process (SIGBUS).
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ mask]))


def sampled_flips(folder: Path, each: int) -> Iterator[tuple[str, int]]:
    """Places in every file: the first and last bytes, and some between."""
    for name in files_of(folder):
        size = (folder / name).stat().st_size
        if size:
            rng = random.Random(name.rpartition(".")[2])
            yield from ((name, at) for at in {0, size - 1, *(rng.randrange(size) for _ in range(each))})


def problems_of(folder: Path) -> list[str]:
    try:
        return verify(folder)
    except CollectionError as error:
        return [str(error)]


def texts_of(folder: Path) -> bytes:
    out = folder.parent / "export.jsonl"
    with out.open("wb") as file:
        export(folder, "jsonl", PageFilter(), file)
    return out.read_bytes()


def test_any_flipped_byte_is_found_or_harmless(folder: Path) -> None:
    assert problems_of(folder) == []
    before = texts_of(folder)
    missed = []
    for name, at in sampled_flips(folder, each=4):
        flip(folder / name, at)
        if not problems_of(folder) and not (name.endswith(".warc.gz") and texts_of(folder) == before):
            missed.append((name, at))
        flip(folder / name, at)
    assert missed == []
    assert problems_of(folder) == []


COMMANDS = (
    ("status", "{c}"),
    ("search", "{c}", "wren"),
    ("why", "{c}", SEED),
    ("export", "{c}", "--format", "csv", "--out", "{c}.csv"),
    ("label", "{c}", SEED, "--relevant"),
    ("topic", "show", "{c}"),
    ("maintain", "verify", "{c}"),
    ("maintain", "verify", "{c}", "--repair"),
    ("maintain", "compact", "{c}"),
    ("maintain", "reindex", "{c}"),
    ("crawl", "--into", "{c}", "--pages", "8"),
)


def test_commands_work_on_intact_files(folder: Path) -> None:
    assert [run_command([word.format(c=folder) for word in command]) for command in COMMANDS] == [0] * len(COMMANDS)
    assert problems_of(folder) == []


@pytest.mark.parametrize("number", range(6))
def test_no_command_ends_in_a_traceback_when_files_are_damaged(
    folder: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fifty bytes of a file are changed; a command does its work or ends with one line. It raises nothing."""
    name = ("crawl.db", "crawl.db", "crawl.db", "index/derived.db", "pages-00001.warc.gz", "crawl.toml")[number]
    rng = random.Random(number)
    for _ in range(50):
        flip(folder / name, rng.randrange((folder / name).stat().st_size), rng.randrange(1, 256))
    for command in COMMANDS:
        code = run_command([word.format(c=folder) for word in command])
        assert code in (0, 1, 2, 3), command
        assert "Traceback" not in capsys.readouterr().err


def test_damaged_database_is_not_written_to_until_it_is_accepted(folder: Path) -> None:
    path = folder / "crawl.db"
    at = path.read_bytes().index(b"http://h0.example/0.html")
    flip(path, at)
    with pytest.raises(CollectionError, match=r"crawl.db at \d+: changed since it was written; it holds .*--repair"):
        Collection.open_for_writing(folder)
    assert any(line.startswith("crawl.db at ") for line in check_and_repair(folder, 0.0).problems)
    report = check_and_repair(folder, 0.0, pages=True)
    assert [line.partition(":")[0] for line in report.accepted] == [f"crawl.db at {at // PAGE * PAGE}"]
    assert not any(line.startswith("crawl.db at ") for line in problems_of(folder))
    Collection.open_for_writing(folder).close()


def test_checksums_of_an_earlier_version_are_replaced(folder: Path) -> None:
    (folder / SEAL_FILE).write_text('{"files":{"crawl.db":["0"]},"checksum":"1"}')
    assert problems_of(folder) == []
    Collection.open_for_writing(folder).close()
    assert set(read_seal(folder) or {}) == {"crawl.db", "crawl.toml"}


def test_checkpoint_of_a_crawl_during_the_check_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label or tag is checked while the crawl writes: its log was read before, the database after a checkpoint."""
    crawling, checksums = Collection.open_for_writing(folder), seal._found_checksums
    commits = iter(["UPDATE page SET title = title || '!'"])

    def late(path: Path, stored: bytes, full_check_bytes: float) -> bytes:
        for commit in commits if path.name == "crawl.db" else ():
            with crawling.unit_of_work():
                crawling.connection.execute(commit)
            assert crawling.seal is not None
            crawling.seal.checkpoint(crawling.connection)
        return checksums(path, stored, full_check_bytes)

    monkeypatch.setattr(seal, "_found_checksums", late)
    seal.require_intact(folder)
    assert next(commits, None) is None
    crawling.close()
    flip(folder / "crawl.db", 5 * PAGE + 7)
    with pytest.raises(CollectionError, match="changed since it was written"):
        seal.require_intact(folder)


def test_log_that_a_reader_wrote_into_the_database_is_no_damage(folder: Path) -> None:
    """The last connection to be closed may be that of a reader from before the commit, and the next one makes a log."""
    reader = sqlite3.connect(sqlite_uri(folder / "crawl.db", readonly=True), uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    writer = Collection.open_for_writing(folder)
    with writer.unit_of_work():
        writer.set_meta(note="x")
    writer.close()
    assert has_log(folder / "crawl.db")
    seal.require_intact(folder)
    reader.close()
    assert not log_of(folder / "crawl.db").exists()
    with closing(Collection.open_for_reading(folder)) as other:
        assert other.meta("note") == "x"
        assert log_of(folder / "crawl.db").stat().st_size == 0
        seal.require_intact(folder)
        Collection.open_for_writing(folder).close()


def test_changed_byte_is_found_before_the_first_commit_of_a_killed_crawl(folder: Path, tmp_path: Path) -> None:
    with closing(Collection.open_for_writing(folder)):
        killed = Path(shutil.copytree(folder, tmp_path / "killed"))
    flip(killed / "crawl.db", 5 * PAGE + 7)
    with pytest.raises(CollectionError, match="changed since it was written"):
        seal.require_intact(killed)


def test_checksums_are_written_when_the_last_checkpoint_fails(folder: Path) -> None:
    """SQLite writes the log into the database once more when it is closed, and then there is room again."""
    steps: list[str] = []
    is_closing = False

    def fail_first_write(step: str) -> None:
        steps.append(step)
        disk.is_full = is_closing and len(steps) <= 2  # the log is synced before the first write

    disk = Disk(folder, fail_first_write, remember=False)
    hook = SqliteHook()
    try:
        hook.disk = disk
        collection = Collection.open_for_writing(folder)
        with collection.unit_of_work():
            collection.set_meta(note="x")
        steps.clear()
        is_closing = True
        collection.close()
    finally:
        hook.close()
    assert len(steps) > 2
    assert not (folder / "crawl.db-wal").exists()
    assert problems_of(folder) == []
    flip(folder / "crawl.db", 5 * PAGE + 100)
    assert any("crawl.db at 20480" in problem for problem in problems_of(folder))


def test_edited_settings_and_damaged_checksums_are_sealed_again(folder: Path) -> None:
    with (folder / "crawl.toml").open("a") as file:
        file.write("\n# a note\n")
    flip(folder / SEAL_FILE, 40)
    assert problems_of(folder) == [f"{SEAL_FILE}: is damaged; it is written again"]
    report = check_and_repair(folder, 0.0)
    assert (report.problems, len(report.repaired)) == ([], 1)
    with (folder / "crawl.toml").open("a") as file:
        file.write("# another note\n")
    report = check_and_repair(folder, 0.0)
    assert (report.problems, len(report.repaired)) == ([], 1)
    assert problems_of(folder) == []


@pytest.fixture
def killed(folder: Path, tmp_path: Path) -> Path:
    """As a crawl leaves it that was killed: the log was written into the database twice, and has new commits."""
    collection = Collection.open_for_writing(folder)
    assert collection.seal is not None
    for number in range(7):
        collection.seal.checkpoint_bytes = 0 if number in (2, 4) else 1 << 30
        with collection.unit_of_work():
            collection.connection.execute("UPDATE answer SET elapsed_s = ? WHERE seq % 7 = ?", (number, number))
            collection.set_meta(note=str(number) * 3_000 * number)
    copy = Path(shutil.copytree(folder, tmp_path / "killed"))
    collection.close()
    assert problems_of(folder) == []
    return copy


def test_any_flipped_byte_of_a_killed_crawl_is_found_or_not_used(killed: Path) -> None:
    """Bytes that are not used belong to pages that are in the log, which SQLite reads from there."""
    database, log = killed / "crawl.db", read_log(killed / "crawl.db-wal")
    pages = database.stat().st_size // PAGE
    assert 2 <= len(log.pages) < pages / 2
    assert problems_of(killed) == []
    missed, rng = [], random.Random(17)
    for page in range(pages):
        at = page * PAGE + rng.randrange(PAGE)
        flip(database, at)
        damage = [problem.message for problem in seal_problems(killed)]
        if (page + 1 in log.pages) != (damage == []):
            missed.append(at)
        if page % 7 == 3 and page + 1 not in log.pages:
            assert set(damage) <= set(problems_of(killed))
        flip(database, at)
    assert missed == []
    assert problems_of(killed) == []


def test_reading_a_killed_crawl_leaves_its_log(killed: Path) -> None:
    before = (killed / "crawl.db-wal").read_bytes()
    assert run_command(["status", str(killed)]) == 0
    assert (killed / "crawl.db-wal").read_bytes() == before
    page = next(page for page in range(2, 100) if page not in read_log(killed / "crawl.db-wal").pages)
    flip(killed / "crawl.db", page * PAGE - 7)
    with pytest.raises(CollectionError, match=f"crawl.db at {(page - 1) * PAGE}: changed since"):
        Collection.open_for_writing(killed)
    flip(killed / "crawl.db", page * PAGE - 7)
    Collection.open_for_writing(killed).close()
    assert problems_of(killed) == []
    assert not (killed / "crawl.db-wal").exists()


def test_checksums_from_before_another_log_are_not_used(killed: Path) -> None:
    """A connection that is not ours wrote the log into the database: no damage is reported, and sums are made again."""
    with closing(sqlite3.connect(killed / "crawl.db")) as connection:
        connection.execute("UPDATE meta SET value = 'x' WHERE name = 'note'")
        connection.commit()
    assert not (killed / "crawl.db-wal").exists()
    assert problems_of(killed) == []
    Collection.open_for_append(killed).close()
    Collection.open_for_writing(killed).close()
    flip(killed / "crawl.db", 9_000)
    assert [line.partition(":")[0] for line in problems_of(killed)][:1] == ["crawl.db at 8192"]


def test_large_database_is_not_read_for_a_small_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage behind the first block is found by verify, also after a command has written and sealed the database."""
    monkeypatch.setattr(seal, "FULL_CHECK_BYTES", 100_000)
    path = folder / "crawl.db"
    at = path.stat().st_size - 70_000
    flip(path, at)
    collection = Collection.open_for_writing(folder)
    with collection.unit_of_work():
        collection.set_meta(note="x" * 10_000)
    collection.close()
    changed = [line for line in problems_of(folder) if "changed since it was written" in line]
    assert [line.partition(":")[0] for line in changed] == [f"crawl.db at {at // PAGE * PAGE}"]
    flip(path, at)
    assert problems_of(folder) == []
    flip(path, 60_000)
    with pytest.raises(CollectionError, match=r"crawl\.db at 57344: changed since"):
        Collection.open_for_writing(folder)
    flip(path, 60_000)
    with path.open("ab") as file:
        file.write(bytes(65_536))
    with pytest.raises(CollectionError, match="blocks of 4 KiB"):
        Collection.open_for_writing(folder)


def test_flipped_byte_in_the_log_of_a_killed_crawl_is_found(folder: Path, tmp_path: Path) -> None:
    """What was committed before a kill is in the log; SQLite itself ignores what follows a damaged part of it."""
    collection = Collection.open_for_writing(folder)
    for number in range(3):
        with collection.unit_of_work():
            collection.set_meta(note=str(number) * 5_000)
    size = (folder / "crawl.db-wal").stat().st_size
    killed = [Path(shutil.copytree(folder, tmp_path / f"k{number}")) for number in range(8)]
    collection.close()
    assert problems_of(killed[0]) == []
    places = (3, 20, 40, 60, size // 2, size - 4000, size - 4110)
    for copy, at in zip(killed[1:], places, strict=True):
        flip(copy / "crawl.db-wal", at)
        assert any(line.startswith("crawl.db-wal at ") for line in problems_of(copy)), at


def test_damaged_state_of_a_learner_is_restored_by_the_next_crawl(folder: Path) -> None:
    """The database is intact, but was written with a wrong state: the state has a checksum of its own."""
    collection = Collection.open_for_writing(folder)
    intact = {name: LearnerJournal(collection, name) for name in ("committee", "judge")}
    before = {name: (journal.load_snapshot(), list(journal.lessons())) for name, journal in intact.items()}
    with collection.unit_of_work():
        for name, (state, _) in before.items():
            assert state is not None
            changed = bytes([*state[:-9], state[-9] ^ 1, *state[-8:]])
            collection.connection.execute("UPDATE snapshot SET state = ? WHERE name = ?", (changed, name))
    collection.close()
    assert sorted(problems_of(folder)) == [STATE_DAMAGED.format("committee"), STATE_DAMAGED.format("judge")]
    assert run_command(["crawl", "--into", str(folder), "--pages", "8"]) == 0
    assert problems_of(folder) == []
    events = rows(folder, "SELECT data FROM event WHERE kind = 'ProblemsFound'")
    assert len(events) == 1 and b"committee" in events[0][0] and b"judge" in events[0][0]
    with open_readonly(folder) as restored:
        for name, (state, _) in before.items():
            found = LearnerJournal(restored, name).load_snapshot()
            # The last number of the committee's state is its estimate of the queue, made again at the end of each run.
            assert found is not None and state is not None and found[:-8] == state[:-8], name


@pytest.mark.parametrize("text", ["", "strategy = 'opilio'\n", "strategy = 'opilio'\ntopic = 7\n"])
def test_crawl_is_not_resumed_with_settings_that_were_cut(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "crawl.toml").write_text(text)
    assert any(line.endswith("restore a copy of it") for line in problems_of(folder))
    assert run_command(["crawl", "--into", str(folder), "--pages", "8"]) == 2
    assert f"{folder}/crawl.toml: " in capsys.readouterr().err
