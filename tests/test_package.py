"""The package's front door: its names, and that opening it costs nothing."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import speceyes

HEAVY = ("numpy", "PIL", "httpx", "pydantic", "xllamacpp", "rich")
SOURCE = Path(speceyes.__file__).parents[1]


def loaded_by(statement: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after a statement."""
    found = f"print(*[name for name in {HEAVY} if name in sys.modules])"
    script = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {statement}; {found}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_every_name_can_be_had() -> None:
    for name in speceyes.__all__:
        assert getattr(speceyes, name) is not None
    assert set(speceyes.__all__) <= set(dir(speceyes))


@pytest.mark.parametrize(
    "name", ["Funnel", "Query", "Answer", "Calibration", "DraftModel", "AgentModel", "open_funnel"]
)
def test_the_main_names_are_public(name: str) -> None:
    assert name in speceyes.__all__


def test_type_checkers_see_the_same_names_as_the_interpreter() -> None:
    stated = Path(speceyes.__file__).read_text().partition("if TYPE_CHECKING:")[2].partition("_HOMES")[0]
    seen = {line.partition("  #")[0].split(" as ")[-1].strip() for line in stated.splitlines() if " as " in line}
    assert seen | {"__version__"} == set(speceyes.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'funel'"):
        speceyes.funel  # noqa: B018


def test_the_version_is_the_distributions() -> None:
    assert speceyes.__version__ == importlib.metadata.version("speceyes")


def test_importing_it_loads_nothing_heavy() -> None:
    assert loaded_by("import speceyes") == set()


def test_training_takes_the_scenes_without_the_rest_of_the_product() -> None:
    scenes = "import speceyes.evals.datasets.scenes, speceyes.evals.datasets.questions"
    assert loaded_by(scenes) <= {"PIL", "numpy"}


def test_the_command_line_starts_without_the_models() -> None:
    assert loaded_by("import speceyes.cli") == set()
