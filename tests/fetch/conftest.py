"""A certificate for servers of the tests."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for birds.example, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("tls")
    both, key = folder / "both.pem", folder / "key.pem"
    names = ["-subj", "/CN=birds.example", "-addext", "subjectAltName=DNS:birds.example"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = [openssl, "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(both)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_bytes(both.read_bytes() + key.read_bytes())
    return both
