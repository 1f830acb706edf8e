"""Reading what is none of the code's business: files, the environment, other processes."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from speceyes.sandbox.conformance.checks import Checks, Ground, must
from speceyes.sandbox.conformance.host import VARIABLE

CHECKS = Checks("reading")

CHECKS.refused(
    "planted_file",
    "A file of the host that everybody may read cannot be read",
    lambda host: f"attempt('open', lambda: open({str(host.file)!r}).read())",
)
CHECKS.refused(
    "relative_path",
    "Nor by a path that climbs out of the working folder",
    lambda host: f"attempt('open', lambda: open('../' * 12 + {str(host.file)!r}).read())",
)
CHECKS.refused(
    "hidden_builtins",
    "Nor by builtins that are found through attribute chains and joined names",
    lambda host: (
        f"""
    kinds = [kind for kind in ().__class__.__base__.__subclasses__() if kind.__name__ == "_wrap_close"]
    hidden = kinds[0].__init__.__globals__["__buil" + "tins__"]
    hidden = hidden if isinstance(hidden, dict) else vars(hidden)
    attempt("open", lambda: hidden["op" + "en"]({str(host.file)!r}).read())
    attempt("eval", lambda: eval("__import__('io').open({str(host.file)!r}).read()"))
    """
    ),
)
CHECKS.refused(
    "link_to_file",
    "Nor through a symbolic link",
    lambda host: (
        f"""
    os.symlink({str(host.file)!r}, "link")
    attempt("open", lambda: open("link").read())
    """
    ),
)
CHECKS.refused(
    "another_program",
    "Nor by another program",
    lambda host: (
        f"""
    import subprocess
    attempt("shell", lambda: subprocess.run(["/bin/sh", "-c", "cat {host.file}"], check=True, capture_output=True))
    attempt("python", lambda: subprocess.run(
        [sys.executable, "-I", "-S", "-c", "print(open({str(host.file)!r}).read())"], check=True, capture_output=True))
    """
    ),
)


@CHECKS.add("No folder of a person, of the host's services or of its temporary files is there")
async def folders_of_the_host(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.tried_in_vain(
            """
            for folder in ("/root", "/home", "/var", "/srv", "/opt", "/mnt", "/boot", "/run/docker.sock", "/etc/ssh"):
                entries = os.listdir(folder) if os.path.isdir(folder) and os.access(folder, os.R_OK) else []
                for entry in entries:
                    if entry not in ("mail", "cache", "lib", "local", "lock", "log", "opt", "run", "spool", "tmp",
                                     "backups"):
                        print("ESCAPED:", folder, entry)
            print("listing", sorted(os.listdir("/tmp")))
            """
        )
    must("speceyes" not in outcome.stdout, "the host's folder for temporary files can be seen")


@CHECKS.add("No list of users, password, name or network address of the host can be read")
async def users_and_names(ground: Ground) -> None:
    name = socket.gethostname()
    async with ground.session() as session:
        outcome = await session.run(
            """
            import platform, socket
            attempt("shadow", lambda: open("/etc/shadow").read())
            for path in ("/etc/hostname", "/etc/machine-id", "/etc/hosts", "/etc/resolv.conf"):
                try:
                    print(open(path).read())
                except OSError:
                    print("nothing at", path)
            print("NAMES", [platform.node(), socket.gethostname(), os.uname().nodename])
            """
        )
    must("NAMES" in outcome.stdout, f"the attack was not tried to its end: {outcome.error}")
    must("ESCAPED" not in outcome.stdout, "password hashes can be read")
    must(name == "sandbox" or name not in outcome.stdout, f"the host's name {name} can be read")
    told = [server for server in await asyncio.to_thread(_name_servers) if server in outcome.stdout]
    must(not told, f"the address of the host's name server can be read: {told}")


def _name_servers() -> list[str]:
    """Addresses of the servers that this machine asks for names."""
    try:
        lines = Path("/etc/resolv.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [words[1] for line in lines if (words := line.split())[:1] == ["nameserver"] and len(words) > 1]


@CHECKS.add("The environment is empty but for a few harmless names")
async def environment(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            f"""
            import subprocess
            print("NAMES", sorted(os.environ))
            print(os.environ.get({VARIABLE!r}), os.getenv({VARIABLE!r}))
            print(subprocess.run([sys.executable, "-I", "-S", "-c", "import os; print(dict(os.environ))"],
                                 capture_output=True, text=True).stdout)
            """
        )
    must("NAMES" in outcome.stdout, f"the attack was not tried to its end: {outcome.error}")
    must(VARIABLE not in outcome.stdout, "the environment of the host came in")
    for mark in ("KEY", "TOKEN", "SECRET", "PASSWORD"):
        must(mark not in outcome.stdout, f"a variable named like a {mark.lower()} is inside")


@CHECKS.add("No other process can be looked into through /proc")
async def proc(ground: Ground) -> None:
    await ground.tried_in_vain(
        """
        me = os.getpid()
        pids = [entry for entry in (os.listdir("/proc") if os.path.isdir("/proc") else []) if entry.isdigit()]
        for pid in {"1", str(os.getppid()), *pids} - {str(me)}:
            for what in ("environ", "mem", "maps", "root/etc/hostname", "cwd", "fd", "exe"):
                path = "/proc/%s/%s" % (pid, what)
                def look():
                    if what in ("cwd", "exe"):
                        return os.readlink(path)
                    return os.listdir(path) if what == "fd" else open(path, "rb").read(64) or 1 / 0
                attempt(path, look)
        if len(pids) > 8:
            print("ESCAPED: processes of the host are listed")
        """
    )


@CHECKS.add("No process of the host is known, and none can be hit")
async def process_of_the_host(ground: Ground) -> None:
    await ground.tried_in_vain(
        f"""
        import signal
        for sign in (0, signal.SIGTERM, signal.SIGKILL):
            attempt("signal %d" % sign, lambda: os.kill({ground.host.victim}, sign))
            attempt("group %d" % sign, lambda: os.killpg({ground.host.victim}, sign))
        """
    )
    await asyncio.sleep(0.1)


@CHECKS.add("The code has no descriptor but its own three and its two pipes")
async def descriptors(ground: Ground) -> None:
    await ground.tried_in_vain(
        """
        import stat
        for fd in range(1024):
            try:
                found = os.fstat(fd)
            except OSError:
                continue
            if fd > 2 and not stat.S_ISFIFO(found.st_mode):
                print("ESCAPED: descriptor", fd, oct(found.st_mode))
        """
    )


CHECKS.refused(
    "environment_of_the_packages",
    "Of the environment that the packages come from, only the packages are there",
    """
    for name in (".env", "pyvenv.cfg", "bin/activate", "speceyes.toml", ".git", "keys.jsonl"):
        for folder in {*sys.path, *(os.path.dirname(place) for place in sys.path), "/", "/tmp"}:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                print("ESCAPED:", path)
    """,
)
CHECKS.refused(
    "keeper_memory",
    "The memory of the process that guards the code cannot be read or written",
    """
    attempt("mem", lambda: open("/proc/1/mem", "r+b"))
    attempt("mem of parent", lambda: open("/proc/%d/mem" % os.getppid(), "r+b"))
    """,
)
CHECKS.refused(
    "raw_devices",
    "No disk, no memory and no terminal of the host is among the devices",
    """
    for name in ("mem", "kmem", "port", "sda", "vda", "nvme0n1", "fuse", "kvm", "net/tun", "tty", "console", "ptmx",
                 "kmsg"):
        attempt(name, lambda: os.open("/dev/" + name, os.O_RDWR | os.O_NOCTTY))
    """,
)
