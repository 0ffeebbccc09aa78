"""Worlds in which a disk is full or cannot be written: a mount namespace that this process alone
sees, and commands without the rights by which root reads everything."""
import ctypes
import os
import subprocess
import unittest

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 16384, 1 << 18
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def _call(function, *arguments):
    if function(*arguments) != 0:
        cause = ctypes.get_errno()
        raise OSError(cause, os.strerror(cause))


def _mount(source, target, kind, flags, data=None):
    _call(LIBC.mount, source.encode(), os.fsencode(target), kind.encode(),
          ctypes.c_ulong(flags), data.encode() if data else None)


def enter_private_mounts():
    """From now on this process may mount, and nobody else sees it. Skips where that is refused."""
    user, group = os.getuid(), os.getgid()
    try:
        if user == 0:
            _call(LIBC.unshare, CLONE_NEWNS)
        else:
            _call(LIBC.unshare, CLONE_NEWUSER | CLONE_NEWNS)
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"),
                               ("gid_map", f"0 {group} 1")):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
        _mount("none", "/", "none", MS_REC | MS_PRIVATE)
    except OSError as error:
        raise unittest.SkipTest(f"no private mounts here: {error.strerror}") from error


def mount_small_disk(folder, kilobytes):
    """A disk in memory, gone with this process."""
    try:
        _mount("none", folder, "tmpfs", 0, f"size={kilobytes}k")
    except OSError as error:
        raise unittest.SkipTest(f"cannot mount a small disk: {error.strerror}") from error


def make_read_only(folder):
    _mount("none", folder, "tmpfs", MS_REMOUNT | MS_RDONLY)


def unmount(folder):
    LIBC.umount2(os.fsencode(folder), 2)


def fill_disk(folder, spare):
    """Leaves `spare` bytes on the disk of `folder`."""
    filler = os.path.join(folder, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    os.truncate(filler, os.path.getsize(filler) - spare)


def obey_modes():
    """For preexec_fn: what is executed next reads only what file modes let its user read."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def skip_unless_modes_are_obeyed(unreadable):
    done = subprocess.run(["cat", unreadable], capture_output=True, check=False,
                          preexec_fn=obey_modes)
    if done.returncode == 0:
        raise unittest.SkipTest("this user reads whatever the modes say")
