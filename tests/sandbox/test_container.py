"""The container provider: its command line, its words, and its whole way with a stand-in for the engine.

These tests run where there is no engine. The stand-in takes the same command line and starts Bubblewrap with what it
says, so that everything but the engine itself is real: mounts, channel, ending, leftovers. It limits no processes.
`test_container_engine.py` is for real engines.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from speceyes.errors import SandboxUnavailable
from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox import Container, Limits, container
from speceyes.sandbox.container import command
from speceyes.sandbox.engine import Engine, environment

ENGINE = """#!{python} -IS
import json, os, signal, sys
words, state = sys.argv[1:], {state!r}
with open(state + "/log", "a") as log:
    log.write(json.dumps(words) + "\\n")
def value(flag):
    return words[words.index(flag) + 1]
if words[0] == "--version":
    print("Docker version", {version!r})
if words[0] == "version":
    print({version!r})
    sys.exit({version_code})
if words[:2] == ["image", "inspect"]:
    sys.exit(0 if os.path.exists(state + "/" + words[-1]) else 1)
if words[0] == "rm":
    try:
        os.kill(int(open(state + "/pid-" + words[-1]).read()), signal.SIGKILL)
        os.unlink(state + "/pid-" + words[-1])
    except OSError:
        sys.exit(1)
if words[0] == "ps":
    name = words[-1].partition("=")[2]
    print("c0ffee" if os.path.exists(state + "/pid-" + name) else "")
