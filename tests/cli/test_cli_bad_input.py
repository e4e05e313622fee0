"""Bad input: one clear line on stderr, exit 2 (usage, configuration) or 1 (failure), nothing overwritten."""

import random
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from checks.page_server import pages_of
from checks.small_webs import (
    COMMAND,
    SmallWeb,
    crawl,
    flags,
    grid,
    one_line,
    opilio,
    plain,
    robots,
    served,
    settings_for,
    stored,
    tree_of,
)
from opilio.manage.verify import verify
from opilio.store.annotations import delete_new_collection
from opilio.store.collection import Collection
from opilio.store.warc import warc_name

SEED = "http://h0.example/0.html"
LONG = "x" * 300  # no file system accepts it, like a folder without read permission


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


CONFIGS = {
    "not toml": ("topic = [", "is not valid TOML"),
    "a number without end": (f"[stop]\npages = {'9' * 5_000}\n", "is not valid TOML: a number has too many digits"),
    "lists without end": (f"x = {'[' * 5_000}\n", "is not valid TOML: it is nested too deeply"),
    "not text": ("\udcff", "is not UTF-8 text"),
    "unknown key": ("[politeness]\ndelay = 3\n", "unknown key 'politeness.delay' (did you mean 'delay_s'?)"),
    "unknown key behind a mark of the editor": ("\ufeff[politeness]\ndelay = 3\n", "unknown key 'politeness.delay'"),
    "unknown section": ("[polite]\nx = 1\n", "unknown key 'polite'"),
    "unknown strategy": ("strategy = 'bredth'\n", "strategy 'bredth': unknown (did you mean 'breadth'?)"),
    "unknown kind": ("[judge]\nkind = 'cosin'\n", "judge.kind = 'cosin': unknown (did you mean 'cosine'?)"),
    "unknown option of a kind": ("[judge]\nkind = 'cosine'\ntreshold = 1\n", "did you mean 'threshold'?"),
    "wrong type": ("[engine]\nworkers = 'many'\n", "c.toml: engine.workers: expected whole number, got string"),
    "no connections": ("[engine]\nconnections = 0\n", "engine.connections: expected whole number >= 1"),
    "too much to count": (f"[stop]\nharvest_window = {10**20}\n", "stop.harvest_window: expected whole number <="),
    "negative delay": ("[politeness]\ndelay_s = -1.0\n", "politeness.delay_s: expected number >= 0.0"),
    "endless delay": ("[politeness]\ndelay_s = inf\n", "politeness.delay_s: expected number <= 1000000000.0"),
    "endless patience": ("[fetch]\ntimeout_s = inf\n", "fetch.timeout_s: expected number <= 1000000000.0"),
    "name for nobody": (
        "[politeness]\nagent = 'My Bot/2'\n",
        "politeness.agent 'My Bot/2': must contain only letters",
    ),
    "no name": ("[politeness]\nagent = ''\n", "politeness.agent '': must contain only letters"),
    "contact of two lines": ('[politeness]\ncontact = "a\\nX-Evil: 1"\n', "must be one line of ASCII characters"),
    "contact that is no address": ("[politeness]\ncontact = 'nobody'\n", "politeness.contact 'nobody': not an address"),
    "missing example": ("[topic]\nexamples = ['no.html']\n", "topic.examples 'no.html': can't be read: No such file"),
    "harvest that can't be": ("[stop]\nharvest_below = 7\n", "stop.harvest_below: expected number <= 1.0"),
    "no proxy": ("[fetch]\nproxy = 'nonsense'\n", "fetch.proxy 'nonsense': not a valid proxy URL"),
    "option of another kind": ("[judge]\nthreshold = 1\n", "'judge.threshold' for kind 'learned'; it has middle"),
    "unknown merge": ("[frontier]\nmerge = 'most'\n", "frontier.merge = 'most': unknown"),
    "seed that is no url": ("[seeds]\nurls = ['birds']\n", "seed 'birds': not a valid http(s) URL"),
    "seed of another kind": ("[seeds]\nurls = ['ftp://a.example/']\n", "not a valid http(s) URL"),
    "seed of our own": ("[seeds]\nurls = ['http://127.0.0.1:8000/']\n", "allow it with --allow-private"),
    "engine without kind": ("[seeds.engines.mine]\nurl = 'x'\n", "seeds.engines.mine needs a kind"),
    "unknown option of an engine": ("[seeds.engines.brave]\nkye = 'x'\n", "did you mean 'key'?"),
    "lifetime that is over": (
        "[order]\nkind = 'expiring'\nlifetime_s = -1.0\n",
        "order.lifetime_s: expected number > 0.0",
    ),
    "words below none": (
        "[expansion]\nkind = 'pagewise'\nkeywords = -5\n",
        "expansion.keywords: expected whole number",
    ),
    "weight that is none": ("[rank]\nkind = 'tswt'\ntopic = nan\n", "rank.topic: expected number >= 0.0"),
    "priority of a seed": (f"[seeds.urls]\n'{SEED}' = 4\n", "its priority must be 1, 2 or 3, not 4"),
}
GOOD = f"[topic]\nname = 'wrens'\n[seeds]\nurls = ['{SEED}']\n"


