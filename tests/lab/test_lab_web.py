"""Opening good and bad webs (issue: bad webs give a clear message and say what was skipped)."""

import zlib
from pathlib import Path

import brotli
import pytest
from warcio.archiveiterator import ArchiveIterator

from opilio.core.errors import OfflineWebError
from opilio.core.records import FetchResult
from opilio.fetch.decoding import RecordedResponse, parse_http_response
from opilio.lab.experiments.replay import lab_settings
from opilio.lab.synthetic.changing import load_faults
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.topics import load_topics, select_topics
from opilio.lab.webs.web import WarcWeb
from opilio.store.warc import response_record


def record(url: str, body: bytes = b"<p>x", status: int = 200) -> bytes:
    return response_record(FetchResult(url=url, status=status, headers=(("Content-Type", "text/html"),), body=body))


def make_web(folder: Path, *records: bytes) -> WarcWeb:
    folder.mkdir(exist_ok=True)
    (folder / "web.warc.gz").write_bytes(b"".join(records))
    return WarcWeb.open(folder, folder / "cache")


def test_web_holds_what_warcio_reads(small_folder: Path, small_web: WarcWeb) -> None:
    with (small_folder / "web.warc.gz").open("rb") as file:
        for entry in ArchiveIterator(file):
            if entry.rec_type == "response":
                answer = small_web.find(entry.rec_headers["WARC-Target-URI"])
                assert answer is not None
                assert answer.body == entry.content_stream().read()
                assert str(answer.status) == entry.http_headers.get_statuscode()


def test_web_is_opened_from_the_index_when_the_files_are_the_same(tmp_path: Path) -> None:
    make_web(tmp_path, record("http://a.example/1"))
    index = next((tmp_path / "cache").glob("*.index"))
    before = index.stat().st_mtime_ns
    assert WarcWeb.open(tmp_path, tmp_path / "cache").urls == ["http://a.example/1"]
    assert index.stat().st_mtime_ns == before
    index.write_bytes(b"damaged")
    assert len(WarcWeb.open(tmp_path, tmp_path / "cache")) == 1


def test_label_of_an_answer_that_is_no_page_is_skipped_and_reported(tmp_path: Path) -> None:
    """Else the oracle would fetch a relevant page where everybody else meets a redirect."""
    web = make_web(tmp_path, record("http://a.example/"), record("http://a.example/old", status=301))
    (tmp_path / "labels.tsv").write_text("http://a.example/\tbirds\nhttp://a.example/old\tbirds\n")
    labels = load_labels(web)
    assert labels.by_page == [("birds",), ()]
    assert [str(p) for p in labels.problems] == ["http://a.example/old: label for an answer 301, no page; skipped"]
    assert [web.status(number) for number in range(2)] == [200, 301]


