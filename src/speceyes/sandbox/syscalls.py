"""System calls that a sandbox refuses, with their numbers on the processors that we know.

Code that computes with pictures needs none of these. Most of them also need rights that the sandbox does not have; they
are refused once more because the kernel's own checks have failed before, and did so in exactly these calls.

Source of the numbers: the kernel's headers, `asm/unistd_64.h` and `asm-generic/unistd.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NEWEST_KNOWN = 450
"""`set_mempolicy_home_node` (Linux 5.17). What came later is unknown here and is answered as by a kernel without it."""

REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # other processes: their memory, their descriptors
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    # mounts and other roots
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # namespaces; `clone` is looked at closer
    "unshare": (272, 97),
    "setns": (308, 268),
    # the network; a pair of connected local sockets is allowed
    "socket": (41, 198),
    # large interfaces of the kernel, where faults are found every year
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "vmsplice": (278, 75),
    "seccomp": (317, 277),
    # keys
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # the machine
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "vhangup": (153, 58),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    # memory that no limit counts
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # which memory bank, which pages
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
"""By name: the number on x86_64 and on aarch64, None where that has no such call."""

CLONE, CLONE3, IOCTL, SOCKETPAIR = (56, 220), (435, 435), (16, 29), (53, 199)
"""Calls that are looked at closer, with numbers as in `REFUSED`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One processor's calls.

    Attributes:
        audit: The number by which the kernel tells a filter which processor's calls these are (linux/audit.h).
        column: Of the tables above.
    """

    audit: int
    column: int

    @property
    def refused(self) -> tuple[int, ...]:
        """Numbers of the calls that are refused whatever their arguments."""
        numbers = (pair[self.column] for pair in REFUSED.values())
        return tuple(number for number in numbers if number is not None)


MACHINES: Mapping[str, Machine] = {"x86_64": Machine(0xC000003E, 0), "aarch64": Machine(0xC00000B7, 1)}
"""By the name that `platform.machine()` gives."""
