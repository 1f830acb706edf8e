"""The container provider: its command line, its words, and its whole way with a stand-in for the engine.

There is no container engine where these tests run. The stand-in takes the same command line and starts Bubblewrap with
what it says, so that everything but the engine itself is real: mounts, channel, ending, leftovers.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from speceyes.errors import SandboxUnavailable
from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox import Container, Limits
from speceyes.sandbox.container import command

ENGINE = """#!{python} -IS
import json, os, signal, sys
words, state = sys.argv[1:], {state!r}
with open(state + "/log", "a") as log:
    log.write(json.dumps(words) + "\\n")
def value(flag):
    return words[words.index(flag) + 1]
if words[0] == "version":
    print({version!r})
    sys.exit({version_code})
if words[:2] == ["image", "inspect"]:
    sys.exit(0 if os.path.exists(state + "/" + words[2]) else 1)
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
            "--ro-bind-try", "/lib64", "/lib64", "--dev-bind", "/dev/null", "/dev/null",
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
    """A stand-in for `docker` at the front of the path."""
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


def words(limits: Limits, runtime: str | None = None) -> list[str]:
    return list(command("/bin/docker", "an-image", "a-name", Path("/here"), limits, runtime))


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
        "--tmpfs /tmp:rw,nosuid,nodev,size=",
    ):
        assert part in said
    assert not re.search(r"--(privileged|volume|env|publish|cap-add|device|pid|userns)\b|(?<!\S)-[veP]\b", said)


def test_the_command_line_has_the_limits_and_nothing_after_the_code() -> None:
    said = words(replace(Limits(), processes=7, open_files=50, total_memory_bytes=1000, files_bytes=24))
    for flag, value in (("--pids-limit", "9"), ("--memory", "1024b"), ("--memory-swap", "1024b"), ("--cpus", "2")):
        assert said[said.index(flag) + 1] == value
    assert "nofile=50:50" in said
    assert "/tmp:rw,nosuid,nodev,size=24,mode=1777" in said
    assert said[-5:-1] == ["an-image", "-I", "-B", "-c"]


def test_a_runtime_with_a_kernel_of_its_own_can_be_named() -> None:
    said = words(Limits(), "runsc")
    assert said[said.index("--runtime") + 1] == "runsc"
    assert "--runtime" not in words(Limits())


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
    found = await Container().available()
    assert not found.available
    assert found.reason == "docker has no engine to speak to: Cannot connect to the Docker daemon. Is it running?"


async def test_without_its_image_it_says_how_to_make_it(engine: Path) -> None:
    found = await Container().available()
    assert not found.available
    assert (
        "there is no image speceyes-sandbox; make it with `docker build -t speceyes-sandbox -f deploy" in found.reason
    )


async def test_a_session_runs_and_leaves_no_container_and_no_folder(engine: Path, state: Path) -> None:
    (state / "speceyes-sandbox").touch()
    provider = Container()
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
    async with Container().open() as session:
        await session.run("1")
        assert [left.partition(" ")[0] for left in await session.remains()] == ["container", "folder"]
    assert await session.remains() == ()


def test_the_image_has_what_the_documentation_promises() -> None:
    text = (Path(__file__).parents[2] / "deploy" / "sandbox" / "Containerfile").read_text()
    assert re.search(r"^FROM python:3\.1[1-9]-slim$", text, re.MULTILINE)
    for package in ("numpy", "pillow", "matplotlib", "opencv-python-headless"):
        assert package in text
    assert "USER 65534:65534" in text
