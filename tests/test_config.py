"""Settings: where they come from, what stands above what, and what is said about a wrong one."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from speceyes.agents import DIALECTS
from speceyes.config import Settings, load_settings
from speceyes.config.sources import FIELDS
from speceyes.engines.client import ChatClient
from speceyes.errors import ConfigError
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging import DecodeLimits
from speceyes.imaging.geometry import Coordinates
from speceyes.phases import DraftModel

SECRET = "sk-very-secret"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def from_file(text: str, **more: Any) -> Settings:
    Path("speceyes.toml").write_text(text)
    return load_settings(env=more.pop("env", {}), **more)


def complaint(text: str = "", **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        from_file(text, **more)
    return str(caught.value)


# What stands above what


def test_without_anything_all_is_default_and_nano() -> None:
    settings = load_settings(env={})
    assert settings == Settings()
    assert settings.draft.is_nano
    assert settings.agent.is_nano


def test_flags_stand_above_the_environment_above_the_file_above_the_defaults() -> None:
    file = "[draft]\nretries = 3\nmax_tokens = 5\ntimeout_s = 7\n"
    env = {"SPECEYES_DRAFT__RETRIES": "4", "SPECEYES_DRAFT__MAX_TOKENS": "6"}
    settings = from_file(file, env=env, overrides={"draft.retries": 5})
    assert (settings.draft.retries, settings.draft.max_tokens, settings.draft.timeout_s) == (5, 6, 7.0)
    assert settings.draft.connect_timeout_s == Settings().draft.connect_timeout_s


@given(st.sets(st.sampled_from(["file", "environment", "flag"])))
def test_the_highest_place_that_says_something_counts(places: set[str]) -> None:
    path = Path("somewhere.toml")
    path.write_text("[funnel]\nloops = 101\n" if "file" in places else "")
    env = {"SPECEYES_FUNNEL__LOOPS": "102"} if "environment" in places else {}
    overrides = {"funnel.loops": 103 if "flag" in places else None}
    ranked = {"flag": 103, "environment": 102, "file": 101}
    expected = next((ranked[place] for place in ranked if place in places), Settings().funnel.loops)
    assert load_settings(path, env, overrides).funnel.loops == expected


def test_overrides_may_be_nested() -> None:
    assert load_settings(env={}, overrides={"draft": {"retries": 0}}).draft.retries == 0


def test_the_named_file_is_read_and_not_the_one_that_lies_about(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[funnel]\nloops = 2\n")
    assert from_file("[funnel]\nloops = 1\n").funnel.loops == 1
    assert load_settings(other, {}).funnel.loops == 2


def test_paths_in_a_file_are_relative_to_it_and_others_to_the_working_directory(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "a.toml").write_text('[gate]\ncalibration = "c.json"\n[agent]\nprompts = "~/p.toml"\n')
    settings = load_settings(folder / "a.toml", {})
    assert settings.gate.calibration == folder / "c.json"
    assert settings.agent.prompts == Path.home() / "p.toml"
    assert load_settings(env={"SPECEYES_GATE__CALIBRATION": "c.json"}).gate.calibration == Path("c.json")


def test_a_variable_set_to_nothing_is_not_set() -> None:
    assert load_settings(env={"SPECEYES_DRAFT__URL": "", "SPECEYES_DRAFT__API_KEY": ""}) == Settings()


@pytest.mark.parametrize(
    "variable",
    ["SPECEYES_SERVICE_HOST", "SPECEYES_PORT", "SPECEYES_PORT_80_TCP_ADDR", "SPECEYES_GATEWAY_SERVICE_PORT_HTTP"],
)
def test_what_kubernetes_puts_into_the_environment_is_no_setting(variable: str) -> None:
    assert load_settings(env={variable: "10.0.0.1"}) == Settings()


# A choice in a higher place puts aside the one made in a lower place


def test_a_key_for_one_server_never_goes_to_another() -> None:
    file = f'[draft]\nurl = "http://a"\nmodel = "m"\napi_key = "{SECRET}"\nretries = 0\n'
    draft = from_file(file, overrides={"draft.url": "http://b"}).draft
    assert (draft.url, draft.model, draft.api_key, draft.retries) == ("http://b", None, None, 0)


def test_a_key_in_the_environment_serves_the_server_that_a_flag_names() -> None:
    env = {"SPECEYES_DRAFT__API_KEY": SECRET}
    draft = load_settings(env=env, overrides={"draft.url": "http://b"}).draft
    assert draft.api_key is not None
    assert draft.api_key.get_secret_value() == SECRET


def test_naming_the_same_server_again_changes_nothing() -> None:
    file = f'[draft]\nurl = "http://a"\nmodel = "m"\napi_key = "{SECRET}"\n'
    assert from_file(file, overrides={"draft.url": "http://a"}) == from_file(file)


def test_a_server_puts_aside_model_files_and_their_settings() -> None:
    file = '[agent]\ngguf = "m.gguf"\nmmproj = "p.gguf"\nthreads = 2\ncontext = 100\n'
    agent = from_file(file, overrides={"agent.url": "http://a"}).agent
    assert (agent.url, agent.gguf, agent.mmproj, agent.threads, agent.context) == ("http://a", None, None, None, None)


def test_a_threshold_puts_aside_a_calibration_and_the_other_way_round() -> None:
    gate = from_file('[gate]\ncalibration = "c.json"\n', overrides={"gate.threshold": 2.0, "gate.k": 20}).gate
    assert (gate.calibration, gate.threshold, gate.k) == (None, 2.0, 20)
    gate = from_file("[gate]\nthreshold = 2.0\nk = 20\n", overrides={"gate.calibration": "c.json"}).gate
    assert (gate.calibration, gate.threshold, gate.k) == (Path("c.json"), None, 64)


def test_another_threshold_keeps_what_the_first_was_made_with() -> None:
    gate = from_file("[gate]\nthreshold = 2.0\nk = 20\n", overrides={"gate.threshold": 3.0}).gate
    assert (gate.threshold, gate.k) == (3.0, 20)


# What is said about a wrong one


@pytest.mark.parametrize(
    ("file", "more", "said"),
    [
        ("[draft]\nretries = -1", {}, "draft.retries in speceyes.toml is -1; it should be greater than or equal to 0"),
        ("", {"env": {"SPECEYES_DRAFT__RETRIES": "x"}}, "environment variable SPECEYES_DRAFT__RETRIES is 'x'; it sh"),
        ("", {"overrides": {"gate.k": 0}, "names": {"gate.k": "--k"}}, "--k is 0; it should be greater than or equal"),
        ("[gate]\nthreshold = nan", {}, "gate.threshold in speceyes.toml is nan; it should be a finite number"),
        ("[agent]\ncoordinates = 'pixels'", {}, "it should be 'resized', 'original', 'unit' or 'per_mille'"),
        ("[draft]\nprmpt = 'x'", {}, "draft.prmpt in speceyes.toml is no setting; did you mean draft.prompt?"),
        ("[draft]\nthreshold = 1", {}, "did you mean gate.threshold?"),
        ("[dratf]\nurl = 'x'", {}, "did you mean draft.url or agent.url"),
        ("[draft.engine]\nurl = 'x'", {}, "draft.engine in speceyes.toml is no setting"),
        ("[empty]", {}, "the sections are draft, agent, gate, speculation, funnel, "),
        ("retries = 1", {}, "retries in speceyes.toml is no setting"),
        ("draft = 1", {}, "draft in speceyes.toml is 1; it should be a table: [draft]"),
        ("[draft", {}, "speceyes.toml is not TOML"),
        ("", {"env": {"SPECEYES_DRAFT_URL": "x"}}, "did you mean SPECEYES_DRAFT__URL?"),
        ("", {"env": {"SPECEYES_DRAFT__URl": "x"}}, "did you mean SPECEYES_DRAFT__URL?"),
        ("", {"env": {"SPECEYES_GATE__TRESHOLD": "1"}}, "did you mean SPECEYES_GATE__THRESHOLD?"),
        ("", {"overrides": {"draft.foo_bar": 1}}, "draft.foo_bar is no setting; draft has url, gguf"),
        ("[draft]\nurl = 'gpu1:8000'", {}, "a model server's address begins with http:// or https://"),
        ("[draft]\nmodel = 'm'", {}, "draft: `model` names a model on a server: give `url` too"),
        ("[draft]\ngguf = 'm'", {}, "give its image projector as `mmproj` too (given: draft.gguf in speceyes.toml)"),
        ("[draft]\nmmproj = 'm'", {}, "give `gguf` too"),
        ("[draft]\nurl = 'http://a'\nthreads = 2", {}, "`threads` are for a model in this process"),
        ("[agent]\nslots = 4", {}, "`slots` are those of the server at `url`"),
        ("[gate]\nk = 20", {}, "`k` can be set only together with `threshold`"),
        (
            "[gate]\ncalibration = 'c'",
            {"env": {"SPECEYES_GATE__K": "20"}},
            "(given: the environment variable SPECEYES_GATE__K)",
        ),
        (
            "[draft]\nurl = 'http://a'\ngguf = 'm'\nmmproj = 'p'",
            {},
            "exclude each other: a model is on a server or in this process (given: draft.url in speceyes.toml, dr",
        ),
    ],
)
def test_an_error_names_the_place_the_fault_and_what_is_allowed(file: str, more: dict[str, Any], said: str) -> None:
    assert said in complaint(file, **more)


def test_a_missing_file_is_an_error_only_if_it_was_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration nope\.toml: No such file"):
        load_settings(Path("nope.toml"), {})


@pytest.mark.parametrize(
    ("file", "env"),
    [
        (f"[draft]\napi_key = ['{SECRET}']", {}),
        (f"[draft]\nurl = 'ftp://me:{SECRET}@host'", {}),
        (f"[draft]\nurl = 'http://me:{SECRET}@host'\ngguf = 'x'", {}),
        ("[draft]\nretries = -1", {"SPECEYES_DRAFT__API_KEY": SECRET}),
    ],
)
def test_no_message_holds_a_secret(file: str, env: dict[str, str]) -> None:
    assert SECRET not in complaint(file, env=env)


def test_settings_do_not_show_their_keys() -> None:
    settings = load_settings(env={"SPECEYES_DRAFT__URL": "http://a", "SPECEYES_DRAFT__API_KEY": SECRET})
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().draft.retries = 1  # type: ignore[misc]


# The settings and what they are for


def test_defaults_are_those_of_the_parts_that_they_configure() -> None:
    settings = Settings()
    client, funnel = (inspect.signature(part).parameters for part in (ChatClient, Funnel))
    for name in ("timeout_s", "connect_timeout_s", "retries"):
        assert getattr(settings.draft, name) == getattr(settings.agent, name) == client[name].default
    for name in ("stateless", "loops"):
        assert getattr(settings.funnel, name) == funnel[name].default
    assert settings.draft.max_tokens == inspect.signature(DraftModel).parameters["max_tokens"].default
    for name in ("score", "k", "aggregate", "screen_threshold"):
        assert getattr(settings.gate, name) == Calibration.model_fields[name].default
    images = DecodeLimits()
    assert (settings.images.max_bytes, settings.images.max_pixels) == (images.max_bytes, images.max_pixels)
    assert settings.agent.dialect in DIALECTS


def test_every_coordinate_system_can_be_set() -> None:
    for coordinates in Coordinates:
        assert load_settings(env={"SPECEYES_AGENT__COORDINATES": coordinates.value}).agent.coordinates == coordinates


def test_every_setting_is_documented_beside_its_field() -> None:
    sections = {type(getattr(Settings(), name)) for name in Settings.model_fields}
    modules = {inspect.getmodule(section) for section in sections}
    lines = [line for module in modules for line in inspect.getsource(module).splitlines()]  # type: ignore[arg-type]
    fields = {name for section in sections for name in section.model_fields}
    for number, line in enumerate(lines[:-1]):
        name = line.strip().partition(":")[0]
        if line.startswith("    ") and not line.startswith("     ") and name in fields:
            assert lines[number + 1].strip().startswith('"""'), f"{name} is not documented"
            fields.discard(name)
    assert not fields


def test_environment_names_are_unambiguous() -> None:
    assert len({f"{section}__{key}".upper() for section, key in FIELDS}) == len(FIELDS)
