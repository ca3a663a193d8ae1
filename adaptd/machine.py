"""Facts about the machine: processors, filesystems, addresses, boot. Reads /proc and /sys; changes nothing."""

import ipaddress
import math
import os
from pathlib import Path

NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "afs", "virtiofs", "vboxsf"})


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Processors this process may use by its cgroups, the strictest of them; None where there is no limit."""
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in groups:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 2 has one tree without names; a container may not see its own place in it, but always the top.
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        place = top / group.lstrip("/")
        for folder in (place, *place.parents):
            quotas += _quota(folder, "cpu.cfs_quota_us cpu.cfs_period_us" if controllers else "cpu.max")
            if folder == top:
                break
    return min(quotas, default=None)


def _quota(folder: Path, files: str) -> list[float]:
    """The limit of one cgroup, if it has one: quota and period, in two files or in one."""
    try:
        limit, period = " ".join((folder / file).read_text(encoding="ascii") for file in files.split()).split()
        return [int(limit) / int(period)] if limit not in {"max", "-1"} else []
    except (OSError, ValueError, ZeroDivisionError):
        return []


def cpu_count() -> int:
    """Threads worth starting: what affinity and quota allow, at least one."""
    affinity = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return affinity if quota is None else max(1, min(affinity, math.floor(quota)))


def existing(path: Path) -> Path:
    """The path itself, or its nearest parent that exists."""
    return next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())


def filesystem_kind(path: Path) -> str:
    """The kind of filesystem a path lies on (ext4, nfs4, fuse.sshfs, …)."""
    return _mount(path)[1]


def mount_point(path: Path) -> Path:
    """Where the filesystem that a path lies on is mounted."""
    return Path(_mount(path)[0])


def _mount(path: Path) -> tuple[str, str]:
    """Mount point and kind of the filesystem that a path lies on; of two mounts at one place the last is seen."""
    target = str(existing(path).resolve())
    best, kind = "/", "unknown"
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        _, mount, fs, *_ = line.split(" ")
        mount = mount.encode("latin-1", "replace").decode("unicode_escape") if "\\" in mount else mount
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fs
    return best, kind


def is_remote(kind: str) -> bool:
    """Whether a filesystem delivers no events and no safe locks: network or FUSE."""
    return kind in NETWORK_FILESYSTEMS or kind.startswith("fuse")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def boot_id() -> str:
    """This boot: monotonic times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def process_started(pid: int) -> str | None:
    """When a process started, in ticks since this boot; None where there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets, and may hold spaces and brackets itself.
    return status.rpartition(")")[2].split()[19]


def process_user(pid: int) -> int | None:
    """The user that a process runs as; None where there is no such process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(status.partition("\nUid:")[2].split()[1])


def list_lock_holders(inode: int) -> tuple[int, ...]:
    """Processes that hold an flock on a file, as far as the kernel shows them."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    # "1: FLOCK  ADVISORY  WRITE 4711 08:01:131090 0 EOF"; a line of who waits has an arrow after its number.
    found = [words for words in map(str.split, lines) if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode)]
    return tuple(int(words[4]) for words in found if int(words[4]) > 0)
