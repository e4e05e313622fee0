"""Runs the application until it is stopped."""

import ipaddress
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import uvicorn

from opilio.core.clock import SystemClock
from opilio.core.errors import UsageError
from opilio.text.word_vectors import load_surface_vectors
from opilio.web.app import Application
from opilio.web.auth import AccessPolicy
from opilio.web.collections import ServedCollections
from opilio.web.context import AppContext

PORT = 8750
# The right token is never refused, so only its length protects against guesses.
MIN_TOKEN_CHARS = 16


class UiServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How collections are served."""

    host: str = "127.0.0.1"
    port: int = PORT  # 0: any free one
    token: str = ""
    host_names: tuple[str, ...] = ()
    home: Path = Path()
    read_only: bool = False
    allow_local: bool = False  # see web.local_settings


def serve(folders: Sequence[Path], serving: UiServerConfig, announce: Callable[[str, str], None]) -> None:
    """Serve collections until SIGINT or SIGTERM; `announce` gets the URL and the token (empty: none needed)."""
    if not (serving.token.isascii() and serving.token.isprintable()) or serving.token != serving.token.strip():
        raise UsageError("--token: use printable ASCII characters without spaces at either end")
    if serving.token and len(serving.token) < MIN_TOKEN_CHARS:
        raise UsageError(f"--token: too short; use at least {MIN_TOKEN_CHARS} characters, or omit it to generate one")
    collections = ServedCollections(folders, serving.home)
    token = serving.token if is_loopback(serving.host) else serving.token or secrets.token_urlsafe(18)
    context = AppContext(collections, SystemClock(), read_only=serving.read_only, allow_local=serving.allow_local)
    app = Application(context, AccessPolicy(host_names=serving.host_names, token=token)).asgi()
    listener = open_listener(serving)
    threading.Thread(target=_refresh_indexes, args=(context,), daemon=True).start()
    shown = f"[{serving.host}]" if ":" in serving.host else serving.host
    announce(f"http://{shown}:{listener.getsockname()[1]}/", token)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1, lifespan="off"
    )
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def _refresh_indexes(context: AppContext) -> None:
    """Update the indexes before the first search; the page of an unreadable collection shows the error."""
    context.searchers.refresh(context.collections.folders)
    load_surface_vectors()  # the first question needs them


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "box.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_listener(serving: UiServerConfig) -> socket.socket:
    """A socket that listens where it is wanted; UsageError where that can't be."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            serving.host, serving.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UsageError(f"--host {serving.host}: is no address: {error.strerror or error}") from error
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"--host {serving.host} --port {serving.port}: can't listen there: {error.strerror or error};"
            " choose another, or --port 0 for any free one"
        ) from error
    return listener
