"""Settings from everywhere: what is given in a higher place stands above what is given in a lower one.

    flags > environment > file > defaults

Who chooses another engine, or another way to gate, in a higher place does not get the rest of the choice that a lower
place made: a key for one server is never sent to another, and `--threshold` puts aside a file's calibration.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from speceyes.config.settings import Settings
from speceyes.errors import ConfigError

CONFIG_FILE = "speceyes.toml"
"""Read from the working directory where no other file is named."""
ENV_PREFIX = "SPECEYES_"

Name = tuple[str, str]
"""Section and key."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value, and the place that it was given in, in words for messages."""

    value: object
    place: str


Source = dict[Name, Given]

FIELDS: dict[Name, FieldInfo] = {
    (section, key): field
    for section, group in Settings.model_fields.items()
    for key, field in group.annotation.model_fields.items()  # type: ignore[union-attr]
}
"""Every setting there is."""

_NEVER_SHOWN = ("api_key", "url")
"""A URL may hold a password."""
_CHOICE = ("url", "gguf", "mmproj", "model", "api_key", "slots")
_IN_PROCESS = ("parallel", "copies", "context", "threads", "prompt_cache_mib")
_BY_HAND = ("threshold", "score", "k", "aggregate", "screen_threshold")

_SERVICE_LINK = re.compile(
    r"SPECEYES_(?!\w*__)(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes puts into the environment of every pod beside a service whose name begins with `speceyes`."""


def load_settings(
    path: Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    names: Mapping[str, str] | None = None,
) -> Settings:
    """Put the settings together and check them.

    Args:
        path: The file. None: `speceyes.toml` in the working directory, if there is one. Paths in it are relative to
            its folder.
        env: The environment; None: this process's. Variables that are set to nothing count as not set.
        overrides: What stands above file and environment, as `{"draft.url": ...}` or `{"draft": {"url": ...}}`; None
            as a value means not given.
        names: What messages call an override, by its dotted name: the flag that it came from.

    Raises:
        ConfigError: Says which value is wrong, where it came from, and what is allowed.
    """
    given: Source = {}
    for source in (
        _from_file(path),
        _from_environment(os.environ if env is None else env),
        _from_overrides(overrides or {}, names or {}),
    ):
        given = _above(source, given)
    values: dict[str, dict[str, object]] = {}
    for (section, key), found in given.items():
        values.setdefault(section, {})[key] = found.value
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explained(error, given)) from None


def _from_file(path: Path | None) -> Source:
    file = path or Path(CONFIG_FILE)
    if path is None and not file.exists():
        return {}
    try:
        tables = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    source: Source = {}
    for section, table in tables.items():
        if section in Settings.model_fields and not isinstance(table, dict):
            raise ConfigError(f"{section} in {file} is {_shown(table)}; it should be a table: [{section}]")
        for key in table if isinstance(table, dict) else [""]:
            name, place = (section, key), f"{_dotted(section, key)} in {file}"
            if name not in FIELDS:
                raise _unknown(place, name, _dotted)
            source[name] = Given(_beside(file, name, table[key]), place)
        if section not in Settings.model_fields:  # a table without a key
            raise _unknown(f"{section} in {file}", (section, ""), _dotted)
    return source


def _beside(file: Path, name: Name, value: object) -> object:
    """A relative path in a file means one beside the file."""
    is_path = "Path" in repr(FIELDS[name].annotation)
    if is_path and isinstance(value, str) and value and not value.startswith("~"):
        return str(file.parent / value)
    return value


def _from_environment(env: Mapping[str, str]) -> Source:
    source: Source = {}
    for variable in sorted(env):
        if not variable.startswith(ENV_PREFIX) or not env[variable] or _SERVICE_LINK.fullmatch(variable):
            continue
        section, _, key = variable.removeprefix(ENV_PREFIX).lower().partition("__")
        place = f"the environment variable {variable}"
        if (section, key) not in FIELDS or variable != _variable(section, key):
            raise _unknown(place, (section, key), _variable)
        source[section, key] = Given(env[variable], place)
    return source


