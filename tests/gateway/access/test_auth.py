"""Keys in requests: who asks, what they may, and that no secret is ever shown."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr

from speceyes.config import Settings
from speceyes.errors import ConfigError
from speceyes.gateway.access import auth
from speceyes.gateway.access.auth import ANYBODY, Doors, KeyInfo, Keys
from speceyes.gateway.access.keyfile import Scope, create_key, revoke_key
from speceyes.gateway.access.refusals import Forbidden, Unauthorized
from speceyes.gateway.access.setup import build_access

SINGLE = "one key for a container"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def made(file: Path, name: str = "web", *scopes: Scope, **more) -> str:
    return create_key(file, name, frozenset(scopes or [Scope.CHAT]), **more)[0].get_secret_value()


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER {}", "bEaReR   {}", " Bearer {} "])
def test_the_scheme_counts_in_any_case(file: Path, form: str) -> None:
    key = made(file)
    info = Keys(file).check(form.format(key))
    assert info is not None
    assert (info.name, info.scopes) == ("web", {Scope.CHAT})


def test_several_keys_each_open_as_themselves(file: Path) -> None:
    table = {name: made(file, name, max_in_flight=2) for name in ("a", "b", "c")}
    keys = Keys(file)
    for name, key in table.items():
        info = keys.check(f"Bearer {key}")
        assert info is not None
        assert (info.name, info.max_in_flight) == (name, 2)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: None,
        lambda key: "",
        lambda key: key,
        lambda key: "Bearer",
        lambda key: "Bearer ",
        lambda key: f"Basic {key}",
        lambda key: f"Bearer {key}x",
        lambda key: f"Bearer {key[:-1]}",
        lambda key: f"Bearer {key[:-1]}{'A' if key[-1] != 'A' else 'B'}",
        lambda key: f"Bearer {key.upper()}",
        lambda key: f"Bearer {key} {key}",
        lambda key: f"Bearer {key}é",
        lambda key: f"Bearer sk-speceyes-000000000000{key[24:]}",
        lambda key: f"Bearer {key[:25]}{'A' * 43}",
        lambda key: "Bearer " + "x" * 100_000,
    ],
)
def test_anything_else_opens_nothing(file: Path, spoil) -> None:
    keys = Keys(file if made(file, "other") else None)
    header = spoil(made(file))
    assert keys.check(header) is None
    with pytest.raises(Unauthorized):
        keys.authorize(header, Scope.CHAT)


@given(st.text())
@example("Bearer \x00")
def test_no_header_breaks_the_check(header: str) -> None:
    assert Keys(single=SecretStr(SINGLE)).check(header) is None


def test_known_and_unknown_ids_take_the_same_steps(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = made(file)
    keys = Keys(file, SecretStr(SINGLE * 2))
    steps: list[int] = []
    compare, hashed = auth.hmac.compare_digest, auth.digest
    monkeypatch.setattr(auth.hmac, "compare_digest", lambda a, b: (steps.append(len(a) + len(b)), compare(a, b))[1])
    monkeypatch.setattr(auth, "digest", lambda key, salt: (steps.append(len(key)), hashed(key, salt))[1])
    taken = []
    for header in (key, f"{key[:25]}{'A' * 43}", f"sk-speceyes-{'0' * 12}-{'A' * 43}"):
        steps.clear()
        keys.check(f"Bearer {header}")
        taken.append(list(steps))
    assert taken[0] == taken[1] == taken[2] != []


def test_a_single_key_may_ask_and_nothing_more() -> None:
    keys = Keys(single=SecretStr(SINGLE.replace(" ", "-")))
    info = keys.authorize(f"Bearer {SINGLE.replace(' ', '-')}", Scope.CHAT)
    assert info.name == "single"
    with pytest.raises(Forbidden):
        info.require(Scope.ADMIN)


def test_without_any_keys_anybody_may_ask_and_an_empty_file_lets_nobody(file: Path) -> None:
    assert Keys().authorize(None, Scope.ADMIN) is ANYBODY
    file.write_text("")
    assert Keys(file).required
    with pytest.raises(Unauthorized):
        Keys(file).authorize(None, Scope.CHAT)


def test_scopes_do_not_include_each_other(file: Path) -> None:
    chat, admin, both = made(file, "c"), made(file, "a", Scope.ADMIN), made(file, "b", *Scope)
    keys = Keys(file)
    for key, scope in ((chat, Scope.ADMIN), (admin, Scope.CHAT)):
        with pytest.raises(Forbidden, match=f"'{scope}'") as caught:
            keys.authorize(f"Bearer {key}", scope)
        assert caught.value.status == 403
    for scope in Scope:
        assert keys.authorize(f"Bearer {both}", scope).name == "b"


def test_expired_keys_open_nothing(file: Path) -> None:
    end = datetime(2030, 1, 1, tzinfo=UTC)
    key = made(file, expires=end)
    assert Keys(file, now=lambda: end - timedelta(seconds=1)).check(f"Bearer {key}")
    assert Keys(file, now=lambda: end).check(f"Bearer {key}") is None


# The file changes while the server runs


def test_new_and_revoked_keys_count_from_the_next_request_on(file: Path) -> None:
    first = made(file, "first")
    keys = Keys(file)
    second = made(file, "second")
    assert keys.check(f"Bearer {second}")
    revoke_key(file, "first")
    assert keys.check(f"Bearer {first}") is None
    assert keys.check(f"Bearer {second}")


def test_a_file_that_breaks_leaves_the_keys_and_says_so_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = made(file)
    keys, good = Keys(file), file.read_text()
    file.write_text("{")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert keys.check(f"Bearer {key}")
    assert keys.problem is not None
    assert "line 1 is no key" in keys.problem
    assert len(caplog.records) == 1
    file.write_text(good)
    assert keys.check(f"Bearer {key}")
    assert keys.problem is None


def test_a_file_that_is_gone_leaves_no_keys(file: Path) -> None:
    key = made(file)
    keys, good = Keys(file), file.read_text()
    file.unlink()
    assert keys.check(f"Bearer {key}") is None
    assert keys.problem
    assert keys.required
    file.write_text(good)
    assert keys.check(f"Bearer {key}")


def test_a_file_that_is_wrong_at_the_start_is_an_error(file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the keys"):
        Keys(file)


def test_a_file_that_did_not_change_is_not_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = made(file)
    keys = Keys(file)
    monkeypatch.setattr(Path, "read_text", lambda *_: pytest.fail("read again"))
    assert keys.check(f"Bearer {key}")
    monkeypatch.undo()
    os.utime(file, (1, 1))
    file.write_text("")
    assert keys.check(f"Bearer {key}") is None


# What is said


def test_a_refusal_is_openais_and_names_no_key(file: Path) -> None:
    made(file)
    with pytest.raises(Unauthorized) as caught:
        Keys(file).authorize("Bearer sk-wrong-and-secret", Scope.CHAT)
    error = caught.value
    assert (error.status, error.headers) == (401, {"www-authenticate": 'Bearer realm="speceyes"'})
    body = json.loads(error.encoded())
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["code"] == "invalid_api_key"
    assert "sk-wrong" not in str(body)


def test_no_object_shows_a_secret(file: Path) -> None:
    secret, record = create_key(file, "web")
    key = secret.get_secret_value()
    single = "a-single-key-in-the-environment"
    settings = Settings.model_validate({"access": {"keys_file": file, "api_key": single}})
    access = build_access(settings)
    info = access.keys.check(f"Bearer {key}")
    with pytest.raises(Unauthorized) as refused:
        access.keys.authorize(f"Bearer {key}x", Scope.CHAT)
    things = [secret, record, settings, settings.access, access, access.keys, info, refused.value, access.doors]
    things += [access.admission, access.bodies, access.fetcher, refused.value.as_json(), settings.model_dump()]
    shown = "".join(f"{thing!r}{thing}{thing:}" for thing in things) + settings.model_dump_json()
    for hidden in (key, key[-43:], single, record.digest, record.salt):
        assert hidden not in shown
    assert "web" in shown


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/health", None),
        ("OPTIONS", "/v1/chat/completions", None),
        ("GET", "/docs", None),
        ("GET", "/ready", None),
        ("GET", "/metrics", Scope.ADMIN),
        ("GET", "/metrics/", Scope.ADMIN),
        ("GET", "//metrics", Scope.ADMIN),
        ("GET", "/METRICS", Scope.ADMIN),
        ("GET", "/admin/requests", Scope.ADMIN),
        ("POST", "/v1/chat/completions", Scope.CHAT),
        ("GET", "/v1/models", Scope.CHAT),
        ("GET", "/", Scope.CHAT),
        ("GET", "/healthy", Scope.CHAT),
        ("GET", "/v1/health", Scope.CHAT),
    ],
)
def test_what_each_path_needs(method: str, path: str, scope: Scope | None) -> None:
    assert Doors().scope_of(method, path) == scope


def test_ready_and_metrics_can_be_opened_and_shut() -> None:
    settings = Settings.model_validate({"access": {"ready_scope": "chat", "metrics_scope": "none"}})
    doors = build_access(settings).doors
    assert (doors.scope_of("GET", "/ready"), doors.scope_of("GET", "/metrics")) == (Scope.CHAT, None)


def test_who_asks_is_shown_without_a_secret() -> None:
    assert repr(KeyInfo("web", "0" * 12, frozenset({Scope.CHAT}))).startswith("KeyInfo(name='web', id='000000000000'")
