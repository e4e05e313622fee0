"""Cookies, hidden links and the language that is asked for, against a real server."""

import asyncio
import base64
import gzip
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from checks.hostile_site import Behaviour, Request, answer, site
from checks.small_webs import BIRDS, PATIENCE_S, rows, stored
from opilio.core.errors import ConfigError
from opilio.core.records import FetchResult
from opilio.core.settings import Tree
from opilio.engine.wiring.session import create_crawl
from opilio.fetch.identity import Credentials, RequestSigner
from opilio.manage.why import explain_empty_crawl
from opilio.parse.html import HtmlParser
from opilio.parse.page_state import find_wall, refused_by_challenge
from opilio.topic.setup import resolve_settings

FORM = b"<p>We use cookies.</p>"


def needs_cookie(target: str, body: bytes) -> Behaviour:
    """The page for visitors with the cookie; others are redirected to `target`, which sets it."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> bool:
        given = "consent=yes" in request.headers.get("cookie", "")
        redirect = answer(b"", "302 Found", location=target, set_cookie="consent=yes; Path=/")
        return await (answer(body) if given else redirect)(request, writer)

    return behave


def crawl_site(folder: Path, behaviours: dict[str, Behaviour], **more: Tree) -> tuple[list[str], list[Request]]:
    """The stored paths and the requests of a crawl that starts at /."""

    async def main() -> tuple[str, list[Request]]:
        async with site(behaviours) as served:
            tree: Tree = {
                "strategy": "breadth",
                "topic": {"name": "wrens and other small birds"},
                "seeds": {"urls": ["http://a.example/"]},
                "politeness": {"delay_s": 0.0},
                "fetch": {"allow_private": True, "resolve": {"*": f"127.0.0.1:{served.port}"}, "retries": 0},
                "engine": {"workers": 0},
                "stop": {"patience_s": 2.0},
            }
            for name, section in more.items():
                tree[name] = {**tree[name], **section}
            async with create_crawl(folder, resolve_settings(tree)) as running:
                await asyncio.wait_for(running.engine.run(), PATIENCE_S)
            return served.root, served.requests

    _, requests = asyncio.run(main())
    return [url.removeprefix("http://a.example") for url in stored(folder)], requests


def test_page_that_redirects_to_itself_to_set_a_cookie_is_stored(tmp_path: Path) -> None:
    paths, requests = crawl_site(tmp_path / "c", {"/": needs_cookie("/", BIRDS.encode())})
    assert (paths, [r.target for r in requests].count("/")) == (["/"], 2)


def test_page_behind_a_consent_redirect_is_stored(tmp_path: Path) -> None:
    back = answer(b"", "302 Found", location="/", set_cookie="consent=yes; Path=/")
    paths, _ = crawl_site(tmp_path / "c", {"/": needs_cookie("/consent", BIRDS.encode()), "/consent": back})
    assert paths == ["/"]


def test_cookies_that_do_not_help_end_after_one_more_request(tmp_path: Path) -> None:
    loop = answer(b"", "302 Found", location="/", set_cookie="a=1")
    paths, requests = crawl_site(tmp_path / "c", {"/": loop})
    assert (paths, [r.target for r in requests].count("/")) == ([], 2)


def test_no_cookie_is_returned_when_they_are_off_and_none_to_another_host(tmp_path: Path) -> None:
    start = answer(f"{BIRDS} <a href='http://b.example/x'>x</a> <a href='/y'>y</a>".encode(), set_cookie="a=1")
    behaviours = {"/": start, "/x": answer(b"<p>a wren</p>"), "/y": answer(b"<p>another wren</p>")}
    _, requests = crawl_site(tmp_path / "on", behaviours)
    assert {r.target: r.headers.get("cookie") for r in requests if r.target in "/x/y"} == {
        "/": None,
        "/x": None,
        "/y": "a=1",
    }
    _, requests = crawl_site(tmp_path / "off", behaviours, fetch={"cookies": False})
    assert not any("cookie" in r.headers for r in requests)


def test_hidden_links_are_not_followed(tmp_path: Path) -> None:
    links = """<a href=/a style="color: red">a</a><a href=/b style="Display : none">b</a>
        <a href=/c style="visibility:hidden">c</a><a href=/d hidden>d</a>"""
    _, requests = crawl_site(tmp_path / "c", {"/": answer(f"{BIRDS}{links}".encode())})
    assert {r.target for r in requests} == {"/robots.txt", "/", "/a"}


def test_topic_language_is_asked_for(tmp_path: Path) -> None:
    _, requests = crawl_site(tmp_path / "c", {"/": answer(b"<p>wren</p>")}, topic={"language": "german"})
    assert {r.headers["accept-language"] for r in requests} == {"de, *;q=0.5"}


WALLS: dict[str, tuple[Behaviour, str]] = {
    "/moment": (answer(b"<title>Just a moment...</title><p>Checking your browser"), "challenge Just a moment..."),
    "/header": (answer(b"<title>A</title><p>x", cf_mitigated="challenge"), "challenge Cloudflare"),
    "/403": (answer(b"no", "403 Forbidden", cf_mitigated="challenge"), "challenge Cloudflare, status 403"),
    "/aws": (answer(b"<p>x", "405 Method Not Allowed", x_amzn_waf_action="captcha"), "challenge AWS WAF, status 405"),
    "/aws-200": (answer(b"<title>A</title><p>x", x_amzn_waf_action="challenge"), "challenge AWS WAF"),
    "/vercel": (answer(b"", "403 Forbidden", x_vercel_mitigated="challenge"), "challenge Vercel, status 403"),
    "/checkpoint": (answer(b"<title>Vercel Security Checkpoint</title>"), "challenge Vercel Security Checkpoint"),
    "/anubis": (
        answer("<title>Making sure you’re not a bot!</title><p>Loading".encode()),
        "challenge Making sure you’re not a bot!",
    ),
    "/anubis-403": (
        answer(b"<script src=/.within.website/x/cmd/anubis/static/js/main.mjs></script>", "403 Forbidden"),
        "challenge Anubis, status 403",
    ),
    "/fastly": (answer(b"<title>Client Challenge</title><p>JavaScript is disabled"), "challenge Client Challenge"),
    "/datadome": (
        answer(b"<script src='https://ct.captcha-delivery.com/c.js'></script>", "403 Forbidden"),
        "challenge DataDome, status 403",
    ),
    "/imperva": (
        answer(b"<iframe src='/_Incapsula_Resource?SWUDNSAI=31'></iframe>", "403 Forbidden"),
        "challenge Imperva, status 403",
    ),
    "/human": (answer(b"<div id=px-captcha></div>", "403 Forbidden"), "challenge HUMAN, status 403"),
    "/cloudflare": (
        answer(b"<script src=/cdn-cgi/challenge-platform/h/b/orchestrate></script>", "403 Forbidden"),
        "challenge Cloudflare, status 403",
    ),
    "/ddos-guard": (answer(b"<title>DDoS-Guard</title>"), "challenge DDoS-Guard"),
    # A page that only embeds such a service, a response that the service let pass, and a plain refusal.
    "/embeds": (answer(b"<title>Wrens</title><p>A wren sings.<div id=px-captcha></div>"), ""),
    "/passed": (answer(b"<title>Nests</title><p>A nest of wrens.", x_amzn_waf_action="allow"), ""),
    "/refused": (answer(b"<p>not for you", "403 Forbidden"), "status 403"),
    "/login": (answer(b"<h1>Sign in</h1><form><input name=p type='password'></form>"), "login Sign in"),
    "/consent": (answer(b"<title>Before you continue</title><form>Accept all"), "consent Before you continue"),
    "/named-otherwise": (
        answer(b"<title>Shop</title><p>Type the characters: are you a robot?<form action=/errors/validateCaptcha>"),
        "challenge Amazon",
    ),
    "/site-first": (answer(b"<title>News - Robot check</title><p>Unusual activity"), "challenge News - Robot check"),
    "/google": (
        answer(b"<title>Before you continue to Search</title><form><button><b>Accept all</b></button></form>"),
        "consent Before you continue to Search",
    ),
    # Ordinary pages with such words, also short ones with a login form in the menu.
    "/poem": (answer(b"<title>Just a moment in time | Poems</title><p>The wren sings."), ""),
    "/verse": (answer(b"<title>Just a Moment - Poems</title><h1>Just a Moment</h1><p>The wren sings."), ""),
    "/film": (answer(b"<title>Access Denied (film)</title><p>A film about a robot and a wren."), ""),
    "/song": (answer(b"<title>Please Wait, Mr. Postman</title><p>A song about a browser of letters."), ""),
    "/cloudflare-article": (answer(b'<title>What is "Just a moment..."?</title><p>Cloudflare verifies browsers.'), ""),
    "/privacy": (answer(b"<title>Privacy settings | Docs</title><p>Wrens choose. <button>I agree</button>"), ""),
    "/gdpr": (answer(b"<title>Cookie consent and the law</title><p>Law. <button>Accept all</button>"), ""),
    "/help": (answer(b"<form><input type=password></form><title>How to log in here</title><p>Help for wrens."), ""),
    "/story": (answer(b"<form><input type=password></form><title>Sign in the window</title><p>A story."), ""),
    "/missing": (
        answer(b"<h1>Gone</h1><script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js></script>", "404 Not Found"),
        "status 404",
    ),
    "/about": (answer(b"<title>How to log in</title><p>An article without a form, about wrens."), ""),
    "/long": (answer(b"<title>Access denied</title><p>" + b"wren " * 200), ""),
}


def test_walls_are_recognized_and_not_stored(tmp_path: Path) -> None:
    links = "".join(f"<a href='{path}'>{path}</a>" for path in WALLS)
    behaviours = {path: behave for path, (behave, _) in WALLS.items()} | {"/": answer(f"{BIRDS}{links}".encode())}
    paths, _ = crawl_site(tmp_path / "c", behaviours)
    assert set(paths) == {"/", *(path for path, (_, reason) in WALLS.items() if not reason)}
    for path, (_, reason) in WALLS.items():
        found = rows(tmp_path / "c", "SELECT reason FROM frontier_url WHERE url = ?", f"http://a.example{path}")
        assert (found[0][0] or "") == reason, path


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Attention Required! | Cloudflare", "Sorry, you have been blocked. Cloudflare Ray ID: 1"),
        ("Checking your browser before accessing a.example", "DDoS protection"),
        ("One more step", "Complete the security check to access a.example. Why do I have to complete a CAPTCHA?"),
        ("Security check", "Are you a robot?"),
        ("Access Denied", "You don't have permission to access this server. Reference #18.1"),
        ("Sucuri WebSite Firewall - Access Denied", "Your request was blocked."),
        ("Access to this page has been denied", "Press & Hold to confirm you are a human (and not a bot)."),
        ("Pardon Our Interruption", "Something about your browser made us think you were a bot."),
        ("Are you a robot?", "Tick the box."),
        ("Verifying you are human. This may take a few seconds.", ""),
        ("Human Verification", ""),
        ("Checking that you are not a bot", ""),
        ("Please wait...", "We are checking your browser."),
        ("Nur einen Moment…", "Die Sicherheit der Verbindung wird überprüft."),
        ("Un instant…", "Vérification de la connexion"),
        ("Un momento…", "Ray ID: 1"),
        ("Een moment geduld…", "Ray ID: 1"),
        ("百度安全验证", ""),
        ("しばらくお待ちください...", "Ray ID: 1"),
    ],
)
def test_titles_of_challenges_are_recognized_with_their_text_only(title: str, text: str) -> None:
    assert wall_of(f"<title>{title}</title><p>{text}") == f"challenge {title}"[: len("challenge ") + 80]
    # Without what a challenge says of itself, and among the links of a site's menu, it is a page.
    if text:
        assert "challenge" not in wall_of(f"<title>{title}</title><p>{text}{'<a href=/x>x</a>' * 21}")


@pytest.mark.parametrize(
    ("mark", "service"),
    [
        ("<script>window._cf_chl_opt={}</script>", "Cloudflare"),
        ("<script src=/cdn-cgi/challenge-platform/h/g/orchestrate/chl_page/v1></script>", "Cloudflare"),
        ("<iframe src=https://geo.captcha-delivery.com/captcha/></iframe>", "DataDome"),
        ("<iframe src=/_Incapsula_Resource?SWUDNSAI=31></iframe>", "Imperva"),
        ("Request unsuccessful. Incapsula incident ID: 1", "Imperva"),
        ("<div id=px-captcha></div>", "HUMAN"),
        ("<script src=/.within.website/x/cmd/anubis/main.mjs></script>", "Anubis"),
        ("<form action=/errors/validateCaptcha></form>", "Amazon"),
    ],
)
def test_services_are_named_by_what_their_challenges_load(mark: str, service: str) -> None:
    assert wall_of(f"<title>a.example</title><p>Show that you are no robot. {mark}") == f"challenge {service}"
    refused = FetchResult(url="http://a.example/", status=403, body=mark.encode())
    failure = refused_by_challenge(refused)
    assert failure is not None
    assert failure.detail == f"{service}, status 403"


def wall_of(html: str) -> str:
    """What keeps the page of a response with status 200 from being stored; empty for nothing."""
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    fetched = FetchResult(url="http://a.example/", status=200, headers=headers, body=html.encode())
    wall = find_wall(HtmlParser().parse(fetched), fetched)
    return f"{wall.kind} {wall.detail}" if wall else ""


def test_links_of_headers_are_followed(tmp_path: Path) -> None:
    start = answer(BIRDS.encode(), link='</2>; rel="next", </style.css>; rel=preload', refresh="9; url=/3")
    _, requests = crawl_site(tmp_path / "c", {"/": start})
    assert {r.target for r in requests} == {"/robots.txt", "/", "/2", "/3"}


CREDENTIALS = """
["a.example"]
http = true
cookies = { member = "secret-cookie" }
headers = { Authorization = "Bearer secret-token" }

["b.example"]
cookies = { member = "secret-other" }
"""


def test_credentials_reach_their_host_only_and_are_not_stored(tmp_path: Path) -> None:
    (tmp_path / "accounts.toml").write_text(CREDENTIALS)
    links = b'<a href="/x">x</a><a href="http://b.example/">b</a><a href="http://c.example/">c</a>'
    behaviours = {
        "/": answer(BIRDS.encode() + links, set_cookie="session=secret-session"),
        "/x": answer(BIRDS.encode() + b" more"),
    }
    _, requests = crawl_site(tmp_path / "c", behaviours, fetch={"credentials": str(tmp_path / "accounts.toml")})
    sent = {(r.headers["host"].partition(":")[0], r.target): r.headers for r in requests}
    assert sent["a.example", "/x"]["authorization"] == "Bearer secret-token"
    assert sorted(sent["a.example", "/x"]["cookie"].split("; ")) == ["member=secret-cookie", "session=secret-session"]
    # b.example is not asked over https, c.example has no account.
    for host in ("b.example", "c.example"):
        assert {"authorization", "cookie"}.isdisjoint(sent[host, "/"])
    for path in (tmp_path / "c").iterdir():
        data = path.read_bytes()
        assert b"secret-" not in (gzip.decompress(data) if path.suffix == ".gz" else data), path.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "write a table per host"),
        ('["a.example"]\ncookies = { a = "secret\\nx" }', "write a table per host"),
        ('["a.example"]\nheaders = { Host = "secret" }', "'Host' can't be set"),
        ("[", "not valid TOML"),
    ],
)
def test_invalid_credentials_are_refused_without_showing_a_value(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "accounts.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        Credentials.read(tmp_path / "accounts.toml")
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


# RFC 9421, B.1.4
TEST_KEY = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
TEST_KEY_ID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


def test_server_verifies_the_signature_of_requests(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(TEST_KEY)
    fetch = {"signature_key": str(tmp_path / "key.pem"), "signature_agent": "https://crawler.example"}
    _, requests = crawl_site(tmp_path / "c", {"/": answer(BIRDS.encode())}, fetch=fetch)
    key = load_pem_private_key(TEST_KEY.encode(), None)
    assert isinstance(key, Ed25519PrivateKey)
    assert {r.target for r in requests} >= {"/", "/robots.txt"}
    for request in requests:
        parameters = request.headers["signature-input"].removeprefix("sig1=")
        assert f'keyid="{TEST_KEY_ID}"' in parameters
        assert parameters.endswith(';tag="web-bot-auth"')
        base = "\n".join(
            [
                f'"@authority": {request.headers["host"]}',
                f'"signature-agent": {request.headers["signature-agent"]}',
                f'"@signature-params": {parameters}',
            ]
        )
        signature = base64.b64decode(request.headers["signature"].removeprefix("sig1=:").removesuffix(":"))
        key.public_key().verify(signature, base.encode())
        with pytest.raises(InvalidSignature):
            key.public_key().verify(signature, base.replace("a.example", "b.example").encode())


@pytest.mark.parametrize("text", ["", "no key"])
def test_invalid_signature_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.pem").write_text(text)
    with pytest.raises(ConfigError, match="not a PEM private key"):
        RequestSigner.read(tmp_path / "key.pem", "")


def test_login_wall_is_reported_with_advice(tmp_path: Path) -> None:
    form = b'<title>Log in</title><form method="post"><input name="user"><input type="password" name="p"></form>'
    paths, _ = crawl_site(tmp_path / "c", {"/": answer(form)})
    assert paths == []
    (line,) = explain_empty_crawl(tmp_path / "c")
    assert line.startswith("seed http://a.example/: login")
    assert line.endswith("give cookies of your account in fetch.credentials")
