"""System calls by which code has left sandboxes before."""

from __future__ import annotations

import platform

from speceyes.sandbox.conformance.checks import SOON_S, Checks, Ground, must
from speceyes.sandbox.syscalls import CLONE, CLONE3, MACHINES, REFUSED

CHECKS = Checks("kernel")


def _number(name: str) -> int:
    """Of a call on this machine; one that no machine has where it has none."""
    machine = MACHINES.get(platform.machine())
    found = REFUSED[name][machine.column] if machine is not None else None
    return 449 if found is None else found


def _calls(*calls: tuple[str, str]) -> str:
    """Attempts at system calls: names and arguments."""
    return "\n".join(f"attempt({name!r}, lambda: system_call({_number(name)}, {words}))" for name, words in calls)


def _clone(pair: tuple[int, int]) -> int:
    machine = MACHINES.get(platform.machine())
    return pair[machine.column if machine is not None else 0]


CHECKS.refused(
    "tracing",
    "No other process can be traced, read or written, nor its descriptors taken",
    "parent = os.getppid()\n"
    + _calls(
        ("ptrace", "16, parent, 0, 0"),
        ("ptrace", "16906, parent, 0, 0"),
        ("process_vm_readv", "parent, 0, 0, 0, 0, 0"),
        ("process_vm_writev", "parent, 0, 0, 0, 0, 0"),
        ("pidfd_open", "parent, 0"),
        ("pidfd_getfd", "0, 0, 0"),
        ("kcmp", "os.getpid(), parent, 0, 0, 0"),
    ),
)
CHECKS.refused(
    "traced_child",
    "Nor can the code trace a child of its own",
    """
    import ctypes
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).ptrace(0, 0, 0, 0) == -1 else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        print("ESCAPED: a child can be traced")
    """,
)
CHECKS.refused(
    "mounts",
    "Nothing can be mounted, moved or taken away",
    _calls(
        ("mount", "b'none', b'/tmp', b'tmpfs', 0, b''"),
        ("mount", "b'none', b'/', b'', 32 | 4096, b''"),
        ("umount2", "b'/tmp', 2"),
        ("pivot_root", "b'/tmp', b'/tmp'"),
        ("open_tree", "-100, b'/', 1"),
        ("fsopen", "b'tmpfs', 0"),
        ("move_mount", "-100, b'/tmp', -100, b'/images', 0"),
        ("mount_setattr", "-100, b'/', 0, 0, 0"),
    ),
)
CHECKS.refused(
    "namespaces",
    "No namespace can be made or entered",
    "\n".join(
        f"attempt('unshare', lambda: system_call({_number('unshare')}, {flag}))" for flag in (0x10000000, 0x20000)
    )
    + f"""
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x04000000, 0x08000000, 0x02000000, 0x80):
    def clone():
        pid = system_call({_clone(CLONE)}, flag | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid
    attempt("clone %#x" % flag, clone)
attempt("clone3", lambda: system_call({_clone(CLONE3)}, 0, 0))
"""
    + _calls(("setns", "0, 0")),
)
CHECKS.refused(
    "programs_in_the_kernel",
    "No program can be loaded into the kernel, and no counter of it read",
    _calls(
        ("bpf", "0, 0, 0"),
        ("bpf", "5, b'x' * 128, 128"),
        ("perf_event_open", "b'\\0' * 128, 0, -1, -1, 0"),
        ("seccomp", "1, 0, 0"),
    ),
)
CHECKS.refused(
    "asynchronous_calls",
    "io_uring and userfaultfd are not there",
    _calls(("io_uring_setup", "8, b'\\0' * 128"), ("io_uring_enter", "0, 0, 0, 0, 0, 0"), ("userfaultfd", "0")),
)
CHECKS.refused(
    "keyrings",
    "No key of the kernel's keyrings can be read, added or asked for",
    _calls(
        ("keyctl", "0, -3, 0, 0, 0"),
        ("add_key", "b'user', b'x', b'y', 1, -3"),
        ("request_key", "b'user', b'x', 0, -3"),
    ),
)
CHECKS.refused(
    "the_machine",
    "The machine cannot be stopped, its clock, name, swap or kernel changed, its log read",
    _calls(
        ("reboot", "0xfee1dead, 672274793, 0x1234567, 0"),
        ("settimeofday", "b'\\0' * 16, 0"),
        ("clock_settime", "0, b'\\0' * 16"),
        ("sethostname", "b'x', 1"),
        ("swapon", "b'/tmp/x', 0"),
        ("init_module", "0, 0, b''"),
        ("finit_module", "0, b'', 0"),
        ("kexec_load", "0, 0, 0, 0"),
        ("syslog", "3, 0, 0"),
        ("acct", "b'/tmp/x'"),
        ("quotactl", "0, 0, 0, 0"),
    ),
)
CHECKS.refused(
    "file_handles",
    "No file can be opened by its number on the disk",
    _calls(
        ("name_to_handle_at", "-100, b'/', b'\\0' * 256, b'\\0' * 8, 0"),
        ("open_by_handle_at", "-100, b'\\0' * 256, 0"),
        ("fanotify_init", "0, 0"),
    ),
)
CHECKS.refused(
    "personality",
    "The process cannot change how its memory is laid out",
    _calls(("personality", "0x0040000")),
)
CHECKS.refused(
    "memory_without_limits",
    "Memory that no limit counts cannot be had",
    _calls(
        ("memfd_create", "b'x', 0"),
        ("shmget", "0, 1 << 30, 0o1777"),
        ("msgget", "0, 0o1777"),
        ("semget", "0, 1, 0o1777"),
        ("mq_open", "b'x', 66, 0o600, 0"),
    ),
)
CHECKS.refused(
    "priority",
    "The code cannot raise its own priority or claim real time",
    """
    attempt("nice", lambda: os.nice(-5))
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -10))
    attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    """,
)
CHECKS.refused(
    "raised_limits",
    "No limit can be raised again",
    """
    import resource
    for name in ("AS", "FSIZE", "NOFILE", "CPU", "CORE", "STACK"):
        what = getattr(resource, "RLIMIT_" + name)
        soft, hard = resource.getrlimit(what)
        attempt(name, lambda: resource.setrlimit(what, (hard + 1, hard + 1)))
        attempt(name + " for ever", lambda: resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
    """,
)
CHECKS.refused(
    "capabilities",
    "The code has no capability",
    """
    import ctypes
    head, body = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None).capget(head, body) != 0 or any(body[place] for place in (0, 1, 3, 4)):
        print("ESCAPED: capabilities", list(body))
    if ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) != 1:
        print("ESCAPED: privileges can be gained by programs")
    """,
)