@pytest.mark.parametrize("case", CONFIGS)
def test_configuration_is_refused_when_it_can_not_be_used(tmp_path: Path, case: str) -> None:
    text, result = CONFIGS[case]
    good = GOOD.replace(f"[seeds]\nurls = ['{SEED}']\n", "") if "[seeds" in text else GOOD
    good = good.replace("[topic]\n", "") if "[topic]" in text else good
    (tmp_path / "c.toml").write_bytes(f"{text}\n{good}".encode("utf-8", "surrogateescape"))
    done = opilio("crawl", "--config", tmp_path / "c.toml", "--into", tmp_path / "c")
    assert done.returncode == 2, done
    assert result in one_line(done)
    assert not (tmp_path / "c").exists(), "nothing is left behind"


COMMANDS = {
    "no topic": (["crawl", "--seed", SEED], 2, "no topic: give one"),
    "topic of another encoding": (["crawl", "caf\udce9", "--seed", SEED], 2, "topic 'caf\\udce9': is not UTF-8 text"),
    "built topic of another encoding": (["topic", "build", "caf\udce9"], 2, "topic 'caf\\udce9': is not UTF-8 text"),
    "misspelt folder": (["crawl", "--into", "nowhere"], 2, "--into nowhere: not a collection; give a topic to start"),
    "seed without topic": (["crawl", "--seed", SEED, "--into", "x"], 2, "--into x: not a collection; give a topic"),
    "missing config": (["crawl", "--config", "nowhere.toml"], 2, "nowhere.toml: can't be read: No such file"),
    "missing seeds": (["crawl", "wrens", "--seeds", "nowhere.txt"], 2, "--seeds nowhere.txt: can't be read"),
    "set without value": (["crawl", "wrens", "--seed", SEED, "--set", "x"], 2, "--set x: must look like"),
    "set of unknown key": (["crawl", "wrens", "--seed", SEED, "--set", "stop.page=1"], 2, "did you mean 'pages'?"),
    "set of a wrong value": (
        ["crawl", "wrens", "--seed", SEED, "--set", "stop.pages=few"],
        2,
        "--set stop.pages=few: stop.pages: expected whole number, got string",
    ),
    "set of a number without end": (
        ["crawl", "wrens", "--seed", SEED, "--set", f"stop.pages={'9' * 5_000}"],
        2,
        "stop.pages: expected whole number, got string",
    ),
    "proxy that is none": (
        ["crawl", "x", "--set", "fetch.proxy=y"],
        2,
        "--set fetch.proxy=y: fetch.proxy 'y': not a valid proxy URL",
    ),
    "shape without value": (["lab", "make", "web", "--shape", "pages"], 2, "--shape pages: must look like pages=500"),
    "name too long": (["status", LONG], 1, "can't be used: File name too long"),
    "file too long": (["lab", "demo", "--into", LONG], 1, "can't be used: File name too long"),
    "web too long": (["lab", "serve", LONG], 1, "can't be used: File name too long"),
    "port that can't be": (["lab", "serve", "--port", "99999"], 2, "'--port'"),
    "unknown option": (["crawl", "--sed", SEED], 2, "--sed"),
    "unknown command": (["craw"], 2, "craw"),
    "no number": (["crawl", "wrens", "--pages", "many"], 2, "'--pages'"),
    "status of nothing": (["status", "nowhere"], 1, "'opilio crawl TOPIC --into nowhere' makes one"),
    "why of nothing": (["why", "nowhere", SEED], 1, "nowhere: not a collection"),
    "verify of nothing": (["maintain", "verify", "."], 1, ".: not a collection"),
    "export of nothing": (["export", "nowhere"], 1, "nowhere: not a collection"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_command_is_refused_when_it_can_not_be_carried_out(tmp_path: Path, case: str) -> None:
    arguments, code, result = COMMANDS[case]
    done = opilio(*arguments, cwd=tmp_path)
    assert done.returncode == code, done
    assert result in one_line(done)
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_folder_is_named_by_the_beginning_of_a_topic_without_spaces(tmp_path: Path) -> None:
    topic = "关于欧洲鸟类的一切" * 20
    done = opilio("crawl", topic, "--seed", SEED, "--proxy", "http://127.0.0.1:9", "--minutes", "0.001", cwd=tmp_path)
    (made,) = tmp_path.iterdir()
    assert (done.returncode, topic.startswith(made.name), len(made.name.encode())) == (3, True, 198), done


def test_folder_of_other_files_is_not_said_to_become_a_collection(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    assert "not a collection (it contains no crawl.db); name a folder that a crawl made" in one_line(
        opilio("status", tmp_path)
    )


def test_crawl_leaves_a_file_alone_that_stands_where_its_folder_should(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    done = opilio("crawl", "wrens", "--seed", SEED, "--into", tmp_path / "thesis.txt")
    assert (done.returncode, "thesis.txt: is a file; choose a folder" in one_line(done)) == (1, True)


def test_seeds_are_explained_when_no_page_came(tmp_path: Path) -> None:
    with served(SmallWeb({"http://h0.example/robots.txt": robots("", 503)})) as server:
        done = opilio("crawl", *flags(settings_for(server, [SEED])), "--into", tmp_path / "c")
        assert done.returncode == 3
        assert done.stderr.splitlines() == [
            "no page could be fetched:",
            f"seed {SEED}: robots.txt can't be read (status 503)",
        ]
        assert done.stdout.splitlines()[-1].startswith("stopped: no page could be fetched")
        again = opilio("crawl", "--into", tmp_path / "c", "--json")
        assert (again.returncode, again.stderr) == (3, done.stderr)
    assert done.stderr.strip() in opilio("status", tmp_path / "c").stdout


def test_closed_port_ends_with_its_own_exit_code_and_advice_also_on_the_errors_page(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        seed = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    more = ("--workers", 0, "--set", "stop.patience_s=0", "--allow-private", "--into", tmp_path / "c")
    done = opilio("crawl", "wrens", "--seed", seed, *more)
    assert done.returncode == 3
    advice = "the server refuses connections or can't be reached: check host and port"
    assert advice in done.stderr.splitlines()[-1]
    with pages_of([tmp_path / "c"], tmp_path) as client:
        shown = client.get("/c/c/errors").text
    assert "No page could be fetched" in shown
    assert "check host and port" in shown


def test_server_without_tls_is_named_as_a_cause_when_the_seed_has_https(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            channel, _ = server.accept()
            with channel:
                channel.recv(4096)
                channel.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=refuse)
        answering.start()
        seed = f"https://127.0.0.1:{server.getsockname()[1]}/"
        more = ("--workers", 0, "--set", "stop.patience_s=0", "--allow-private", "--into", tmp_path / "c")
        done = opilio("crawl", "wrens", "--seed", seed, *more)
        answering.join()
    assert (done.returncode, "or the server has no TLS (use http://)" in done.stderr) == (3, True)


def test_example_that_is_gone_leaves_nothing_behind_and_can_be_corrected(tmp_path: Path) -> None:
    with served(SmallWeb(grid(hosts=1, pages=2))) as server:
        known = flags(settings_for(server, [SEED]))
        gone = opilio("crawl", *known, "--set", f'topic.examples=["{SEED}-gone"]', "--into", tmp_path / "c")
        assert (gone.returncode, "can't be fetched (status 404)" in one_line(gone)) == (2, True)
        assert list(tmp_path.iterdir()) == []
        done = opilio("crawl", *known, "--set", f'topic.examples=["{SEED}"]', "--into", tmp_path / "c")
    assert (done.returncode, len(stored(tmp_path / "c"))) == (0, 2), done


def test_collection_that_has_begun_is_not_taken_back(folder: Path) -> None:
    before = snapshot(folder)
    delete_new_collection(folder)
    assert snapshot(folder) == before


def test_name_that_leads_home_is_reported_and_so_is_a_missing_contact(tmp_path: Path) -> None:
    home = 'fetch.resolve={"h0.example" = "127.0.0.1:9"}'
    done = opilio("crawl", "wrens", "--seed", SEED, "--set", home, "--workers", 0, "--into", tmp_path / "c")
    contact, _, seed = done.stderr.splitlines()
    assert (done.returncode, "politeness.contact=URL" in contact) == (3, True)
    assert seed == f"seed {SEED}: private-address: needs --allow-private (cloud metadata is always refused)"


def test_private_addresses_are_refused_again_when_a_resumed_crawl_says_so(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"{GOOD}[fetch]\nallow_private = true\n".replace(SEED, "http://127.0.0.1:9/"))
    done = opilio("crawl", "--config", tmp_path / "c.toml", "--no-allow-private", "--into", tmp_path / "c")
    assert (done.returncode, "allow it with --allow-private" in one_line(done)) == (2, True)
    assert not (tmp_path / "c").exists()


def test_help_is_all_there_is_when_nothing_is_asked(tmp_path: Path) -> None:
    done = opilio(cwd=tmp_path)
    assert (done.returncode, done.stderr, "crawl" in done.stdout) == (2, "", True)


def test_crawl_leaves_a_folder_alone_when_it_holds_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = opilio("crawl", "wrens", "--seed", SEED, "--into", tmp_path)
    assert done.returncode == 1
    assert "is not empty and not a collection" in one_line(done)
    assert snapshot(tmp_path) == {"thesis.txt": b"years of work"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "c"
    with served(SmallWeb(grid(2, 20))) as server:
        crawl(folder, settings_for(server, [SEED], stop={"pages": 25}))
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    for name, data in snapshot(original).items():
        (tmp_path / "c").mkdir(exist_ok=True)
        (tmp_path / "c" / name).write_bytes(data)
    return tmp_path / "c"


def destroy_header(folder: Path) -> None:
    database = folder / "crawl.db"
    database.write_bytes(b"\x00" * 200 + database.read_bytes()[200:])


def destroy_middle(folder: Path) -> None:
    database = folder / "crawl.db"
    data = database.read_bytes()
    database.write_bytes(data[:8192] + random.Random(1).randbytes(len(data) - 8192))


def destroy_newer(folder: Path) -> None:
    connection = sqlite3.connect(folder / "crawl.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def destroy_config(folder: Path) -> None:
    (folder / "crawl.toml").write_text("[[[")


def one_problem(folder: Path) -> str:
    """The one line that `verify` prints."""
    done = opilio("maintain", "verify", folder)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (1, "", 1), done
    return done.stdout


DAMAGE = {
    "header": (destroy_header, "is damaged (no SQLite header)"),
    "middle": (destroy_middle, "can't be used"),
    "newer": (destroy_newer, "was made by a newer Opilio"),
}


@pytest.mark.parametrize("command", ["crawl", "status", "why", "maintain verify", "export"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_collection_is_reported_and_not_touched(folder: Path, damage: str, command: str) -> None:
    harm, result = DAMAGE[damage]
    harm(folder)
    before = snapshot(folder)
    arguments = {"why": [folder, SEED], "crawl": ["--into", folder]}.get(command, [folder])
    done = opilio(*command.split(), *arguments)
    if damage == "middle" and command == "maintain verify":
        assert done.returncode == 1  # its work: a list, or the one line
        assert "opilio maintain verify" not in done.stderr
        return
    assert done.returncode == 1, done
    assert result in one_line(done)
    after = snapshot(folder)
    assert after["crawl.db"] == before["crawl.db"]
    assert after["crawl.toml"] == before["crawl.toml"]
    assert after[warc_name(1)] == before[warc_name(1)]


def test_copy_of_a_folder_to_a_folder_is_refused(folder: Path) -> None:
    done = opilio("maintain", "copy", folder, folder.parent / "copy")
    assert (done.returncode, "are folders; use cp -r, or give the address of a database" in one_line(done)) == (2, True)


def test_damaged_settings_are_reported(folder: Path) -> None:
    destroy_config(folder)
    done = opilio("crawl", "--into", folder)
    assert (done.returncode, "is not valid TOML" in one_line(done)) == (2, True)
    assert "is not valid TOML" in one_problem(folder)


def test_missing_settings_are_reported(folder: Path) -> None:
    (folder / "crawl.toml").unlink()
    assert "crawl.toml: can't be read: No such file" in one_problem(folder)


def test_settings_that_can_not_be_used_are_reported(folder: Path) -> None:
    (folder / "crawl.toml").write_text("[politeness]\ndelay = 3\n")
    assert "crawl.toml: unknown key 'politeness.delay'" in one_problem(folder)


OTHERWISE = [
    (["--strategy", "s0"], "was started with 'breadth'"),
    (["--set", "judge.kind=contains"], "judge.kind = 'contains': "),
    (["--set", "rank.kind=shark"], "was started with 'breadth'; choose another --into"),
    (["--set", "order.kind=best-first"], "order.kind = 'best-first': "),
    (["--set", "boost.kind=pagerank"], "was started with 'none'; choose another --into"),
    (["trains"], "was started with 'wrens"),
    (["--set", 'topic.keywords=["xylophone"]'], "topic.keywords ['xylophone']: "),
    (["--set", "topic.description=xylophones"], "change the topic on its page ('opilio serve "),
    (["--set", 'topic.examples=["nofile.html"]'], "was started with []"),
    (["--set", "topic.keyword=x"], "did you mean 'keywords'?"),
]


@pytest.mark.parametrize(("option", "result"), OTHERWISE)
def test_collection_is_not_mixed_when_resumed_otherwise(folder: Path, option: list[str], result: str) -> None:
    before = snapshot(folder)
    done = opilio("crawl", *option, "--into", folder)
    assert done.returncode == 2
    assert result in one_line(done)
    assert snapshot(folder)["crawl.db"] == before["crawl.db"]


@pytest.mark.parametrize("option", ["order.factor=0.1", "order.every=7", 'order.mode="off"'])
def test_scale_of_waiting_links_stays_as_it_was_begun(tmp_path: Path, option: str) -> None:
    with served(SmallWeb(grid(hosts=1, pages=3))) as server:
        known = flags(settings_for(server, [SEED], order={"kind": "aging"}, stop={"pages": 1}))
        assert opilio("crawl", *known, "--into", tmp_path / "c").returncode == 0
        refused = opilio("crawl", "--into", tmp_path / "c", "--set", option)
        same = opilio("crawl", "--into", tmp_path / "c", "--set", "order.factor=0.05", "--pages", 2)
    assert (refused.returncode, f"{option.partition('=')[0]} = " in one_line(refused)) == (2, True), refused
    assert same.returncode == 0, same


@pytest.mark.parametrize("given", ["--set stop.page=1", "--config my.toml"])
def test_resume_names_what_was_given_wrong_and_not_the_stored_settings(folder: Path, given: str) -> None:
    (folder.parent / "my.toml").write_text("[stop]\npage = 1\n")
    done = opilio("crawl", "--into", folder, *given.split(), cwd=folder.parent)
    result = f"opilio: {given.removeprefix('--config ')}: unknown key 'stop.page' (did you mean 'pages'?)"
    assert (done.returncode, one_line(done)) == (2, result)


@pytest.mark.parametrize(
    "command", ["status DIR", "maintain verify DIR", "maintain compact DIR", f"label DIR {SEED} --irrelevant"]
)
def test_disk_without_room_is_not_reported_as_damage(folder: Path, command: str) -> None:
    """SQLite needs a few kilobytes beside a database to read it at all."""
    done = subprocess.run(
        [sys.executable, "-m", "opilio", *command.replace("DIR", str(folder)).split()],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert (done.returncode, "is the disk full, or failing?" in one_line(done)) == (1, True), done
    assert verify(folder) == []


def test_second_crawl_into_a_folder_is_refused(folder: Path) -> None:
    held = Collection.open_for_writing(folder)
    done = opilio("crawl", "--into", folder)
    held.close()
    assert done.returncode == 1
    assert "another crawl is writing to this collection" in one_line(done)


def test_missing_warc_file_is_reported(folder: Path) -> None:
    (folder / warc_name(1)).unlink()
    done = opilio("crawl", "--into", folder)
    assert (done.returncode, "bytes are missing at the end" in one_line(done)) == (1, True)
    assert not (folder / warc_name(1)).exists()
    done = opilio("export", folder, "--out", folder / "x.jsonl")
    assert (done.returncode, "run 'opilio maintain verify'" in one_line(done)) == (1, True)
    assert not (folder / "x.jsonl").exists()
    assert opilio("maintain", "verify", folder).returncode == 1


def test_export_overwrites_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("mine")
    done = opilio("export", folder, "--out", tmp_path / "mine.jsonl")
    assert (done.returncode, "already exists" in one_line(done)) == (2, True)
    assert (tmp_path / "mine.jsonl").read_text() == "mine"
    done = opilio("export", folder, "--out", tmp_path / "no" / "x.jsonl")
    assert (done.returncode, "can't be written: No such file or directory" in one_line(done)) == (2, True)
    done = opilio("export", folder, "--format", "xml")
    assert (done.returncode, "--format xml: unknown" in one_line(done)) == (2, True)


LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2); "


@pytest.mark.parametrize("kib", [8, 60, 120])
def test_full_disk_is_reported_and_the_crawl_continues_later(tmp_path: Path, kib: int) -> None:
    """No file may grow beyond so much: making the collection fails, or a commit, or a WARC file."""
    web = grid(3, 40)
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [SEED])
        arguments = ["crawl", *flags(tree), "--into", str(tmp_path / "c")]
        limited = [sys.executable, "-c", LIMITED + COMMAND[2], str(kib << 10), *arguments]
        done = subprocess.run(limited, capture_output=True, text=True, env=plain(), check=False)
        assert done.returncode == 1, done
        line = one_line(done)
        assert "can't write" in line or "can't make a collection here" in line or "can't be used" in line
        crawl(tmp_path / "c", tree)
    assert stored(tmp_path / "c") == tree_of(web)
    assert verify(tmp_path / "c") == []