def test_web_finds_an_address_when_its_percent_encoding_differs(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/wp/%/Wren_%28bird%29.htm"))
    assert list(web.urls) == ["http://a.example/wp/%25/Wren_(bird).htm"]
    assert web.find("http://a.example/other") is None


def test_web_finds_a_page_when_links_encode_the_percent_sign_of_its_file_name(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/wp/%/Wren_%28bird%29.htm"))
    assert web.number_of("http://a.example/wp/%25/Wren_%2528bird%2529.htm") == 0
    assert web.number_of("http://a.example/wp/%25/Robin_%2528bird%2529.htm") is None


def test_web_uses_the_records_before_a_cut_when_the_file_is_truncated(tmp_path: Path) -> None:
    whole = record("http://a.example/2")
    web = make_web(tmp_path, record("http://a.example/1"), whole[: len(whole) // 2])
    assert list(web.urls) == ["http://a.example/1"]
    assert [p.kind for p in web.problems] == ["damaged"]
    assert "truncated" in str(web.problems[0])


def test_web_goes_on_behind_damage_when_it_is_in_the_middle(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/1"), b"noise" * 9, record("http://a.example/3"))
    assert list(web.urls) == ["http://a.example/1", "http://a.example/3"]
    assert "unreadable" in web.problems[0].detail


def test_web_keeps_the_first_record_when_an_address_is_recorded_twice(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/1", b"first"), record("http://a.example/1#x", b"second"))
    assert web.response(0).body == b"first"
    assert [p.kind for p in web.problems] == ["duplicate"]


def test_web_skips_records_when_their_address_is_unusable(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("ftp://a.example/1"), record("http://a.example/1"))
    assert [p.kind for p in web.problems] == ["address"]


@pytest.mark.parametrize("content", [b"", b"not gzip", zlib.compress(b"x")])
def test_web_is_refused_when_nothing_sensible_is_in_it(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(OfflineWebError, match=r"warc\.gz|no page"):
        make_web(tmp_path, content)


def test_web_is_refused_when_the_folder_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OfflineWebError, match="no such folder"):
        WarcWeb.open(tmp_path / "nowhere")


def test_web_is_refused_when_it_is_one_gzip_stream(tmp_path: Path) -> None:
    unpacked = b"".join(zlib.decompress(record(f"http://a.example/{i}"), 31) for i in range(2))
    packer = zlib.compressobj(wbits=31)
    with pytest.raises(OfflineWebError, match="gzip per record"):
        make_web(tmp_path, packer.compress(unpacked) + packer.flush())


def test_recorded_body_is_whole_when_it_was_chunked_and_packed() -> None:
    packed = zlib.compress(b"hello")
    message = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: deflate\r\nX-A: b\r\n\r\n"
    message += b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    answer = parse_http_response(message)
    assert (answer.body, answer.headers) == (b"hello", (("X-A", "b"),))


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", brotli.compress(b"hello")),
        ("deflate", _raw_deflate(b"hello")),
        ("GZIP", zlib.compress(b"hello", wbits=31)),
        ("gzip, br", brotli.compress(zlib.compress(b"hello", wbits=31))),
        ("br", b"hello"),  # undone by the tool that recorded it
    ],
)
def test_recorded_body_is_unpacked_as_a_live_answer_is(encoding: str, body: bytes) -> None:
    message = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n\r\n%s" % (encoding.encode(), body)
    assert parse_http_response(message) == RecordedResponse(200, (), b"hello")


def test_recorded_answer_is_read_when_its_lines_end_without_cr() -> None:
    """RFC 9112, 2.2: such servers are on the web, and archives hold what they sent."""
    answer = parse_http_response(b"HTTP/1.0 200 OK\nContent-Type: text/html\nX-A: b\n\n<p>a\n\nb")
    assert answer == RecordedResponse(200, (("Content-Type", "text/html"), ("X-A", "b")), b"<p>a\n\nb")


def test_file_that_is_not_compressed_is_reported(tmp_path: Path) -> None:
    (tmp_path / "plain.warc").write_bytes(b"WARC/1.0\r\n")
    with pytest.raises(OfflineWebError, match=r"plain\.warc is not compressed"):
        WarcWeb.open(tmp_path)
    web = make_web(tmp_path, record("http://a.example/1"))
    assert [p.subject for p in web.problems] == ["plain.warc"]


def test_labels_and_topics_are_read_when_they_begin_with_a_mark(tmp_path: Path) -> None:
    """Editors and spreadsheets put a byte order mark in front of UTF-8."""
    web = make_web(tmp_path, record("http://a.example/1"))
    (tmp_path / "labels.tsv").write_text("http://a.example/1\ta\n", "utf-8-sig")
    topic = '[[topic]]\nname = "t"\nrelevant = ["a"]\n[[topic.seeds]]\nurls = ["http://a.example/1"]\n'
    (tmp_path / "topics.toml").write_text(topic, "utf-8-sig")
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "a.example"\n', "utf-8-sig")
    labels = load_labels(web)
    assert (labels.by_page, labels.problems) == ([("a",)], [])
    assert [t.name for t in load_topics(tmp_path)[0]] == ["t"]
    assert list(load_faults(tmp_path)) == ["a.example"]


def test_labels_of_unknown_addresses_are_listed_and_skipped(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/1"))
    (tmp_path / "labels.tsv").write_text("http://a.example/1\ta|_b\nhttp://a.example/9\ta\nbroken\n")
    labels = load_labels(web)
    assert labels.by_page == [("a", "_b")]
    assert len(labels.problems) == 2
    assert labels.labeled_pages.tolist() == [True]


def test_labels_are_refused_when_missing_or_of_another_web(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/1"))
    with pytest.raises(OfflineWebError, match="no labels"):
        load_labels(web)
    (tmp_path / "labels.tsv").write_text("http://b.example/1\ta\n")
    with pytest.raises(OfflineWebError, match=r"names no page of the web: .*a tab, and labels"):
        load_labels(web)


def test_labels_with_an_underscore_never_make_a_page_relevant(tmp_path: Path) -> None:
    web = make_web(tmp_path, record("http://a.example/1"), record("http://a.example/2"))
    (tmp_path / "labels.tsv").write_text("http://a.example/1\t_index\nhttp://a.example/2\tScience.Birds.Owls\n")
    (tmp_path / "topics.toml").write_text(
        '[[topic]]\nname = "b"\nrelevant = ["_index", "Science.Birds"]\n[[topic.seeds]]\nurls = ["http://a.example/1"]\n'
    )
    topics, _ = load_topics(tmp_path)
    assert load_labels(web).relevant(topics[0]).tolist() == [False, True]


def test_topic_without_seeds_is_listed_and_skipped(tmp_path: Path) -> None:
    (tmp_path / "topics.toml").write_text('[[topic]]\nname = "b"\nrelevant = ["x"]\n')
    topics, problems = load_topics(tmp_path)
    assert (topics, [p.kind for p in problems]) == ([], ["topic"])
    with pytest.raises(OfflineWebError, match="no usable topic"):
        select_topics(topics, [], tmp_path)


def test_topic_hands_words_of_other_senses_to_the_crawler(tmp_path: Path) -> None:
    seeds = '[[topic.seeds]]\nurls = ["http://a.example/"]\n'
    (tmp_path / "topics.toml").write_text(f'[[topic]]\nname = "jaguar"\ncontexts = ["cat"]\n{seeds}')
    (topic,), _ = load_topics(tmp_path)
    assert lab_settings("s3-tswt", topic.brief, (), 1).topic.contexts == ["cat"]
    blind = lab_settings("s3-tswt", topic.brief, (), 1, {"topic": {"contexts": []}})
    assert blind.topic.contexts == []


def test_topics_file_is_refused_when_it_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "topics.toml").write_text('[[topic]]\nnam = "b"\n')
    with pytest.raises(OfflineWebError, match=r"topics\.toml"):
        load_topics(tmp_path)


def test_chosen_topics_name_what_there_is_when_one_is_unknown(small_folder: Path) -> None:
    topics, _ = load_topics(small_folder)
    assert [t.name for t in select_topics(topics, ["railways"], small_folder)] == ["railways"]
    with pytest.raises(OfflineWebError, match="birds, railways"):
        select_topics(topics, ["fish"], small_folder)


def test_real_webs_open_without_problems_when_present(real_webs: Path, lab_cache: Path) -> None:
    web = WarcWeb.open(real_webs / "webkb", lab_cache)
    assert (len(web), list(web.problems)) == (8213, [])
    assert load_labels(web).problems == []
