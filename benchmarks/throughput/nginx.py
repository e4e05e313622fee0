"""nginx with one worker, serving the sites from a temporary folder. Runs until the block is left."""

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sites import address_of

_CONFIGURATION = """
daemon off; worker_processes 1; pid {run}/nginx.pid; error_log {run}/error.log warn;
events {{ worker_connections 2048; }}
http {{
    access_log off; sendfile on; tcp_nodelay on; keepalive_requests 100000; keepalive_timeout 60s;
    open_file_cache max=20000 inactive=10m; gzip off;
    types {{ text/html html; text/plain txt; }}
    default_type application/octet-stream; charset utf-8; charset_types text/plain;
    client_body_temp_path {run}/body; proxy_temp_path {run}/proxy; fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi; scgi_temp_path {run}/scgi;
    server {{
        listen {port}; root {sites}/$host; index index.html;
        location = / {{ sub_filter PORT {port}; sub_filter_once off; try_files /index.html =404; }}
    }}
}}
"""


@contextmanager
def serving(folder: Path, port: int) -> Iterator[None]:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    run = folder / "run"
    run.mkdir(exist_ok=True)
    configuration = run / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(run=run, sites=folder / "sites", port=port))
    command = [program, "-p", str(run), "-e", str(run / "error.log"), "-c", str(configuration)]
    process = subprocess.Popen(command)
    try:
        _wait_for(f"http://{address_of(0)}:{port}/robots.txt", process)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(100):
        if process.poll() is not None:
            raise SystemExit(f"nginx ended with {process.returncode}")
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=1).read()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("nginx does not answer")


def version() -> str:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stderr
    return said.strip().rpartition("/")[2]
