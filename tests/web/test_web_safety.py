"""Who may ask, from where, and what an answer may do."""

import asyncio
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from checks.page_server import Client, pages_of
from checks.small_webs import PATIENCE_S
from opilio.cli.serve import serve
from opilio.core.clock import VirtualClock
from opilio.core.errors import CollectionError, UsageError
from opilio.web.auth import AccessMiddleware, AccessPolicy, TokenChecker, TooManyRequestsError

WISH = {"do": "ban", "target": "h9.example"}


def test_request_that_names_another_host_is_refused(client: Client) -> None:
    """DNS rebinding: a stranger's name that leads to us."""
    assert client.get("/", Host="evil.example").status == 421
    assert client.get("/", Host="localhost:1").status == 200


@pytest.mark.parametrize("host", ["[::1].evil", "[::1]evil", "127.0.0.1@evil", "evil@127.0.0.1", "a/b", "[::1]:x", ""])
def test_malformed_host_header_is_refused(client: Client, host: str) -> None:
    assert raw_status(client, f"Host: {host}") in (400, 421)


def test_second_host_header_is_refused(client: Client) -> None:
    assert raw_status(client, "Host: 127.0.0.1") == 200
    assert raw_status(client, "Host: 127.0.0.1", "Host: evil.example") in (400, 421)
    assert raw_status(client, "Host: evil.example", "Host: 127.0.0.1") in (400, 421)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": 2 * [(b"host", b"127.0.0.1")]}
    assert asyncio.run(middleware_status(scope)) == 421


def raw_status(client: Client, *headers: str) -> int:
    """The status of a request whose headers are sent as they are."""
    server = urlsplit(client.base)
    with socket.create_connection((server.hostname, server.port), timeout=PATIENCE_S) as connection:
        connection.sendall("\r\n".join(["GET /login HTTP/1.1", *headers, "Connection: close", "", ""]).encode())
        return int(connection.makefile("rb").readline().split()[1])


