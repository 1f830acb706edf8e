"""Databases to test against: SQLite files always, a private PostgreSQL where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from request_records import Database


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server of our own on a free port, with an empty data folder, under a user that is not root."""
    programs = {name: shutil.which(name) or _in_debian(name) for name in ("initdb", "postgres")}
    if not all(programs.values()):
        pytest.skip("PostgreSQL's programs (initdb, postgres) are not installed")
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="speceyes-pg-", dir="/tmp"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    data = folder / "data"
    begin = [programs["initdb"], "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8"]
    made = subprocess.run(list(map(str, begin)), user=user, cwd=folder, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = [programs["postgres"], "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-k", folder, "-F"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(list(map(str, run)), user=user, cwd=folder, stdout=log, stderr=log)
    url = f"postgresql://tester@127.0.0.1:{port}/postgres"
    try:
        _wait_for(url, server, folder / "log")
        yield url
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database without any table of ours."""
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path / 'requests.db'}")
    url = request.getfixturevalue("postgres_url")
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return Database(url)


def _unprivileged() -> str | None:
    """A user to run the server as; None: this one will do. PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


def _in_debian(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else None


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import time

    import psycopg

    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())