@CHECKS.add("A second set of system calls (32-bit, x32) is no way around the filter")
async def other_calls(ground: Ground) -> None:
    if platform.machine() != "x86_64":
        return  # other machines that we know have one set only, and the filter refuses calls of any other
    async with ground.session() as session:
        outcome = await session.run(
            """
            import ctypes, mmap
            def machine_code(code):
                memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
                memory.write(code)
                address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
                child = os.fork()
                if child == 0:
                    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
                    os._exit(7)
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            # mov eax, 20 (getpid); int 0x80; ret
            print("INT80", machine_code(bytes.fromhex("b814000000cd80c3")))
            attempt("x32", lambda: system_call(0x40000000 + 39))
            print("tried")
            """,
            30,
        )
    must("tried" in outcome.stdout, f"the attack was not tried to its end: {outcome.error}")
    must("INT80 7" not in outcome.stdout, "32-bit system calls go past the filter")
    must("ESCAPED" not in outcome.stdout, "x32 system calls go past the filter")


@CHECKS.add("Machine code that the code brings along has no more rights than the code")
async def machine_code(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import ctypes
            print("before")
            ctypes.string_at(0)
            """,
            30 * SOON_S,
        )
        must(outcome.state_lost and "SIGSEGV" in (outcome.error or ""), f"a crash is not told: {outcome.error}")
        must("before" in outcome.stdout, "what was printed before the crash is lost")
        await session.works()
