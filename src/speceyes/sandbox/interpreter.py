"""Which Python runs inside: its binary, its standard library and the packages, and nothing else of their environment.

By default these are the packages of the environment that SpecEyes runs in. `speceyes sandbox setup` makes an
environment for the sandbox alone, which is used from then on. Of either, only folders of libraries are mounted,
read-only and under neutral names: no script, no configuration, no `.env` beside them, and no path that names a person.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from speceyes.errors import ConfigError, SandboxUnavailable

HOME = "/python"
"""Where the interpreter lies inside."""
PACKAGES = ("numpy", "pillow", "matplotlib", "opencv-python-headless")
"""What `setup` installs."""
_NEEDED, _WANTED = ("numpy", "PIL"), ("matplotlib", "cv2")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python to be mounted.

    Attributes:
        binary: Its executable file.
        libraries: Folders of the host and where they go, standard library first.
        packages: Folders of the host with packages. The n-th goes to `/packages/n`.
        missing: Packages that are of use and not there, by import name.
    """

    binary: Path
    libraries: tuple[tuple[Path, str], ...]
    packages: tuple[Path, ...]
    missing: tuple[str, ...] = ()

    @property
    def package_mounts(self) -> tuple[tuple[Path, str], ...]:
        """Folders of packages, and where they go."""
        return tuple((folder, f"/packages/{number}") for number, folder in enumerate(self.packages))


def default_folder() -> Path:
    """Where `speceyes sandbox setup` makes its environment."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "speceyes" / "sandbox"


def find_interpreter(folder: Path | None = None) -> Interpreter:
    """The Python of this process, with the packages of an environment.

    Args:
        folder: An environment that `make_environment` made. None: the one in its usual place, or where there is none,
            that of this process.

    Raises:
        SandboxUnavailable: It lacks NumPy or Pillow, or was made for another Python.
    """
    if folder is None and default_folder().is_dir():
        folder = default_folder()
    packages = _of_this_process() if folder is None else (_site_packages(folder),)

    def has(name: str) -> bool:
        return any((place / name).is_dir() for place in packages)

    if lacking := [name for name in _NEEDED if not has(name)]:
        raise SandboxUnavailable(f"{folder}: no {' and no '.join(lacking)} there; run `speceyes sandbox setup` again")
    missing = tuple(name for name in _WANTED if not has(name))
    return Interpreter(Path(os.path.realpath(sys.executable)), _libraries(), packages, missing)


def _of_this_process() -> tuple[Path, ...]:
    """The folders that hold the packages; for an ordinary environment that is one."""
    found = [find_spec(name) for name in (*_NEEDED, *_WANTED)]
    places = [Path(spec.origin).resolve().parents[1] for spec in found if spec is not None and spec.origin]
    return tuple(dict.fromkeys(places))


def _site_packages(folder: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = folder / "lib" / version / "site-packages"
    if not place.is_dir():
        raise SandboxUnavailable(f"{folder}: no environment for {version}; run `speceyes sandbox setup` again")
    return place.resolve()


def _libraries() -> tuple[tuple[Path, str], ...]:
    """The standard library and what the binary is linked with, at the same place below `HOME` as below its prefix."""
    prefix = Path(sys.base_prefix).resolve()
    folder = Path(sysconfig.get_path("stdlib")).resolve()
    if prefix != Path("/usr"):
        # An interpreter with a folder of its own: shared libraries lie beside the standard library.
        folder = folder.parent
    return ((folder, f"{HOME}/{folder.relative_to(prefix)}"),)


def make_environment(folder: Path, say: Callable[[str], None], packages: Sequence[str] = PACKAGES) -> None:
    """Make a virtual environment with the packages that code about pictures wants. Takes a minute.

    Args:
        folder: Where; what is there is brought up to date.
        say: Is told what is being done.
        packages: What to install, as pip takes it.

    Raises:
        ConfigError: The folder cannot be written, or pip failed.
    """
    binary = folder / "bin" / "python"
    for what, command in (
        ("Making the environment", [sys.executable, "-m", "venv", str(folder)]),
        (
            f"Installing {', '.join(packages)}",
            [str(binary), "-m", "pip", "install", "--quiet", "--upgrade", "--only-binary", ":all:", *packages],
        ),
    ):
        say(what)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise ConfigError(f"{folder}: {what.lower()} failed: {said[-1]}")
