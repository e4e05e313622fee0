"""The files in `deploy/`: they parse, their parts fit together, and every command in them is one that Opilio has."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from opilio.cli.commands import app

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
UNITS = sorted(DEPLOY.glob("*.service"))
API_VERSIONS = {"Secret": "v1", "Service": "v1", "Job": "batch/v1", "Deployment": "apps/v1"}
DATABASE = "postgresql://crawler@db.example/crawl"


def _resolved(text: str) -> str:
    """A word of a command after the substitution of variables: `${NAME:-default}`, `${NAME}`, `$(NAME)`, `$NAME`."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    return re.sub(r"\$\{OPILIO_DATABASE\}|\$\(OPILIO_DATABASE\)|\$OPILIO_DATABASE", DATABASE, text)


def _unit_lines(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] not in "#["]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the pod of each Job and Deployment."""
    for manifest in MANIFESTS:
        if manifest["kind"] in ("Job", "Deployment"):
            yield manifest["metadata"]["name"], manifest["spec"]["template"]["spec"]


def _commands() -> Iterator[tuple[str, list[str]]]:
    """The arguments of every `opilio` in the files, with the place they are from."""
    for name, service in COMPOSE["services"].items():
        if service["image"] == "opilio":
            yield f"compose {name}", service["command"]
    for name, pod in _pods():
        for container in pod["containers"]:
            yield f"kubernetes {name}", container["args"]
            probe = container.get("readinessProbe", {}).get("exec")
            if probe:
                yield f"kubernetes {name} probe", shlex.split(probe["command"][2])[2:]
    for path in UNITS:
        yield path.name, shlex.split(dict(_unit_lines(path))["ExecStart"])[1:]


COMMANDS = dict(_commands())


def test_every_role_has_its_command() -> None:
    assert len(COMMANDS) == 9
    assert {arguments[0] for arguments in COMMANDS.values()} == {"crawl", "worker", "serve", "maintain"}


@pytest.mark.parametrize("place", COMMANDS)
def test_command_parses(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, options and values are checked, also the address of the database; nothing is run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = [_resolved(word) for word in COMMANDS[place]]
    assert not any("$" in word for word in words)
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    with command.make_context("opilio", words) as context:
        assert "postgres" in str(context.params)


def test_compose_services_depend_on_each_other() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "crawl", "worker", "serve"}
    for service in services.values():
        for name, dependency in service.get("depends_on", {}).items():
            assert dependency["condition"] != "service_healthy" or "healthcheck" in services[name]
    assert isinstance(services["worker"]["deploy"]["replicas"], int)
    assert services["crawl"]["restart"] == services["worker"]["restart"] == "on-failure"
    assert all(port.startswith("127.0.0.1:") for port in services["serve"]["ports"])
    mounted = {volume.partition(":")[0] for volume in services["postgres"]["volumes"]}
    assert mounted == set(COMPOSE["volumes"])
    built = services["crawl"]["build"]
    assert (DEPLOY / built["context"] / built["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def test_manifests_have_the_keys_that_kubernetes_requires() -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in MANIFESTS]
    assert len(set(names)) == len(names)
    for manifest in MANIFESTS:
        assert manifest["apiVersion"] == API_VERSIONS[manifest["kind"]]
        if manifest["kind"] == "Deployment":
            assert isinstance(manifest["spec"]["replicas"], int)
            labels = manifest["spec"]["template"]["metadata"]["labels"]
            assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_service_selects_one_deployment_and_its_port() -> None:
    (service,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Service")
    selected = [
        manifest["spec"]["template"]
        for manifest in MANIFESTS
        if manifest["kind"] in ("Job", "Deployment")
        and service["spec"]["selector"].items() <= manifest["spec"]["template"]["metadata"]["labels"].items()
    ]
    ((container,),) = (template["spec"]["containers"] for template in selected)
    ports = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} <= ports


@pytest.mark.parametrize("name", dict(_pods()))
def test_pod_uses_secrets_and_volumes_that_are_there(name: str) -> None:
    pod = dict(_pods())[name]
    (secret,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Secret")
    assert pod["securityContext"]["runAsNonRoot"] is True
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        assert all(isinstance(word, str) for word in container["args"])
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for variable in container["env"]:
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference["name"] == secret["metadata"]["name"]
            assert reference["key"] in secret["stringData"]


def test_no_command_line_has_a_password() -> None:
    assert not [place for place, words in COMMANDS.items() if re.search(r"//[^@/ ]+:[^@]+@", " ".join(words))]


def test_image_runs_as_an_ordinary_user() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "FROM python:3.12-slim" in lines
    assert 'ENTRYPOINT ["opilio"]' in lines
    (user,) = (line.split()[1] for line in lines if line.startswith("USER "))
    pods = [pod["securityContext"]["runAsUser"] for _, pod in _pods()]
    assert pods == [int(user)] * len(pods)
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert [name for name in copied if not (DEPLOY.parent / name).exists()] == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """With a command that is on this machine: systemd checks that it exists."""
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/opilio/bin/opilio", shutil.which("true") or "")
        (tmp_path / path.name.replace("@", "@1")).write_text(text, encoding="utf-8")
    units = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "opilio" in line]
    assert ours == []