if words[0] == "run":
    mounts = [dict(part.split("=") for part in word.removesuffix(",readonly").split(","))
              for flag, word in zip(words, words[1:]) if flag == "--mount"]
    with open(state + "/pid-" + value("--name"), "w") as file:
        file.write(str(os.getpid()))
    uid = value("--user").partition(":")[0]
    argv = ["bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--uid", uid, "--gid", uid, "--clearenv",
            "--perms", "0755", "--dir", "/usr", "--perms", "0755", "--dir", "/python",
            "--ro-bind", "/usr/lib", "/usr/lib", "--symlink", "usr/lib", "/lib",
            "--ro-bind-try", "/lib64", "/lib64", "--dev-bind", "/dev/null", "/dev/null", "--proc", "/proc",
            "--ro-bind", {library!r}, "/python/lib", "--ro-bind", {binary!r}, "/python/bin/python3",
            "--ro-bind", {packages!r}, "/python/lib/{version_name}/site-packages",
            "--setenv", "LD_LIBRARY_PATH", "/python/lib", "--tmpfs", "/tmp"]
    for mount in mounts:
        argv += ["--ro-bind", mount["source"], mount["target"]]
    after = words.index({image!r}) + 1
    os.execvp("bwrap", [*argv, "--chdir", "/tmp", "/python/bin/" + value("--entrypoint"), *words[after:]])
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def engine(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for `docker` at the front of the path. Nobody looks whether it limits processes."""
    monkeypatch.setattr(container, "_LOOK", "import numpy, PIL\nprint(numpy.__version__, PIL.__version__, 1)")
    return an_engine(tmp_path, state, monkeypatch)


def an_engine(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, says: str = "28.0", code: int = 0) -> Path:
    import numpy

    library = Path(sysconfig.get_path("stdlib")).resolve()
    text = ENGINE.format(
        python=sys.executable,
        state=str(state),
        version=says,
        version_code=code,
        image="speceyes-sandbox",
        library=str(library.parent),
        version_name=library.name,
        binary=os.path.realpath(sys.executable),
        packages=str(Path(numpy.__file__).parents[1]),
    )
    file = tmp_path / "bin" / "docker"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
    return file


DOCKER = Engine("docker", "/bin/docker", podman=False)
PODMAN = Engine("podman", "/bin/podman", podman=True)


def words(limits: Limits, runtime: str | None = None, engine: Engine = DOCKER) -> list[str]:
    return list(command(engine, "an-image", "a-name", Path("/here"), limits, runtime))


def test_the_command_line_takes_everything_away() -> None:
    said = " ".join(words(Limits()))
    for part in (
        "run --rm --interactive --init=false --pull never --name a-name",
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--user 65534:65534",
        "--ipc none",
        "--log-driver none",
        "--ulimit core=0",
        "--mount type=bind,source=/here/images,target=/images,readonly",
        "--mount type=bind,source=/here/inside,target=/sandbox/inside,readonly",
        "--mount type=bind,source=/here/hosts,target=/etc/hosts,readonly",
        "--mount type=bind,source=/here/resolver,target=/etc/resolv.conf,readonly",
        "--tmpfs /dev/pts:ro,",
        "--tmpfs /dev/mqueue:ro,",
        "--tmpfs /tmp:rw,nosuid,nodev,size=",
    ):
        assert part in said
    assert not re.search(r"--(privileged|volume|env|publish|cap-add|device|pid|userns)\b|(?<!\S)-[veP]\b", said)


def test_the_command_line_has_the_limits_and_nothing_after_the_code() -> None:
    said = words(replace(Limits(), processes=7, open_files=50, total_memory_bytes=1000, files_bytes=24))
    processors = str(min(2, os.cpu_count() or 1))  # more than there are is an error
    given = (("--pids-limit", "9"), ("--memory", "1024b"), ("--memory-swap", "1024b"), ("--cpus", processors))
    for flag, value in given:
        assert said[said.index(flag) + 1] == value
    assert "nofile=50:50" in said
    assert "/tmp:rw,nosuid,nodev,size=24,mode=1777" in said
    assert said[-5:-1] == ["an-image", "-I", "-B", "-c"]


def test_a_runtime_with_a_kernel_of_its_own_can_be_named() -> None:
    said = words(Limits(), "runsc")
    assert said[said.index("--runtime") + 1] == "runsc"
    assert "--runtime" not in words(Limits())


def test_podman_is_told_what_docker_does_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--read-only-tmpfs=false" not in words(Limits())
    said = words(Limits(), engine=PODMAN)
    assert said[0] == "/bin/podman"
    assert {"--read-only-tmpfs=false", "--http-proxy=false"} < set(said)
    for hard, given in ((resource.RLIM_INFINITY, 32768), (100_000, 32768), (500, 500)):
        monkeypatch.setattr(resource, "getrlimit", lambda what, hard=hard: (1, hard))
        assert f"nproc={given}:{given}" in words(Limits(), engine=PODMAN)


def test_the_client_is_told_where_the_engine_is_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "CONTAINERS_CONF", "XDG_RUNTIME_DIR", "OPENAI_API_KEY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "x")
    assert {"DOCKER_HOST", "CONTAINERS_CONF", "XDG_RUNTIME_DIR"} < set(environment())
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY"} & set(environment())


async def test_without_a_client_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await Container().available()
    assert (found.available, found.reason) == (False, "docker or podman is not on the path")
    found = await Container("podman").available()
    assert found.reason == "podman is not on the path"
    with pytest.raises(SandboxUnavailable, match="container: docker or podman is not on the path"):
        async with Container().open():
            pass


async def test_without_a_daemon_it_says_so(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_engine(tmp_path, state, monkeypatch, "Cannot connect to the Docker daemon. Is it running?", 1)
    found = await Container("docker").available()
    assert not found.available
    assert found.reason == "docker has no engine to speak to: Cannot connect to the Docker daemon. Is it running?"


async def test_the_second_engine_is_asked_where_the_first_does_not_answer(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_LOOK", "import numpy, PIL\nprint(numpy.__version__, PIL.__version__, 1)")
    working = an_engine(tmp_path, state, monkeypatch).rename(tmp_path / "bin" / "podman")
    (state / "speceyes-sandbox").touch()
    first = working.with_name("docker")
    first.write_text(f"#!{sys.executable} -IS\nraise SystemExit('no daemon')\n")
    first.chmod(0o755)
    found = await Container().available()
    assert found.available, found.reason
    assert found.reason.startswith("podman, Python")
    (state / "speceyes-sandbox").unlink()
    found = await Container().available()
    assert found.reason.startswith("docker has no engine to speak to: no daemon; podman has no image speceyes-sandbox")


async def test_without_its_image_it_says_how_to_make_it(engine: Path) -> None:
    found = await Container("docker").available()
    assert not found.available
    assert found.reason == "docker has no image speceyes-sandbox; make it with `speceyes sandbox image`"


async def test_an_engine_that_limits_no_processes_is_refused(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_engine(tmp_path, state, monkeypatch)
    (state / "speceyes-sandbox").touch()
    found = await Container("docker").available()
    assert not found.available
    assert found.reason == "docker does not limit processes here: it has no control groups"


async def test_the_memory_of_all_processes_is_watched_from_inside(engine: Path, state: Path) -> None:
    (state / "speceyes-sandbox").touch()
    limits = replace(Limits(), wall_s=200, total_memory_bytes=400 << 20)
    async with Container("docker").open(limits=limits) as session:
        outcome = await session.run(
            "import os, signal\nfor _ in range(4):\n    if os.fork() == 0:\n        hoard = b'x' * (150 << 20)\n"
            "        signal.pause()\nsignal.pause()"
        )
        assert outcome.error == "The code was stopped: its processes together used more than 400 MiB of memory."
        assert (outcome.state_lost, outcome.timed_out) == (True, False)
        assert (await session.run("print(1)")).stdout == "1\n"


async def test_a_session_runs_and_leaves_no_container_and_no_folder(engine: Path, state: Path) -> None:
    (state / "speceyes-sandbox").touch()
    provider = Container("docker")
    found = await provider.available()
    assert found.available, found.reason
    image = DecodedImage.of_pixels(Image.new("RGB", (30, 20), "red"))
    async with provider.open([image], replace(Limits(), wall_s=200)) as session:
        outcome = await session.run("from PIL import Image\npicture = Image.open(image_path)\nprint(picture.size)")
        assert (outcome.stdout, outcome.error) == ("(30, 20)\n", None)
        outcome = await session.run("picture.crop((0, 0, 9, 9)).save('crop.png')")
        assert [one.image.size for one in outcome.pictures] == [(9, 9)]
        outcome = await session.run("import socket\nsocket.socket()")
        assert "PermissionError" in (outcome.error or "")
        outcome = await session.run("while True: pass", 1)
        assert outcome.timed_out
        assert (await session.run("print(1)")).stdout == "1\n"
    assert await session.remains() == ()
    assert not [name for name in os.listdir(state) if name.startswith("pid-")]


async def test_what_it_leaves_is_seen(engine: Path, state: Path) -> None:
    (state / "speceyes-sandbox").touch()
    async with Container("docker").open() as session:
        await session.run("1")
        assert [left.partition(" ")[0] for left in await session.remains()] == ["container", "folder"]
    assert await session.remains() == ()


def test_the_image_has_what_the_documentation_promises() -> None:
    text = (Path(__file__).parents[2] / "deploy" / "sandbox" / "Containerfile").read_text()
    assert re.search(r"^ARG BASE=\S*python:3\.1[1-9]-slim\nFROM \$\{BASE\}$", text, re.MULTILINE)
    for package in ("numpy", "pillow", "matplotlib", "opencv-python-headless"):
        assert package in text
    assert "USER 65534:65534" in text
