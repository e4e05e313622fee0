"""`opilio lab`: results, reports, and clear words about webs that can't be used."""

import gzip
import json
import re
import shutil
import socket
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import tomli_w
from msgspec.structs import replace

from opilio.cli.main import run_command
from opilio.core.errors import OfflineWebError
from opilio.lab.experiments.declarations import PAPER_SUITES, Plot, load_experiment
from opilio.lab.experiments.results import RunResult, read_results
from opilio.lab.reports.plots import draw_plots
from opilio.lab.reports.report import END_NOTE, ReportInput, paper_comparison_table
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.resources import default_cache_folder

TINY = WebShape(pages=60, hosts=4, topics=2, trap_pages=4, seed_sets=2, slow_hosts=0, failing_hosts=0)
KEYS = (
    "experiment web topic strategy seed_set random_seed budget fetched relevant_found relevant_reachable "
    "harvest recall auc_vs_oracle curve cpu_s wall_s failures repeats duplicates"
).split()


class Done(NamedTuple):
    code: int
    out: str
    err: str


Lab = Callable[..., Done]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def lab(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Lab:
    """The command in this process: what `opilio lab WORDS` returns and writes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))

    def called(*words: object) -> Done:
        code = run_command(["lab", *map(str, words)])
        return Done(code, *capfd.readouterr())

    return called


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_synthetic_web(TINY, tmp_path_factory.mktemp("webs") / "tiny")


@pytest.fixture
def damaged(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "damaged")


@pytest.fixture
def run(lab: Lab) -> Lab:
    """A short comparison."""

    def called(web: Path, out: Path, *words: object) -> Done:
        few = ("--pages", 30, "--seed-sets", 1, "--processes", 1, "--no-plots")
        return lab("run", "compare", "--web", web, "--out", out, *few, "--strategy", "breadth", *words)

    return called


def test_run_writes_results_report_and_plots(run: Lab, tiny: Path, tmp_path: Path) -> None:
    done = run(tiny, tmp_path, "--strategy", "s0", "--plots", "--json")
    assert done.code == 0, done.err
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["schema"] == 1
    assert len(results["runs"]) == 2 * 2 * 2  # strategies, topics, kinds of seeds
    assert all(key in run for key in KEYS for run in results["runs"])
    assert {run["strategy"] for run in results["bounds"]} == {"random"}
    assert set(json.loads(done.out)["strategies"]) == {"breadth", "s0"}
    assert "## Paired comparison" in (tmp_path / "report.md").read_text()
    assert {p.suffix for p in tmp_path.glob("harvest.*")} == {".svg", ".png"}


def test_results_have_a_place_when_none_is_given(
    lab: Lab, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command is shown everywhere: without --out."""
    monkeypatch.chdir(tmp_path)
    few = ("--topic", "birds", "--pages", 10, "--seed-sets", 1, "--processes", 1, "--no-plots")
    done = lab("run", "compare", "--web", tiny, "--strategy", "breadth", *few)
    assert (done.code, (tmp_path / "lab-compare" / "results.json").exists()) == (0, True), done.err


def test_random_seed_decides_the_curves_whatever_the_processes(run: Lab, tiny: Path, tmp_path: Path) -> None:
    words = ("--strategy", "s0", "--topic", "birds", "--random-seed", 5)
    for name, processes in (("one", 1), ("two", 2)):
        assert run(tiny, tmp_path / name, *words, "--processes", processes).code == 0
    one, two = (read_results(tmp_path / name / "results.json") for name in ("one", "two"))
    assert [r.curve for r in one] == [r.curve for r in two]
    assert {r.random_seed for r in one} == {5}


def test_s0_experiment_prints_the_papers_columns(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    """S0-32, S0-33."""
    done = lab("run", "s0-32", "--web", tiny, "--out", tmp_path, "--pages", 100, "--seed-sets", 1)
    assert done.code == 0, done.err
    report = (tmp_path / "report.md").read_text()
    columns = [f"{name}: label | self | paper" for name in ("breadth", "s0-earlier", "s0")]
    assert f"| pages | {' | '.join(columns)} | ceiling |" in report
    assert "The data differ" in report
    assert "hollow: the paper" in (tmp_path / "harvest.svg").read_text()
    plots = ("harvest-s0-breadth", "harvest-s0-earlier", "harvest")  # against each, and all three
    assert all((tmp_path / f"{name}.png").exists() for name in plots)


def test_papers_experiments_run_with_one_command(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    done = lab("run", "paper-s0", "--web", tiny, "--out", tmp_path, "--pages", 20, "--seed-sets", 1, "--no-plots")
    assert done.code == 0, done.err
    assert (tmp_path / "s0-32" / "report.md").exists()
    saved = (tmp_path / "s0-09" / "report.md").read_text()
    assert "| variant | fetches | byte-identical copies fetched | relevant pages found | time, s | CPU, s |" in saved


def test_every_experiment_of_a_paper_is_declared() -> None:
    assert list(PAPER_SUITES) == [f"paper-s{number}" for number in range(5)]
    for names in PAPER_SUITES.values():
        assert [load_experiment(name).name for name in names] == list(names)
        assert all(load_experiment(name).shape for name in names)  # the command needs no web


def test_experiments_of_s3_are_executed_ten_times_s3_32() -> None:
    declared = [load_experiment(name) for name in PAPER_SUITES["paper-s3"]]
    assert [(e.executions, e.latency_s > 0, bool(e.shape)) for e in declared] == [(10, True, True)] * 7
    assert all(e.coverage < 1 for e in declared)  # so that every execution has seeds of its own


def test_sweep_draws_a_measure_over_the_variants_s3_33_s3_37(tmp_path: Path) -> None:
    def run(variant: str, seed: int) -> RunResult:
        return RunResult(
            experiment="e", web="w", topic="t", strategy=variant, seed_set="s", random_seed=seed, budget=2, fetched=2,
            relevant_found=1, relevant_reachable=2, harvest=0.5, recall=0.5, auc_vs_oracle=0.5, curve=((2, 1),),
        )  # fmt: skip

    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    experiment = load_experiment("s3-33")
    runs = [run(variant.name, seed) for variant in experiment.variants for seed in (0, 1)]
    blocks = Plot(file="blocks", kind="blocks", variants=("r = 1",))
    bars = Plot(file="bars", kind="precision", measure="containing", ylabel="share that contains the query")
    more = [Plot(file="irrelevant", kind="irrelevant"), bars]  # Figs 5 and 8 of S3
    drawn = draw_plots(runs, tmp_path, replace(experiment, plot=(*experiment.plot, *more, blocks), window=1))
    assert drawn[-5:] == ["time", "precision", "irrelevant", "bars", "blocks"]
    assert "irrelevant pages" in (tmp_path / "irrelevant.svg").read_text()
    assert "share that contains the query" in (tmp_path / "bars.svg").read_text()
    assert (tmp_path / "time.svg").stat().st_size > 1000
    assert "relevant in 1 fetches" in (tmp_path / "blocks.svg").read_text()  # S2-43: one bar per block and variant


def test_harvest_of_a_finished_crawl_is_that_of_its_pages_and_marked_s0_32() -> None:
    """Eq. 7 divides by the pages downloaded, not by the checkpoint that the crawl never reached."""
    run = RunResult(
        experiment="s0-32",
        web="w",
        topic="t",
        strategy="s0",
        seed_set="on-topic-1",
        random_seed=0,
        budget=1000,
        fetched=200,
        relevant_found=100,
        relevant_reachable=250,
        harvest=0.5,
        recall=0.4,
        auc_vs_oracle=0.5,
        curve=((100, 80), (200, 100)),
    )
    text = paper_comparison_table(ReportInput(load_experiment("s0-32"), [run]), [run])
    rows = [line for line in text.splitlines() if line.startswith(("| 1", "| 5"))]
    assert rows == ["| 100 | 0.80 | 0.86 | 1.00 |", "| 500 | 0.50† | 0.81 | 0.50 |", "| 1,000 | 0.50† | 0.78 | 0.25 |"]
    assert END_NOTE in text


def test_declaration_of_a_user_runs_variants_of_one_strategy(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    sizes = [{"name": f"{n} words", "strategy": "s0", "set": {"topic": {"table_size": n}}} for n in (1, 30)]
    declared = {"name": "sizes", "title": "Sizes", "budget": 20, "seed_sets": 1, "window": 10, "sections": ["windows"]}
    path = tmp_path / "sizes.toml"
    path.write_text(tomli_w.dumps({**declared, "variant": sizes}))
    done = lab("run", path, "--web", tiny, "--out", tmp_path / "out", "--topic", "birds")
    assert done.code == 0, done.err
    assert {r.strategy for r in read_results(tmp_path / "out" / "results.json")} == {"1 words", "30 words"}
    assert "| fetches | 1 words | 30 words |" in (tmp_path / "out" / "report.md").read_text()


def test_webs_lists_what_seed_sets_reach(lab: Lab, tiny: Path) -> None:
    done = lab("webs", tiny, "--json")
    (web,) = json.loads(done.out)["webs"]
    assert web["pages"] > 60
    assert len(web["topics"]) == 2
    # S2-36: Table 4 counts URLs, topics, URLs on the topic, and topics that belong to it.
    labels = [line.split("\t")[1].split("|") for line in (tiny / "labels.tsv").read_text().splitlines()]
    topic = web["topics"][0]
    own = [name for names in labels for name in names if name.startswith(f"topic.{topic['name']}")]
    assert web["labels"] == len({name for names in labels for name in names if not name.startswith("_")}) > 3
    assert (topic["relevant"], topic["labels"]) == (len(own), len(set(own)))
    assert f"{topic['relevant']} relevant, {topic['labels']} of the labels" in lab("webs", tiny).out
    assert all(s["relevant"] == sum(s["at_depth"]) for t in web["topics"] for s in t["seed_sets"])
    assert "reaches" in lab("webs", tiny).out


def test_make_writes_the_same_web_for_the_same_seed(lab: Lab, tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = lab("make", tmp_path / name, "--seed", 9, "--shape", "pages=40", "--shape", "topics=1")
        assert done.code == 0, done.err
    first, second = (sorted(p for p in (tmp_path / n).iterdir()) for n in ("a", "b"))
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_truncated_warc_is_used_as_far_as_it_goes(run: Lab, damaged: Path, tmp_path: Path) -> None:
    path = damaged / "web.warc.gz"
    path.write_bytes(path.read_bytes()[:-2000])
    done = run(damaged, tmp_path / "out")
    assert done.code == 0, done.err
    assert "skipped: web.warc.gz: truncated from byte" in done.err
    assert "truncated from byte" in (tmp_path / "out" / "report.md").read_text()


def test_label_for_an_unknown_address_is_skipped(run: Lab, damaged: Path, tmp_path: Path) -> None:
    with (damaged / "labels.tsv").open("a") as labels:
        labels.write("http://nowhere.example/\ttopic.birds\n")
    done = run(damaged, tmp_path / "out")
    assert done.code == 0
    assert "http://nowhere.example/: label for an address that the web does not hold" in done.err


def test_duplicate_record_is_skipped(run: Lab, damaged: Path, tmp_path: Path) -> None:
    path = damaged / "web.warc.gz"
    path.write_bytes(path.read_bytes() * 2)
    done = run(damaged, tmp_path / "out")
    assert done.code == 0
    assert "recorded more than once; the first record is used" in done.err
    assert "more; 'opilio lab webs --json' lists all" in done.err


def _topics(folder: Path, text: str) -> None:
    (folder / "topics.toml").write_text(text)


def test_topic_without_seeds_is_skipped_and_the_rest_runs(run: Lab, damaged: Path, tmp_path: Path) -> None:
    kept = (damaged / "topics.toml").read_text()
    _topics(damaged, kept + '\n[[topic]]\nname = "rivers"\nrelevant = ["x"]\n')
    done = run(damaged, tmp_path / "out")
    assert done.code == 0
    assert "rivers: topic without a usable seed; skipped" in done.err


def test_second_seed_set_of_a_name_is_skipped(run: Lab, damaged: Path, tmp_path: Path) -> None:
    _topics(damaged, (damaged / "topics.toml").read_text().replace('"on-topic-2"', '"on-topic-1"'))
    done = run(damaged, tmp_path / "out")
    assert done.code == 0
    assert "birds/on-topic-1: second seed set of this name; skipped" in done.err


def test_cache_folder_that_cant_be_used_costs_nothing_but_time(
    lab: Lab, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert lab("webs", tiny).code == 0
    (spare,) = tmp_path.glob("opilio-*")
    assert (spare.stat().st_mode & 0o077, any(spare.glob("lab/pages-*"))) == (0, True)
    spare.chmod(0o777)  # anybody could have put it there
    with pytest.raises(OfflineWebError, match="other users can write to it; set XDG_CACHE_HOME"):
        default_cache_folder()


def _no_seeds(folder: Path) -> None:
    _topics(folder, '[[topic]]\nname = "rivers"\nrelevant = ["x"]\n')


def _no_toml(folder: Path) -> None:
    _topics(folder, "[[topic")


def _nothing_relevant(folder: Path) -> None:
    text = (folder / "topics.toml").read_text()
    _topics(folder, text.replace('"topic.', '"nothing.'))


def _no_seed_inside(folder: Path) -> None:
    text = (folder / "topics.toml").read_text()
    _topics(folder, re.sub(r'"http[^"]+"', '"http://elsewhere.example/"', text))


def _no_warc(folder: Path) -> None:
    (folder / "web.warc.gz").unlink()


def _no_record(folder: Path) -> None:
    (folder / "web.warc.gz").write_bytes(gzip.compress(b"no record"))


def _no_labels(folder: Path) -> None:
    (folder / "labels.tsv").unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_no_seeds, "no usable topic in topics.toml"),
        (_no_toml, "topics.toml:"),
        (_nothing_relevant, "nothing to run: birds: no page has a label that makes it relevant (nothing.birds)"),
        (_no_seed_inside, "nothing to run: birds/on-topic-1: 1 of 1 seeds not in the web"),
        (_no_warc, "no *.warc.gz file with anything in it"),
        (_no_record, "no page in 1 files"),
        (_no_labels, "no labels, so crawls of this web can't be scored"),
    ],
)
def test_web_that_leaves_nothing_sensible_ends_with_2(
    spoil: object, message: str, run: Lab, damaged: Path, tmp_path: Path
) -> None:
    assert callable(spoil)
    spoil(damaged)
    done = run(damaged, tmp_path / "out")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "brids"), "topic 'brids': unknown; known: "),
        (("--strategy", "bredth"), "did you mean 'breadth'?"),
        (("--strategy", "peer:nutch"), "peer:nutch: unknown"),
        (("--set", "rank.thresh=1"), "unknown key"),
    ],
)
def test_unknown_names_end_with_2(words: tuple[str, ...], message: str, run: Lab, tiny: Path, tmp_path: Path) -> None:
    done = run(tiny, tmp_path / "out", *words)
    assert done.code == 2
    assert message in done.err


