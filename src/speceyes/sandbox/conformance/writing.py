"""Writing where nothing may be written, and ways around it."""

from __future__ import annotations

import os

from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox.base import image_path
from speceyes.sandbox.conformance.checks import Checks, Ground, must
from speceyes.sandbox.conformance.samples import a_picture

CHECKS = Checks("writing")

CHECKS.refused(
    "root",
    "Nothing outside the session's folder can be written",
    """
    import numpy
    places = ["/", "/usr", "/usr/lib", "/etc", "/dev", "/images", "/sandbox", "/sandbox/inside",
              os.path.dirname(os.__file__),
              os.path.dirname(numpy.__file__), "/bin", "/lib", "/var", "/root", "/home", "/packages", "/run",
              "/run/lock", "/var/tmp", "/dev/shm", "/dev/mqueue", "/dev/pts"]
    for place in places:
        attempt(place, lambda: open(os.path.join(place, "x"), "w"))
        attempt("folder in " + place, lambda: os.mkdir(os.path.join(place, "y")))
    """,
)
CHECKS.refused(
    "libraries",
    "No library and no part of the sandbox's own code can be changed",
    """
    import numpy
    for path in (os.__file__, numpy.__file__, "/sandbox/inside/keeper.py", sys.executable):
        attempt(path, lambda: open(path, "r+b"))
        attempt("remove " + path, lambda: os.unlink(path))
        attempt("rename " + path, lambda: os.rename(path, "/tmp/moved"))
        attempt("rights of " + path, lambda: os.chmod(path, 0o777))
    """,
)
CHECKS.refused(
    "planted_file_written",
    "A file of the host that everybody may write cannot be written",
    lambda host: (
        f"""
    attempt("write", lambda: open({str(host.file)!r}, "w").write("x"))
    attempt("make", lambda: open({str(host.folder / "pwned")!r}, "w").write("x"))
    attempt("link", lambda: os.link({str(host.file)!r}, "/tmp/linked"))
    """
    ),
)


@CHECKS.add("Files that the code makes in its temporary folder are not among those of the host")
async def temporary_folder(ground: Ground) -> None:
    name = f"{ground.host.abstract_socket}-pwned"
    async with ground.session() as session:
        outcome = await session.run(f"print(open('/tmp/{name}', 'w').write('x'))")
        must(outcome.error is None, f"the session's own folder cannot be written: {outcome.error}")
        must(not (ground.host.folder.parent / name).exists(), "a file was made in the host's temporary folder")


@CHECKS.add("The pictures that are given cannot be changed")
async def given_pictures(ground: Ground) -> None:
    path = image_path(0)
    async with ground.session(images=[DecodedImage.of_pixels(a_picture((40, 30)))]) as session:
        await session.tried_in_vain(
            f"""
            from PIL import Image
            attempt("open", lambda: open({path!r}, "r+b"))
            attempt("save", lambda: Image.new("RGB", (9, 9)).save({path!r}))
            attempt("save by its short name", lambda: Image.new("RGB", (9, 9)).save("image_1.png"))
            attempt("rights", lambda: os.chmod({path!r}, 0o666))
            attempt("remove", lambda: os.unlink({path!r}))
            attempt("another", lambda: open("/images/image_2.png", "w"))
            """
        )
        outcome = await session.run(f"from PIL import Image\nprint(Image.open({path!r}).size)")
        must(outcome.stdout == "(40, 30)\n", "the picture is not what was given")


CHECKS.refused(
    "devices_made",
    "No device can be made",
    """
    import stat
    for kind, name in ((stat.S_IFBLK, "disk"), (stat.S_IFCHR, "memory")):
        attempt(name, lambda: os.mknod("/tmp/" + name, kind | 0o666, os.makedev(8 if name == "disk" else 1, 1)))
    """,
)
_ROOT = os.stat("/")
CHECKS.refused(
    "another_root",
    "The root cannot be left or changed",
    f"""
    os.mkdir("jail")
    attempt("chroot", lambda: os.chroot("jail"))
    os.chdir("/")
    os.chdir("../" * 20)
    print("root", sorted(os.listdir(".")))
    found = os.stat(".")
    if (found.st_dev, found.st_ino) == {(_ROOT.st_dev, _ROOT.st_ino)} or os.path.isdir("/sys/kernel/debug/tracing"):
        print("ESCAPED: the host's root")
    """,
)
CHECKS.refused(
    "control_groups",
    "No control group and no setting of the kernel can be written",
    """
    for path in ("/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/proc/sys/kernel/core_pattern",
                 "/proc/sysrq-trigger", "/proc/self/oom_score_adj_x", "/sys/kernel/uevent_helper"):
        attempt(path, lambda: open(path, "w").write("0"))
    """,
)
CHECKS.refused(
    "another_user",
    "The code cannot become another user, nor make a program that does",
    """
    attempt("become root", lambda: os.setuid(0))
    attempt("become root's group", lambda: os.setgid(0))
    attempt("join groups", lambda: os.setgroups([0]))
    if 0 in os.getresuid():
        print("ESCAPED: the code runs as root")
    import shutil
    shutil.copy(sys.executable, "program")
    attempt("give away", lambda: os.chown("program", 0, 0))
    """,
)
