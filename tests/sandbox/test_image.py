"""The image that is made from the Python of this machine: what is in it, and how an engine is given it."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from speceyes.errors import SandboxError
from speceyes.sandbox import image
from speceyes.sandbox.engine import Engine
from speceyes.sandbox.image import PACKAGES, contents, make_image
from speceyes.sandbox.interpreter import Interpreter, find_interpreter

TAKER = """#!{python} -IS
import sys
if sys.argv[1] == "image":
    print("the-former-one")
if sys.argv[1] == "import":
    if "{name}" == "unwilling":
        sys.exit("no space left")
    open("{folder}/archive.tar", "wb").write(sys.stdin.buffer.read())
open("{folder}/log", "a").write(repr(sys.argv[1:]) + "\\n")
"""


def an_engine(folder: Path, name: str = "willing") -> Engine:
    """A stand-in that keeps what it is given."""
    file = folder / name
    file.write_text(TAKER.format(python=sys.executable, name=name, folder=folder))
    file.chmod(0o755)
    return Engine("docker", str(file), podman=False)


@pytest.fixture(scope="module")
def files() -> dict[str, Path]:
    return contents(find_interpreter())


def test_the_interpreter_its_library_and_the_packages_are_in_it(files: dict[str, Path]) -> None:
    library = f"python/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    packages = PACKAGES.lstrip("/")
    for name in ("python/bin/python3", f"{library}/os.py", f"{packages}/numpy/__init__.py", f"{packages}/PIL/Image.py"):
        assert name in files
    assert any(path.name.startswith(("libc.so", "libc.musl")) for path in files.values()), "no C library"
    assert all(path.is_file() for path in files.values())


def test_what_a_package_requires_is_in_it_and_what_nobody_requires_is_not(files: dict[str, Path]) -> None:
    tops = {name.split("/")[1] for name in files if name.startswith(PACKAGES.lstrip("/"))}
    assert {"matplotlib", "kiwisolver", "dateutil"} <= tops
    assert not tops & {"speceyes", "pytest", "pip", "xllamacpp", "__editable__"}


def test_no_path_names_a_place_of_this_machine(files: dict[str, Path]) -> None:
    assert not [name for name in files if name.startswith("/") or ".." in name.split("/")]
    outside = {name for name in files if not name.startswith(("python/", "packages/"))}
    assert all(name.rpartition("/")[2].startswith("ld-") for name in outside), "more than the loader lies elsewhere"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """An image of two files, one of them a link."""
    program, text = tmp_path / "program", tmp_path / "text"
    program.write_text("run")
    program.chmod(0o4700)
    text.symlink_to(program)
    given = {"python/bin/python3": program, "packages/text.py": text}
    monkeypatch.setattr(image, "contents", lambda python: given)
    return find_interpreter()


async def test_an_engine_is_given_files_that_belong_to_root(small: Interpreter, tmp_path: Path) -> None:
    await make_image(an_engine(tmp_path), "an-image", small, lambda text: None)
    with tarfile.open(tmp_path / "archive.tar") as archive:
        entries = {entry.name: entry for entry in archive.getmembers()}
    assert {entry.uid for entry in entries.values()} == {0}
    assert entries["tmp"].mode == 0o1777
    assert entries["python/bin/python3"].mode == 0o755, "the bit that lends the owner's rights is gone"
    assert entries["packages/text.py"].isfile()
    assert {"images", "sandbox/inside", "proc"} <= set(entries)
    log = (tmp_path / "log").read_text().splitlines()
    assert "'ENV PATH=/python/bin'" in log[1]
    assert log[1].endswith("'-', 'an-image']")
    assert log[-1] == "['rmi', 'the-former-one']"


async def test_an_engine_that_does_not_take_it_says_why(small: Interpreter, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="docker does not take the image: no space left"):
        await make_image(an_engine(tmp_path, "unwilling"), "an-image", small, lambda text: None)
