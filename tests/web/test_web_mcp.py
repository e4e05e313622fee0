"""The MCP server, used by the client of the SDK: over stdio, over HTTP and in this process."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'opilio[mcp]'")

import httpx2
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent, TextResourceContents

from checks.small_webs import (
    COMMAND,
    HTML,
    PATIENCE_S,
    SmallWeb,
    crawl,
    grid,
    one_line,
    opilio,
    page,
    plain,
    served,
    settings_for,
    started,
)
from opilio.core.errors import UsageError
from opilio.core.settings import Tree
from opilio.fetch.decoding import RecordedResponse
from opilio.search.results import IndexProgress
from opilio.web.collections import SearcherPool
from opilio.web.mcp_server import PART_CHARS, McpOptions, build_mcp_server, resource_uri

SEED = "http://h0.example/0.html"
DENIED = "http://noai.example/a/../wren"
STORED_DENIED = "http://noai.example/wren"
READING = {"status", "search", "passages", "page", "why"}
Use = Callable[[Client], Awaitable[None]]


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("mcp") / "birds"
    web = grid(2, 4)
    web[STORED_DENIED] = page(
        "Every kingfisher wren bird dives.", title="Kingfisher", head='<meta name="robots" content="noai">'
    )
    with served(SmallWeb(web)) as server:
        crawl(into, settings_for(server, [SEED, STORED_DENIED]))
    return into


def run(server: Any, use: Use) -> None:
    async def main() -> None:
        async with Client(server) as client:
            await use(client)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """The structured value of a tool, or its text."""
    result = await client.call_tool(tool, arguments)
    text = _text(result)
    assert not result.is_error, text
    return text if result.structured_content is None else result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return _text(result)


def _text(result: Any) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def tool_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def search_and_read(client: Client) -> None:
    """What every transport must carry: tools, values, text, resources, errors."""
    found = await call(client, "search", query="robins", limit=3)
    hit = found["hits"][0]
    assert (found["total"], len(found["hits"])) == (8, 3)
    text = await call(client, "page", url=hit["url"])
    assert text.startswith("---\nurl: ")
    assert "The wren is a small bird." in text
    (read,) = (await client.read_resource(hit["resource"])).contents
    assert isinstance(read, TextResourceContents)
    assert (read.text, read.mime_type) == (text, "text/markdown")
    answers = (await call(client, "passages", query="what is a wren", limit=2))["passages"]
    assert len(answers) == 2
    assert "wren" in answers[0]["text"]
    assert answers[0]["url"] in answers[0]["citation"]
    why = await call(client, "why", url=SEED)
    assert why["page"]["relevant"] is True
    assert why["summary"].startswith("Kept: its text is about ")
    (status,) = (await call(client, "status"))["collections"]
    assert (status["name"], status["pages"]) == ("birds", 9)
    assert "no page of birds" in await refusal(client, "page", url="http://nowhere.example/")


def stdio(*arguments: object) -> StdioServerParameters:
    command, *words = [*COMMAND, "mcp", *map(str, arguments)]
    return StdioServerParameters(command=command, args=words, env=plain())


def test_tools_and_resources_over_stdio(birds: Path) -> None:
    async def use(client: Client) -> None:
        assert await tool_names(client) == READING | {"label"}
        await search_and_read(client)

    run(stdio(birds), use)


@pytest.fixture
def address(birds: Path) -> Iterator[str]:
    process = started("mcp", birds, "--http", "--port", "0", "--token", "secret", "--read-only")
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


def test_tools_and_resources_over_http_with_a_token(address: str) -> None:
    async def main() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": "Bearer secret"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            assert await tool_names(client) == READING  # --read-only
            await search_and_read(client)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_http_refuses_strangers(address: str) -> None:
    call_body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    right = {"Authorization": "Bearer secret"}
    cases = {401: {}, 421: right | {"Host": "evil.example"}, 403: right | {"Origin": "http://evil.example"}}
    for status, headers in cases.items():
        assert httpx2.post(address, json=call_body, headers=headers).status_code == status


def test_page_that_denies_ai_input_is_found_but_not_read(birds: Path) -> None:
    async def use(client: Client) -> None:
        (hit,) = (await call(client, "search", query="kingfisher"))["hits"]
        assert (hit["url"], hit["title"], hit["snippet"]) == (STORED_DENIED, "Kingfisher", "")
        assert (await call(client, "passages", query="kingfisher"))["passages"] == []
        assert "denies ai-input" in await refusal(client, "page", url=DENIED)
        with pytest.raises(MCPError, match="denies ai-input"):
            await client.read_resource(hit["resource"])

    run(build_mcp_server([birds], McpOptions()), use)


def test_long_page_is_read_in_parts(tmp_path: Path) -> None:
    words = " ".join(f"{n} wrens" for n in range(400))
    body = f"<title>Wrens</title><p>{words}</p>" + f"<p>{words}</p>" * 11 + "<p>The last wren bird.</p>"
    long = RecordedResponse(200, (HTML,), body.encode())
    short = f"{SEED}?short"
    with served(SmallWeb({SEED: long, short: RecordedResponse(200, (HTML,), b"<p>A wren.")})) as server:
        crawl(tmp_path / "birds", settings_for(server, [SEED, short]))

    async def use(client: Client) -> None:
        texts, read = list[str](), ""
        while not texts or "; call page with" in texts[-1]:
            texts.append(await call(client, "page", url=SEED, part=len(texts) + 1))
        (whole,) = (await client.read_resource(resource_uri("birds", SEED))).contents
        read = "\n\n".join(text.partition("\n---\n")[2].strip() for text in texts)
        assert isinstance(whole, TextResourceContents)
        assert (len(texts), read) == (3, whole.text.partition("\n---\n")[2].strip())
        assert [text.splitlines()[1][:12] for text in texts] == [f"part: {n} of 3" for n in (1, 2, 3)]
        assert max(map(len, texts)) < PART_CHARS + 1_000
        assert "the page has 3 parts" in await refusal(client, "page", url=SEED, part=4)
        assert (await refusal(client, "page", url=short, part=2)).endswith("the page has 1 part")

    run(build_mcp_server([tmp_path / "birds"], McpOptions()), use)


def test_search_says_that_pages_are_still_being_indexed(monkeypatch: pytest.MonkeyPatch, birds: Path) -> None:
    waiting = IndexProgress(waiting=7)
    monkeypatch.setattr(SearcherPool, "_refresh_one", lambda *_: waiting)

    async def use(client: Client) -> None:
        for tool in ("search", "passages"):
            found = await call(client, tool, query="wren")
            assert found["not_indexed_yet"] == 7
            assert found["notes"] == ["7 pages are not indexed yet; search again in some seconds"]

    run(build_mcp_server([birds], McpOptions()), use)


def test_label_changes_the_verdict(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 2))) as server:
        crawl(tmp_path / "birds", settings_for(server, [SEED]))

    async def use(client: Client) -> None:
        assert (await call(client, "label", url=SEED, relevant=False))["verdicts_changed"] == 1
        assert (await call(client, "why", url=SEED))["page"]["relevant"] is False
        assert "nowhere.example" in await refusal(client, "label", url="http://nowhere.example/", relevant=True)

    run(build_mcp_server([tmp_path / "birds"], McpOptions()), use)


def test_one_of_several_collections_must_be_named(birds: Path, tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 2))) as server:
        crawl(tmp_path / "others", settings_for(server, [SEED]))

    async def use(client: Client) -> None:
        both = "several contain this page; name a collection: birds, others"
        assert both in await refusal(client, "why", url=SEED)
        assert "none contains this page" in await refusal(client, "page", url="http://nowhere.example/")
        assert "denies ai-input" in await refusal(client, "page", url=DENIED)  # only one has it
        assert (await call(client, "why", url=SEED, collection="others"))["found"]
        assert (await call(client, "search", query="wren"))["total"] == 9
        assert (await call(client, "search", query="wren", collection="others"))["total"] == 2
        assert "no such collection" in await refusal(client, "search", query="wren", collection="trains")
        assert "limit must be 1 to 50" in await refusal(client, "search", query="wren", limit=0)
        with pytest.raises(MCPError, match="no such collection"):
            await client.read_resource(resource_uri("../birds", SEED))

    run(build_mcp_server([birds, tmp_path / "others"], McpOptions()), use)


def test_crawl_is_started_where_it_is_allowed(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 6))) as server:
        tree: Tree = settings_for(server, [])
        options = McpOptions(home=tmp_path, allow_crawl=True, crawl_settings=tree)

        async def use(client: Client) -> None:
            assert await tool_names(client) == READING | {"label", "crawl"}
            begun = await call(client, "crawl", topic="small birds", seeds=[SEED], pages=3)
            assert (begun["collection"], begun["seeds"]) == ("small-birds", 1)
            while (status := (await call(client, "status"))["collections"][0])["state"] != "stopped":
                await asyncio.sleep(0.05)
            assert (status["topic"], status["pages"]) == ("small birds", 3)
            assert "not a valid http(s) URL" in await refusal(client, "crawl", topic="birds", seeds=["x"])

        run(build_mcp_server([], options), use)


def test_options_that_do_not_fit_are_refused(birds: Path) -> None:
    done = opilio("mcp", birds, "--read-only", "--allow-crawl")
    assert done.returncode == 2
    assert "exclude each other" in one_line(done)


def test_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch, birds: Path) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)  # as without the extra
    with pytest.raises(UsageError, match=r"pip install 'opilio\[mcp\]'"):
        build_mcp_server([birds], McpOptions())
