"""Settings from the command line: `--set` over options over the `--config` file; seeds from `--seed` and `--seeds`."""

import re
from pathlib import Path
from typing import Any

from opilio.cli.options import print_message
from opilio.core.errors import ConfigError
from opilio.core.settings import Tree, merge_trees, parse_setting, read_settings
from opilio.core.urls import canonicalize_url, host_of, require_url
from opilio.seeds.url_lists import read_numbered_seeds

# A name on this machine or an address: local servers rarely have a certificate.
_LOCAL_WITHOUT_SCHEME = re.compile(r"(?i)(localhost|\d{1,3}(\.\d{1,3}){3})(:\d+)?([/?#].*)?")
# `example.org`, `example.org:8080/path`: a host name with a dot, and no scheme.
_WITHOUT_SCHEME = re.compile(r"(?i)[a-z0-9_-]+(\.[a-z0-9_-]+)*\.[a-z][a-z0-9-]+\.?(:\d+)?([/?#].*)?")


def merge_options(given: dict[str, Any], assignments: list[str], config: Path | None) -> Tree:
    """The settings that the user gave; options without a value are left out."""
    tree = _drop_none(given)
    for text in assignments:
        tree = merge_trees(tree, parse_setting(text))
    return merge_trees(read_settings(config), tree) if config else tree


def read_scope_options(sites: list[str], allow: list[str], deny: list[str]) -> Tree:
    """The scope of the command line; a site may be written as a domain or a URL."""
    domains = [host_of(_site_url(site)).removeprefix("www.") for site in sites]
    return {"allow": [*domains, *allow] or None, "deny": deny or None}


def _site_url(site: str) -> str:
    found = canonicalize_url(site if "://" in site else f"https://{site}/")
    if found is None:
        raise ConfigError(f"--site {site}: not a valid domain; write it like example.org")
    return found


def read_seed_options(
    urls: list[str], path: Path | None, sites: list[str] | None = None
) -> list[str] | dict[str, int] | None:
    """The seeds of the command line; a file may give priorities. A missing scheme is reported once.

    Without seeds, crawls start at the home pages of `sites`.
    """
    if not urls and path is None:
        return [_site_url(site) for site in sites or []] or None
    priorities: dict[str, int] = {}
    without_scheme: list[str] = []
    if path is not None:
        for number, seed in read_numbered_seeds(path, "--seeds").items():
            where = f"--seeds {path}, line {number}"
            priorities[_add_scheme(seed.url, where, without_scheme)] = seed.priority
    from_file = list(priorities)
    given = [_add_scheme(url, "--seed", without_scheme) for url in urls]
    if without_scheme:
        more = f" and {len(without_scheme) - 1} more" if len(without_scheme) > 1 else ""
        print_message(f"seed '{without_scheme[0]}'{more}: no scheme given, using {_default_scheme(without_scheme[0])}")
    if all(priority == 1 for priority in priorities.values()):
        return [*given, *from_file] or None
    return {**priorities, **dict.fromkeys(given, 1)}


def _add_scheme(url: str, where: str, without_scheme: list[str]) -> str:
    """A seed as a URL; one without a scheme is also added to the list."""
    if scheme := _default_scheme(url):
        without_scheme.append(url)
        url = scheme + url
    require_url(url, f"{where}:", ConfigError)
    return url


def _default_scheme(url: str) -> str:
    """The scheme of a URL that has none; empty for one that has, or that is no URL."""
    if _LOCAL_WITHOUT_SCHEME.fullmatch(url):
        return "http://"
    return "https://" if _WITHOUT_SCHEME.fullmatch(url) else ""


def _drop_none(tree: dict[str, Any]) -> Tree:
    result: Tree = {}
    for key, value in tree.items():
        inner = _drop_none(value) if isinstance(value, dict) else value
        if inner is not None and inner != {}:
            result[key] = inner
    return result