def _from_overrides(overrides: Mapping[str, Any], names: Mapping[str, str]) -> Source:
    source: Source = {}
    for dotted, value in _flat(overrides):
        section, _, key = dotted.partition(".")
        place = names.get(dotted, dotted)
        if (section, key) not in FIELDS:
            raise _unknown(place, (section, key), _dotted)
        if value is not None:
            source[section, key] = Given(value, place)
    return source


def _flat(overrides: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in overrides.items():
        if isinstance(value, Mapping) and "." not in name:
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _above(higher: Source, lower: Source) -> Source:
    kept = dict(lower)
    for section in ("draft", "agent"):
        chosen = [(section, key) for key in ("url", "gguf") if (section, key) in higher]
        before = [(section, key) for key in ("url", "gguf") if (section, key) in lower]
        if chosen and any(name not in lower or lower[name].value != higher[name].value for name in chosen):
            for key in _IN_PROCESS + (_CHOICE if before else ()):
                kept.pop((section, key), None)
    if ("gate", "calibration") in higher:
        for key in _BY_HAND:
            kept.pop(("gate", key), None)
    if ("gate", "threshold") in higher:
        kept.pop(("gate", "calibration"), None)
    return kept | higher


def _dotted(section: str, key: str) -> str:
    return f"{section}.{key}" if key else section


def _variable(section: str, key: str) -> str:
    return f"{ENV_PREFIX}{section.upper()}__{key.upper()}" if key else f"{ENV_PREFIX}{section.upper()}"


def _unknown(place: str, name: Name, form: Callable[[str, str], str]) -> ConfigError:
    """The error for a setting that does not exist, with the nearest one that does."""
    if near := _nearest(*name):
        return ConfigError(f"{place} is no setting; did you mean {' or '.join(form(*known) for known in near)}?")
    section = name[0]
    if section in Settings.model_fields:
        keys = ", ".join(known[1] for known in FIELDS if known[0] == section)
        return ConfigError(f"{place} is no setting; {section} has {keys}")
    return ConfigError(f"{place} is no setting; the sections are {', '.join(Settings.model_fields)}")


def _nearest(section: str, key: str) -> list[Name]:
    """The same name in other letters or in other sections, else the one that is spelled most alike."""
    if (section, key) in FIELDS:
        return [(section, key)]
    if elsewhere := [known for known in FIELDS if known[1] == key]:
        return elsewhere
    if section in Settings.model_fields:
        keys = [known[1] for known in FIELDS if known[0] == section]
        return [(section, near) for near in difflib.get_close_matches(key, keys, 1)]
    dotted = {_dotted(*known): known for known in FIELDS}
    return [dotted[name] for name in difflib.get_close_matches(_dotted(section, key), dotted, 1, 0.75)]


def _explained(error: ValidationError, given: Source) -> str:
    return "; ".join(
        _sentence(problem["loc"], problem["msg"].removeprefix("Value error, "), given)
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _sentence(location: tuple[int | str, ...], message: str, given: Source) -> str:
    section, key = str(location[0]), str(location[1]) if len(location) > 1 else ""
    if found := given.get((section, key)):
        value = "" if key in _NEVER_SHOWN else f" is {_shown(found.value)}"
        allowed = re.sub(r"^(Input|String) ", "it ", message).removesuffix(" for <class 'pathlib.Path'>")
        return f"{found.place}{value}{';' if value else ':'} {allowed}"
    concerned = [given[section, named] for named in re.findall(r"`(\w+)`", message) if (section, named) in given]
    places = ", ".join(found.place for found in concerned)
    return f"{section}: {message}" + (f" (given: {places})" if places else "")


def _shown(value: object) -> str:
    text = repr(str(value) if isinstance(value, Path) else value)
    return text if len(text) <= 60 else text[:59] + "…"