def test_unknown_strategy_is_reported_with_the_variants_there_are(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('\ufefftitle = "x"\nname = "own"\n[[variant]]\nname = "mine"\nstrategy = "s0"\n', "utf-8")
    done = lab("run", own, "--web", tiny, "--strategy", "nein")
    assert (done.code, "strategy 'nein': unknown" in done.err, "known: mine, best-first" in done.err) == (
        2,
        True,
        True,
    )
    own.write_text('title = "x"\nname = "own"\n[[variant]]\nname = "mine"\nstrategy = "s00"\n', "utf-8")
    done = lab("run", own, "--web", tiny)
    assert (done.code, "variant 'mine': strategy 's00': unknown (did you mean 's0'?)" in done.err) == (2, True), done


DECLARED = 'name = "own"\ntitle = "x"\n{}\n[[variant]]\nname = "breadth"\n[[variant]]\nname = "s0"\n{}'


@pytest.mark.parametrize(
    ("above", "below", "message"),
    [
        ('bounds = ["oracel"]', "", "bounds 'oracel': unknown (did you mean 'oracle'?); known: random, oracle"),
        ('reference = "bredth"', "", "reference 'bredth': unknown (did you mean 'breadth'?); known: breadth, s0, "),
        ('also = ["x"]', "", "also 'x': unknown; known: breadth, s0, "),
        ('paper = "S0-3"', "", "paper 'S0-3': unknown (did you mean 'S0-32'?)"),
        ('classes = { birds = ["abc"] }', "", 'topic.dewey "abc": not a class'),
        ("latency_s = inf", "", "latency_s: expected number <= 3600.0"),
        ("", '[[plot]]\nfile = "x"\nkind = "bar"', "plot.kind 'bar': unknown; known: harvest, "),
        ("", '[[plot]]\nfile = "x"\nvariants = ["s1"]', "plot.variants 's1': unknown (did you mean 's"),
        ("", '[[plot]]\nfile = "sub/x"', "plot.file 'sub/x': must be a name, without a folder"),
    ],
)
def test_wrong_declaration_is_reported_before_the_first_run(
    above: str, below: str, message: str, lab: Lab, tiny: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(DECLARED.format(above, below))
    done = lab("run", own, "--web", tiny, "--out", tmp_path / "out")
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert message in done.err
    assert not (tmp_path / "out").exists()


def test_reference_that_is_not_run_gives_way_to_the_last_one(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(DECLARED.format('reference = "opilio"\nbudget = 10\nseed_sets = 1', ""))
    lab("run", own, "--web", tiny, "--out", tmp_path / "out", "--no-plots", "--processes", 1)
    assert "| s0 − breadth |" in (tmp_path / "out" / "report.md").read_text()


def test_webs_of_one_name_are_distinguished(run: Lab, tiny: Path, tmp_path: Path) -> None:
    for place in ("old", "new"):
        shutil.copytree(tiny, tmp_path / place / "web")
    old, new = tmp_path / "old" / "web", tmp_path / "new" / "web"
    done = run(old, tmp_path / "out", "--web", new, "--web", tmp_path / "new" / ".." / "new" / "web")
    assert done.code == 0
    assert {r.web for r in read_results(tmp_path / "out" / "results.json")} == {"old/web", "new/web"}
    assert "Web: old/web, new/web. 4 topics, 8 cases" in (tmp_path / "out" / "report.md").read_text()


def test_topic_that_is_named_twice_is_crawled_once(run: Lab, tiny: Path, tmp_path: Path) -> None:
    run(tiny, tmp_path / "out", "--topic", "birds", "--topic", "birds")
    assert [r.seed_set for r in read_results(tmp_path / "out" / "results.json")] == ["generic-1", "on-topic-1"]


def test_seeds_outside_the_web_are_reported(run: Lab, lab: Lab, damaged: Path, tmp_path: Path) -> None:
    text = (damaged / "topics.toml").read_text()
    _topics(damaged, re.sub(r'urls = \[\s+"[^"]+"', 'urls = [\n"http://elsewhere.example/"', text))
    assert "birds/on-topic-1: 1 of 3 seeds not in the web" in run(damaged, tmp_path / "out").err
    assert "; 1 of 3 seeds not in the web" in lab("webs", damaged).out


HUGE = "100000000000000000000"
WRONG = ["locality=7", "mirrors=-1", "hub_links=-4", "seed_sets=0", "page=3", "links=[9, 3]"]
WRONG += [f"hubs={HUGE}", f"pages={HUGE}", f"trap_pages={HUGE}", f"seed_sets={HUGE}", f"links=[1, {HUGE}]"]


@pytest.mark.parametrize("wrong", WRONG)
def test_make_writes_nothing_when_a_shape_is_wrong(lab: Lab, tmp_path: Path, wrong: str) -> None:
    done = lab("make", tmp_path / "w", "--shape", wrong)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert wrong.partition("=")[0] in done.err
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("place", ["file", "file/x"])
def test_place_that_is_no_folder_is_reported_before_the_first_run(
    run: Lab, tiny: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()
    done = run(tiny, tmp_path / place)
    assert (done.code, f"--out {tmp_path / place}: can't be written: " in done.err) == (2, True), done.err
    assert not {"Traceback", "runs"} & set(done.err.split())


def test_serve_reports_that_its_log_cant_be_written_before_it_serves(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it would end, were the log not looked at first
        port = taken.getsockname()[1]
        done = lab("serve", tiny, "--port", port, "--log", tmp_path / "none" / "log")
        assert (done.code, done.out) == (2, "")
        assert f"--port {port}: can't be used" in lab("serve", tiny, "--port", port).err
    assert f"--log {tmp_path / 'none' / 'log'}: can't be written: No such file" in done.err


@pytest.mark.parametrize("place", ["file", "file/x"])
def test_make_reports_that_a_place_is_no_folder(lab: Lab, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    done = lab("make", tmp_path / place, "--shape", "pages=60", "--shape", "hosts=4", "--shape", "topics=2")
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert f"{tmp_path / place}: can't be written: " in done.err


def test_revisit_reports_that_a_place_is_no_folder(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = lab("revisit", "--web", tiny, "--out", tmp_path / "file")
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err


def test_unknown_experiment_names_the_known_ones(lab: Lab, tiny: Path, tmp_path: Path) -> None:
    done = lab("run", "compere", "--web", tiny, "--out", tmp_path)
    assert done.code == 2
    assert "did you mean 'compare'?" in done.err


def test_folder_that_is_not_there_ends_with_2(lab: Lab, tmp_path: Path) -> None:
    assert lab("webs", tmp_path / "nowhere").code == 2
    assert lab("serve", tmp_path).code == 2


def test_revisit_wants_a_topic_and_takes_any_seeds(lab: Lab, damaged: Path, tmp_path: Path) -> None:
    few = ("--out", tmp_path / "out", "--pages", 10, "--days", 1, "--topics", 1, "--policy", "fixed")
    topics = damaged / "topics.toml"
    topics.write_text(topics.read_text().replace("on-topic", "mine").replace("generic", "theirs"))
    assert lab("revisit", "--web", damaged, *few).code == 0
    topics.unlink()
    done = lab("revisit", "--web", damaged, *few)
    assert (done.code, "no usable topic in topics.toml" in done.err) == (2, True)


def test_topic_that_a_variant_can_make_nothing_of_is_skipped_before_the_first_run(
    lab: Lab, damaged: Path, tmp_path: Path
) -> None:
    """S3-35 wants words of the senses that are not meant; a topic without any would end the runs half-way."""
    topics = damaged / "topics.toml"
    tree = tomllib.loads(topics.read_text())
    tree["topic"][0]["contexts"] = ["gearbox"]
    topics.write_text(tomli_w.dumps(tree))
    few = ("--web", damaged, "--out", tmp_path / "out", "--pages", 10, "--processes", 1, "--no-plots")
    done = lab("run", "s3-35-real", *few)
    first, second = (topic["name"] for topic in tree["topic"])
    assert (done.code, f"skipped: {second}: 'contexts' can't crawl for it" in done.err) == (0, True)
    assert {run.topic for run in read_results(tmp_path / "out" / "results.json")} == {first}
    assert lab("run", "s3-35-real", *few, "--topic", second).code == 2


def test_search_that_finds_nothing_is_no_case(lab: Lab, damaged: Path, tmp_path: Path) -> None:
    """It would count as 0 for every crawler, as a seed set that leads nowhere would."""
    topics = damaged / "topics.toml"
    tree = tomllib.loads(topics.read_text())
    lost, found = tree["topic"]
    lost |= {"name": "zzqx", "description": "", "keywords": []}
    topics.write_text(tomli_w.dumps(tree))
    few = ("--web", damaged, "--out", tmp_path / "out", "--pages", 10, "--processes", 1, "--no-plots")
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\ntitle = "Mine"\nseed_kinds = ["search-10"]\n[[variant]]\nname = "s3-tswt"\n')
    done = lab("run", mine, *few)
    assert "skipped: zzqx/search-10: reaches no relevant page" in done.err
    assert {run.topic for run in read_results(tmp_path / "out" / "results.json")} == {found["name"]}


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({"relevant": ["bird"]}, "no page has a label that makes it relevant (bird)"),
        ({"name": "the of", "description": "", "keywords": []}, "no usable words beside stop words"),
        ({"relevant": "birds"}, "topics.toml: topic[0].relevant: expected list"),
        ({"keyword": ["birds"]}, "topics.toml: topic[0]: table contains unknown field keyword"),
    ],
)
def test_topic_that_can_not_be_used_is_reported_before_the_first_run(
    change: dict[str, object], result: str, run: Lab, damaged: Path, tmp_path: Path
) -> None:
    topics = damaged / "topics.toml"
    tree = tomllib.loads(topics.read_text())
    tree["topic"] = [tree["topic"][0] | change]
    topics.write_text(tomli_w.dumps(tree))
    done = run(damaged, tmp_path / "out")
    assert (done.code, result in done.err, "runs" in done.err) == (2, True, False)