async def middleware_status(scope: Scope) -> int:
    """The status that the access control alone gives, whatever the server in front of it refuses."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    access = AccessPolicy()
    await AccessMiddleware(PlainTextResponse("ok"), access, TokenChecker(access, VirtualClock()))(scope, receive, send)
    return int(sent[0]["status"])


def test_name_that_was_given_is_ours(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, names=("box.example",)) as client:
        assert client.get("/", Host="box.example").status == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "null"}]
)
def test_change_that_another_site_asks_for_is_refused(client: Client, headers: dict[str, str]) -> None:
    assert client.form("/c/birds/command", WISH, **headers).status == 403
    assert client.post("/c/birds/command", WISH, **headers).status == 403


def test_form_without_our_secret_is_refused(client: Client) -> None:
    assert client.form("/c/birds/command", {**WISH, "secret": "guessed"}).status == 403


def test_body_that_is_neither_form_nor_json_is_refused(client: Client) -> None:
    assert client.form("/c/birds/command", WISH, Content_Type="text/plain").status == 415


def test_nothing_is_shown_without_the_token(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, token="secret-token") as client:
        assert client.get("/c/birds.json").status == 401
        assert client.get("/", Accept="text/html").headers["Location"] == "/login"
        assert client.get("/c/birds/live").status == 401
        assert client.get("/c/birds.json", Authorization="Bearer wrong").status == 401
        assert client.get("/c/birds.json", Authorization="Bearer secret-token").status == 200


@pytest.mark.parametrize("token", ["schlüssel", "two\nlines", " blank"])
def test_token_that_no_request_can_send_is_refused(birds: Path, token: str) -> None:
    with pytest.raises(UsageError, match="--token: use printable"):
        serve([birds], token=token, port=0)


def test_token_is_kept_as_a_cookie_after_the_login(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, token="secret-token") as client:
        assert client.form("/login", {"token": "wrong"}).status == 403
        cookie = client.form("/login", {"token": "secret-token"}).headers["Set-Cookie"]
        assert re.search(r"HttpOnly.*SameSite=strict", cookie, re.IGNORECASE)
        assert client.get("/c/birds.json", Cookie=cookie.partition(";")[0]).status == 200


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer wrong"}, {"Cookie": "opilio-token=wrong"}])
def test_guesses_of_the_token_are_limited_wherever_they_come(
    birds: Path, tmp_path: Path, headers: dict[str, str]
) -> None:
    with pages_of([birds], tmp_path, token="secret-token") as client:
        assert [client.get("/c/birds.json").status for _ in range(20)] == [401] * 20  # none given is no guess
        answers = [client.get("/c/birds.json", **headers) for _ in range(40)]
        assert [answer.status for answer in answers[:10]] == [401] * 10
        refused = next(answer for answer in answers if answer.status == 429)
        assert int(refused.headers["Retry-After"]) >= 1
        assert client.get("/", Accept="text/html", **headers).headers["Location"] == "/login"


def test_wrong_tokens_do_not_lock_out_the_right_one() -> None:
    clock = VirtualClock()
    checker = TokenChecker(AccessPolicy(token="right"), clock)
    assert [checker.check("a", "right") for _ in range(20)] == [True] * 20
    assert [checker.check("a", "wrong") for _ in range(10)] == [False] * 10
    with pytest.raises(TooManyRequestsError, match="wait 5 seconds"):
        checker.check("a", "wrong")
    assert checker.check("a", "right")
    assert checker.check("a", "wrong", "right")
    assert not checker.check("b", "wrong")
    clock.advance(5.0)
    assert not checker.check("a", "wrong")
    with pytest.raises(TooManyRequestsError):
        checker.check("a", "wrong")


def test_right_token_is_accepted_beside_a_wrong_one_after_many_guesses(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, token="secret-token") as client:
        statuses = {client.get("/c/birds.json", Authorization="Bearer wrong").status for _ in range(40)}
        assert statuses == {401, 429}
        assert client.get("/c/birds.json", Authorization="Bearer secret-token").status == 200
        both = client.get("/c/birds.json", Authorization="Bearer wrong", Cookie="opilio-token=secret-token")
        assert both.status == 200
        assert client.form("/login", {"token": "secret-token"}).status == 303


def test_token_that_can_be_guessed_is_refused(birds: Path) -> None:
    with pytest.raises(UsageError, match="--token: too short"):
        serve([birds], token="fifteen-letters", port=0)


def test_login_that_is_too_long_is_refused(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, token="secret-token") as client:
        assert client.form("/login", {"token": "x" * 1_100_000}).status == 413


def test_answers_allow_no_foreign_or_inline_script(client: Client) -> None:
    answer = client.get("/c/birds")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:", answer.text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//(?!h\d\.example)', answer.text)


def test_nothing_changes_on_a_server_that_only_shows(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, read_only=True) as client:
        assert client.post("/c/birds/command", WISH).status == 403
        assert 'method="post"' not in client.get("/c/birds/queue").text


def test_next_page_after_an_action_is_never_elsewhere(client: Client) -> None:
    values = {"url": "http://h0.example/0.html", "is": "relevant", "back": "//evil.example/"}
    answer = client.form("/c/birds/label", values)
    assert (answer.status, answer.headers["Location"].startswith("/c/birds/page")) == (303, True)


def test_body_that_is_too_long_is_refused(client: Client) -> None:
    assert client.post("/c/birds/command", {"do": "ban", "target": "x" * 1_100_000}).status == 413


@pytest.mark.parametrize("body", [b"{", b"[" * 200_000])
def test_body_that_is_no_json_is_refused_in_words(client: Client, body: bytes) -> None:
    answer = client.post("/c/birds/command", body, Accept="application/json")
    assert answer.status == 400
    assert "the request body is not valid JSON" in answer.text


def test_folder_that_is_no_collection_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="not a collection"):
        serve([tmp_path], port=0)


def test_address_that_is_not_ours_to_listen_on_is_refused(birds: Path) -> None:
    with pytest.raises(UsageError, match="can't listen there"):
        serve([birds], host="192.0.2.1", port=0)
