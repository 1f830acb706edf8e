"""API keys on disk: hashed, private, never half-written, and no change lost."""

from __future__ import annotations

import json
import multiprocessing
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from speceyes.errors import ConfigError
from speceyes.gateway.access import keyfile
from speceyes.gateway.access.keyfile import Scope, create_key, digest, key_id, read_keys, revoke_key


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def test_a_key_is_random_and_long_and_the_file_holds_only_its_hash(file: Path) -> None:
    secrets = [create_key(file, f"user{number}")[0].get_secret_value() for number in range(3)]
    text = file.read_text()
    for secret in secrets:
        assert re.fullmatch(r"sk-speceyes-[0-9a-f]{12}-[A-Za-z0-9_-]{43}", secret)
        assert secret not in text
        assert secret.split("-", 3)[3] not in text
        assert secret[-43:] not in text
    assert len({secret[-43:] for secret in secrets}) == 3
    rows = [json.loads(line) for line in text.splitlines()]
    assert len({row["salt"] for row in rows}) == 3
    for secret, row in zip(secrets, rows, strict=True):
        assert row["id"] == key_id(secret)
        assert row["digest"] == digest(secret, row["salt"])
        assert row["digest"] != digest(secret, rows[0]["salt"] if row is not rows[0] else rows[1]["salt"])


def test_the_file_is_for_its_owner_only_also_after_a_change(file: Path) -> None:
    create_key(file, "a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    create_key(file, "b")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["keys.jsonl"]


def test_a_revoked_key_stays_on_record_and_its_name_is_free_again(file: Path) -> None:
    _, first = create_key(file, "web")
    with pytest.raises(ConfigError, match="has a key named web already"):
        create_key(file, "web")
    revoke_key(file, "web")
    _, second = create_key(file, "web")
    now = datetime.now(UTC)
    assert [(record.id, record.state(now)) for record in read_keys(file)] == [
        (first.id, "revoked"),
        (second.id, "valid"),
    ]
    with pytest.raises(ConfigError, match="has no key named api that could be revoked; there are: web"):
        revoke_key(file, "api")


def test_expiry_counts_to_the_second(file: Path) -> None:
    end = datetime(2030, 1, 1, tzinfo=UTC)
    _, record = create_key(file, "a", expires=end)
    assert read_keys(file) == (record,)
    assert record.is_valid(end - timedelta(seconds=1))
    assert not record.is_valid(end)
    assert record.state(end) == "expired"


def test_scopes_and_limits_come_back_as_they_were_written(file: Path) -> None:
    _, record = create_key(file, "ops", frozenset(Scope), max_in_flight=3)
    assert read_keys(file) == (record,)
    assert record.scopes == {Scope.CHAT, Scope.ADMIN}
    assert record.max_in_flight == 3


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 65, "line\nend", 'quo"te'])
def test_a_name_is_a_word(file: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a name has up to 64 letters"):
        create_key(file, name)
    assert not file.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text + "{\n", r"keys\.jsonl, line 2 is no key: the line: Invalid JSON"),
        (lambda text: text + text, "line 2: the key [0-9a-f]{12} is there twice"),
        (lambda text: text.replace('"name"', '"nmae"'), "line 1 is no key: name: Field required"),
        (lambda text: text.replace('"chat"', '"root"'), r"line 1 is no key: scopes\.0"),
        (lambda text: text.replace('"chat"', ""), "line 1 is no key: scopes"),
        (lambda text: re.sub(r'"salt":"..', '"salt":"', text), "line 1 is no key: salt"),
        (lambda text: "\udcff" + text, "it is not text"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_line_and_no_hash(file: Path, change, said: str) -> None:
    _, record = create_key(file, "a")
    file.write_text(change(file.read_text()), errors="surrogateescape")
    with pytest.raises(ConfigError, match=said) as caught:
        read_keys(file)
    assert record.digest not in str(caught.value)


def test_blank_lines_do_no_harm(file: Path) -> None:
    _, record = create_key(file, "a")
    file.write_text("\n" + file.read_text() + "\n  \n")
    assert read_keys(file) == (record,)


def test_a_file_or_folder_that_is_not_there_is_an_error(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the keys in .*No such file"):
        read_keys(file)
    with pytest.raises(ConfigError, match="cannot read the keys"):
        revoke_key(file, "a")
    with pytest.raises(ConfigError, match="No such file or directory"):
        create_key(file.parent / "nowhere" / "keys.jsonl", "a")


def test_a_link_to_the_file_stays_a_link(file: Path, tmp_path: Path) -> None:
    create_key(file, "a")
    link = tmp_path / "link.jsonl"
    link.symlink_to(file)
    create_key(link, "b")
    assert link.is_symlink()
    assert [record.name for record in read_keys(file)] == ["a", "b"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_key(file, "a")
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keyfile.os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        create_key(file, "b")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["keys.jsonl"]


def _create_some(path: str, who: int) -> None:
    for number in range(5):
        create_key(Path(path), f"key-{who}-{number}")


def test_commands_that_run_side_by_side_lose_no_key(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_create_some, args=(str(file), who)) for who in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert {record.name for record in read_keys(file)} == {f"key-{who}-{n}" for who in range(3) for n in range(5)}
