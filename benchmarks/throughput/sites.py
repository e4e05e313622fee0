"""The pages that every crawler of this benchmark reads: real documentation, spread over twenty hosts.

Packages are downloaded with apt and unpacked into a temporary folder, not installed. A host holds some 250 pages of one
package, an index page that lists them all and leads to the other hosts, and a robots.txt. Links that lead out of a
host's pages are pointed at the page itself: all crawlers then ask for exactly the same addresses.
"""

import hashlib
import json
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape, unescape
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

HOSTS = 20
PER_HOST = 260
SMALLEST, LARGEST = 2_000, 1_000_000  # bytes: no redirect stubs, no giant indexes
# Packages with many pages; those that depend on a version are found by what they begin with.
PACKAGES = (
    *("python3.*-doc", "postgresql-doc-*", "python-django-doc", "sqlite3-doc", "git-doc", "libglib2.0-doc"),
    *("libgtk-3-doc", "sphinx-doc", "debian-policy", "apache2-doc", "cmake-doc"),
)
_HREF = re.compile(rb"""(\shref\s*=\s*)("[^"]*"|'[^']*'|[^\s"'<>]+)""", re.IGNORECASE)


def address_of(number: int) -> str:
    return f"127.0.0.{number + 2}"


def collect(folder: Path) -> dict[str, int]:
    """Make the sites where they are not there yet; says how many pages and bytes they have."""
    summary = folder / "summary.json"
    if not summary.exists():
        pages, size = 0, 0
        parts = list(islice(_parts(folder), HOSTS))
        for number, (name, files) in enumerate(parts):
            written = _write_host(folder / "sites" / address_of(number), name, files)
            pages, size = pages + written[0], size + written[1]
        summary.write_text(json.dumps({"hosts": len(parts), "pages": pages, "bytes": size}))
    found: dict[str, int] = json.loads(summary.read_text())
    return found


def _parts(folder: Path) -> Iterator[tuple[str, dict[str, Path]]]:
    """(name, {path: file}) of one host after the other; no text twice."""
    seen: set[bytes] = set()
    for pattern in PACKAGES:
        root = _unpacked(folder, pattern)
        if root is None:
            print(f"no package {pattern}: left out", file=sys.stderr)
            continue
        files = sorted(p for p in root.rglob("*.html") if p.is_file() and not p.is_symlink())
        kept = []
        for path in files:
            if SMALLEST <= path.stat().st_size <= LARGEST:
                digest = hashlib.blake2b(path.read_bytes()).digest()
                if digest not in seen:
                    seen.add(digest)
                    kept.append(path)
        count = max(1, round(len(kept) / PER_HOST))
        for part in range(count):
            chosen = kept[part * PER_HOST : (part + 1) * PER_HOST]
            if len(chosen) > PER_HOST // 2:
                yield f"{root.name} {part + 1}", {p.relative_to(root).as_posix(): p for p in chosen}


def _unpacked(folder: Path, pattern: str) -> Path | None:
    names = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True).stdout.split()
    wanted = re.compile(pattern.replace(".", r"\.").replace("*", r"[\d.]*"))
    names = sorted((n for n in names if wanted.fullmatch(n)), key=len)
    if not names:
        return None
    name = names[-1]
    root, archives = folder / "unpacked" / name, folder / "packages"
    if not root.exists():
        archives.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", name], cwd=archives, check=True, stderr=subprocess.DEVNULL)
        (archive,) = archives.glob(f"{name}_*.deb")
        root.mkdir(parents=True)
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    return root


def _write_host(root: Path, name: str, files: dict[str, Path]) -> tuple[int, int]:
    size = 0
    for path, file in files.items():
        page = _kept_inside(file.read_bytes(), path, files)
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(page)
        size += len(page)
    items = "".join(f'<li><a href="/{escape(path)}">{escape(path)}</a></li>\n' for path in files)
    others = "".join(f'<li><a href="http://{address_of(n)}:PORT/">host {n + 1}</a></li>\n' for n in range(HOSTS))
    index = f"<!DOCTYPE html><title>{name}</title><h1>{name}</h1><ul>{items}</ul><h2>Elsewhere</h2><ul>{others}</ul>"
    (root / "index.html").write_text(index)
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    return len(files) + 1, size + len(index)


def _kept_inside(page: bytes, path: str, files: dict[str, Path]) -> bytes:
    def inside(found: re.Match[bytes]) -> bytes:
        href = unescape(found[2].strip(b"\"'").decode("utf-8", "replace")).strip()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(href.partition("#")[0])))
        stays = not href or href.startswith("#") or ("://" not in href and "?" not in href and target in files)
        return found[0] if stays else found[1] + b'"#"'

    return _HREF.sub(inside, page)
