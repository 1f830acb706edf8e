"""The image of the container sandbox, made from the Python of this machine: no registry is asked, nothing is fetched.

It holds the interpreter, its standard library, the packages and the shared libraries that these are linked with, and
nothing else: no shell, no other program. The packages are those that Bubblewrap would use: of the environment that
`speceyes sandbox setup` makes, or of this process. An image with a distribution in it comes from
`deploy/sandbox/Containerfile`.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path, PurePosixPath

from speceyes.errors import SandboxError, SandboxUnavailable
from speceyes.sandbox.engine import Engine, environment
from speceyes.sandbox.interpreter import HOME, Interpreter

PACKAGES = "/packages"
"""Where the packages lie in the image."""
WANTED = ("numpy", "pillow", "matplotlib", "opencv-python-headless", "opencv-python")
_NO_USE_INSIDE = frozenset({"site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip"})
"""Folders of the standard library."""
_FOLDERS = ("dev", "etc", "images", "proc", "sandbox", "sandbox/inside", "sys", "tmp")
"""On which an engine, or the start of a session, mounts something."""
_AT_A_TIME = 100
_REMOVED_S = 300.0
_LINKED = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
"""A line of ldd(1) that names a file."""
_SETTINGS = (
    f"ENV PATH={HOME}/bin",
    f"ENV LD_LIBRARY_PATH={HOME}/lib",
    "USER 65534:65534",
    "WORKDIR /tmp",
    'ENTRYPOINT ["python3"]',
)


async def make_image(engine: Engine, image: str, python: Interpreter, say: Callable[[str], None]) -> None:
    """Make an image and give it to an engine. Takes some ten seconds, more where the machine is busy.

    Args:
        engine: Which keeps it.
        image: Its name. An image of this name that is there already is removed, unless a container is made of it.
        python: What is in it.
        say: Is told what is being done.

    Raises:
        SandboxError: The engine did not take it.
        SandboxUnavailable: `ldd`, which finds shared libraries, is not there.
    """
    say("Looking for what the interpreter needs")
    files = await asyncio.to_thread(contents, python)
    code, former = await engine.ask("image", "inspect", "--format", "{{.Id}}", image)
    say(f"Giving {len(files):,} files to {engine.name}")
    await asyncio.to_thread(_give, engine, image, files)
    if code == 0:
        await engine.ask("rmi", former, within_s=_REMOVED_S)


def _give(engine: Engine, image: str, files: dict[str, Path]) -> None:
    """Let an engine read the files from its standard input, as an archive."""
    changes = [word for setting in _SETTINGS for word in ("--change", setting)]
    process = subprocess.Popen(
        [engine.binary, "import", *changes, "-", image],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
    )
    assert process.stdin is not None
    try:
        # With the usual blocks of ten kilobytes most of the time goes into changing from one process to the other.
        with tarfile.open(fileobj=process.stdin, mode="w|", bufsize=1 << 20) as archive:
            _write(archive, files)
    except BrokenPipeError:
        pass  # the engine says why
    said, _ = process.communicate()
    if process.returncode != 0:
        lines = said.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise SandboxError(f"{engine.name} does not take the image: {lines[-1]}")


def contents(python: Interpreter) -> dict[str, Path]:
    """All files of the image: where they go, without the leading stroke, and where they come from."""
    files = {f"{HOME}/bin/python3": python.binary, **_standard_library(), **_packages(python.packages)}
    binaries = [path for path in files.values() if ".so" in path.name or path == python.binary]
    inside = {path.resolve() for path in binaries}
    for path in _linked(binaries):
        if path.resolve() not in inside:
            # The loader is asked for by its path, everything else by its name alone.
            files[str(path) if path.name.startswith("ld-") else f"{HOME}/lib/{path.name}"] = path
    return {place.lstrip("/"): path for place, path in sorted(files.items())}


def _standard_library() -> dict[str, Path]:
    """At the same place below `HOME` as below the prefix of this Python, which finds it from there."""
    folder, prefix = Path(sysconfig.get_path("stdlib")).resolve(), Path(sys.base_prefix).resolve()
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NO_USE_INSIDE and not name.startswith("config-")]
        for name in names:
            path = Path(place, name)
            if not name.startswith("_tkinter") and path.is_file():
                found[f"{HOME}/{path.relative_to(prefix)}"] = path
    return found


def _packages(folders: Sequence[Path]) -> dict[str, Path]:
    """The files of the packages that are wanted and there, and of all that they require."""
    context = DistributionFinder.Context(path=[str(folder) for folder in folders])
    there = {_plain(found.name): found for found in MetadataPathFinder.find_distributions(context)}
    waiting, taken = [*WANTED], set[str]()
    files: dict[str, Path] = {}
    while waiting:
        name = _plain(waiting.pop())
        if name in taken or name not in there:
            continue
        taken.add(name)
        files.update(_files_of(there[name]))
        for requirement in there[name].requires or ():
            if "extra ==" not in requirement:
                waiting += re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return files


def _files_of(package: Distribution) -> Iterator[tuple[str, Path]]:
    for name in package.files or ():
        path = Path(str(package.locate_file(name)))
        # Programs lie outside of the folder.
        if ".." not in name.parts and path.is_file():
            yield f"{PACKAGES}/{PurePosixPath(name)}", path


def _plain(name: str) -> str:
    """A package's name as it is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _linked(binaries: Sequence[Path]) -> Iterable[Path]:
    """The shared libraries that the loader would load for these files, itself included."""
    found: set[Path] = set()
    for start in range(0, len(binaries), _AT_A_TIME):
        words = ["ldd", *map(str, binaries[start : start + _AT_A_TIME])]
        try:
            # Its exit code is 1 where one of the files is linked with nothing.
            said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        except OSError as error:
            raise SandboxUnavailable(f"the program `ldd` cannot be run: {error.strerror}") from error
        found.update(map(Path, _LINKED.findall(said)))
    return sorted(found)


def _write(archive: tarfile.TarFile, files: dict[str, Path]) -> None:
    """Files that belong to root and that everybody may read. Links become what they point to."""
    for folder in _FOLDERS:
        archive.addfile(_entry(folder, tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755))
    for place, path in files.items():
        data = path.read_bytes()
        entry = _entry(place, tarfile.REGTYPE, 0o755 if path.stat().st_mode & 0o100 else 0o644)
        # Compiled modules name the time of their sources.
        entry.size, entry.mtime = len(data), int(path.stat().st_mtime)
        archive.addfile(entry, io.BytesIO(data))


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry
