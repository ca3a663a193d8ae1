"""What a disk may hold after a power cut: a process is recorded under strace, its calls are replayed without what was not synced.

As on a journalling filesystem, names change in the order of the calls, and every sync brings all earlier changes of names to the
disk. Bytes are there for sure once their file, or the whole filesystem, was synced; before that each write may be there or not.
"""

import os
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "openat,?open,write,pwrite64,ftruncate,lseek,?rename,?renameat,renameat2,?link,linkat,?unlink,unlinkat,?mkdir,mkdirat,"
    "?rmdir,fsync,fdatasync,syncfs,sendfile,copy_file_range"
)
STRACE = ("strace", "-f", "-qq", "-xx", "-y", "-s", "10000000", "-e", f"trace={CALLS}", "-e", "signal=none")
_TEXT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"|<((?:\\x[0-9a-f]{2})*)>')
_LINE = re.compile(rb"(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<.*>)?$", re.DOTALL)

Op = tuple[str, str, str | int, bytes]
"""What a call does: its name, a path inside the recorded folder, a second path, a size or an offset, and bytes."""


@dataclass
class Inode:
    """A file: the bytes that are on the disk for sure, and what was done to it since. A folder has nothing of that."""

    is_folder: bool
    synced: bytes = b""
    mtime_ns: int = 0
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def read(self, keep: Sequence[bool] | None = None) -> bytes:
        """Its bytes, with those of the pending writes that are kept; None: all of them."""
        content = bytearray(self.synced)
        for number, (offset, data) in enumerate(self.pending):
            if keep is not None and not keep[number]:
                continue
            if data is None:
                del content[offset:]
                content.extend(bytes(offset - len(content)))
            else:
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
        return bytes(content)

    def sync(self) -> None:
        """All of it is on the disk."""
        self.synced, self.pending = self.read(), []


class Disk:
    """A folder as its filesystem knows it."""

    def __init__(self, root: Path, unsynced: str) -> None:
        """As it is before a recording; files below the folder `unsynced` are only in memory."""
        self.names: dict[str, Inode] = {}
        for path in sorted(root.rglob("*")):
            inside = str(path.relative_to(root))
            inode = Inode(path.is_dir(), mtime_ns=path.stat().st_mtime_ns)
            if not inode.is_folder:
                inode.pending.append((0, path.read_bytes()))
                if not inside.startswith(f"{unsynced}/"):
                    inode.sync()
            self.names[inside] = inode

    def apply(self, ops: Sequence[Op]) -> None:
        """Let calls happen."""
        for call, path, other, data in ops:
            getattr(self, f"_{call}")(path, other, data)

    def _create(self, path: str, _: str | int, __: bytes) -> None:
        self.names.setdefault(path, Inode(is_folder=False))

    def _mkdir(self, path: str, _: str | int, __: bytes) -> None:
        self.names[path] = Inode(is_folder=True)

    def _rename(self, path: str, other: str | int, _: bytes) -> None:
        for name in [name for name in self.names if name == path or name.startswith(f"{path}/")]:
            self.names[f"{other}{name[len(path) :]}"] = self.names.pop(name)

    def _link(self, path: str, other: str | int, _: bytes) -> None:
        self.names[str(other)] = self.names[path]

    def _remove(self, path: str, _: str | int, __: bytes) -> None:
        self.names.pop(path, None)

    def _write(self, path: str, offset: str | int, data: bytes) -> None:
        if path in self.names:
            self.names[path].pending.append((int(offset), data))

    def _truncate(self, path: str, size: str | int, _: bytes) -> None:
        if path in self.names:
            self.names[path].pending.append((int(size), None))

    def _sync(self, path: str, _: str | int, __: bytes) -> None:
        if path in self.names:
            self.names[path].sync()

    def _syncfs(self, *_: object) -> None:
        for inode in self.names.values():
            inode.sync()


def record(root: Path, command: Sequence[object], log: Path, **options: object) -> list[Op]:
    """Run a command, and what it did below a folder."""
    run = subprocess.run([*STRACE, "-o", log, *map(str, command)], capture_output=True, text=True, check=False, **options)
    assert run.returncode == 0, run.stderr
    return list(_Parser(str(root.resolve())).parse(log.read_bytes()))


def cut(before: Disk, ops: Sequence[Op], chance: random.Random, target: Path) -> int:
    """Make a folder as a cut of the power at a random moment may leave it; after how many calls that was."""
    moment = chance.choice((len(ops), chance.randint(1, len(ops))))
    syncs = [number for number, op in enumerate(ops[:moment], start=1) if op[0] in {"sync", "syncfs"}]
    named_until = chance.randint(syncs[-1] if syncs else 0, moment)
    before.apply(ops[:named_until])
    names = dict(before.names)
    # Files are the same objects: what is written to them after the last name that is kept counts too.
    before.apply(ops[named_until:moment])
    for name, inode in sorted(names.items()):
        path = target / name
        if inode.is_folder:
            path.mkdir(parents=True, exist_ok=True)
        elif not name.endswith("-shm"):
            luck = chance.random()
            keep = [luck < 0.3 or (luck < 0.6 and chance.random() < 0.5) for _ in inode.pending]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(inode.read(keep))
            if inode.mtime_ns:
                os.utime(path, ns=(inode.mtime_ns, inode.mtime_ns))
    return moment


class _Parser:
    """Tells of each call what it does below a folder. Where a file is written to next is known by process and descriptor."""

    def __init__(self, root: str) -> None:
        self._root, self._places = root, dict[tuple[bytes, bytes], int]()

    def parse(self, log: bytes) -> Iterator[Op]:
        """All of a recording."""
        for pid, call, words, result in _lines(log):
            if result >= 0:
                texts = [_read(one or other) for one, other in _TEXT.findall(words)]
                if call in _KINDS:
                    yield from _names(_KINDS[call], self._root, [os.fsdecode(text) for text in texts])
                else:
                    yield from getattr(self, f"_{call.decode()}")(pid, words, result, texts)

    def _openat(self, pid: bytes, words: bytes, result: int, texts: list[bytes]) -> Iterator[Op]:
        self._places[pid, b"%d" % result] = 0
        path = _inside(self._root, *map(os.fsdecode, texts[:2]))
        if path and b"O_CREAT" in words:
            yield "create", path, 0, b""
        if path and b"O_TRUNC" in words:
            yield "truncate", path, 0, b""

    _open = _openat

    def _lseek(self, pid: bytes, words: bytes, result: int, _: list[bytes]) -> Iterator[Op]:
        self._places[pid, words.partition(b"<")[0]] = result
        yield from ()

    def _write(self, pid: bytes, words: bytes, result: int, texts: list[bytes]) -> Iterator[Op]:
        descriptor = (pid, words.partition(b"<")[0])
        offset = self._places.get(descriptor, 0)
        self._places[descriptor] = offset + result
        if len(texts) > 1 and (path := _inside(self._root, os.fsdecode(texts[0]))):
            yield "write", path, offset, texts[1][:result]

    def _pwrite64(self, _: bytes, words: bytes, result: int, texts: list[bytes]) -> Iterator[Op]:
        if path := _inside(self._root, os.fsdecode(texts[0])):
            yield "write", path, int(words.rpartition(b", ")[2]), texts[1][:result]

    def _ftruncate(self, _: bytes, words: bytes, __: int, texts: list[bytes]) -> Iterator[Op]:
        if path := _inside(self._root, os.fsdecode(texts[0])):
            yield "truncate", path, int(words.rpartition(b", ")[2]), b""

    def _fsync(self, _: bytes, __: bytes, ___: int, texts: list[bytes]) -> Iterator[Op]:
        if (path := _inside(self._root, os.fsdecode(texts[0]))) is not None:
            yield "sync", path, 0, b""

    _fdatasync = _fsync

    def _syncfs(self, *_: object) -> Iterator[Op]:
        yield "syncfs", "", 0, b""

    def _sendfile(self, _: bytes, __: bytes, ___: int, texts: list[bytes]) -> Iterator[Op]:
        assert not _inside(self._root, os.fsdecode(texts[0])), "a call that is not replayed"
        yield from ()

    _copy_file_range = _sendfile


_KINDS = {
    b"mkdir": "mkdir",
    b"mkdirat": "mkdir",
    b"rmdir": "remove",
    b"unlink": "remove",
    b"unlinkat": "remove",
    b"rename": "rename",
    b"renameat": "rename",
    b"renameat2": "rename",
    b"link": "link",
    b"linkat": "link",
}


def _names(kind: str, root: str, paths: list[str]) -> Iterator[Op]:
    half = len(paths) // 2
    if kind in {"rename", "link"}:
        path, other = _inside(root, *paths[:half]), _inside(root, *paths[half:])
        if path and other:
            yield kind, path, other, b""
    elif path := _inside(root, *paths[:2]):
        yield kind, path, 0, b""


def _lines(log: bytes) -> Iterator[tuple[bytes, bytes, bytes, int]]:
    """Whole calls: one that another thread came between is told in two lines."""
    begun: dict[bytes, bytes] = {}
    for line in log.splitlines():
        pid = line.partition(b" ")[0]
        if line.endswith(b" <unfinished ...>"):
            begun[pid] = line.removesuffix(b" <unfinished ...>")
            continue
        whole = begun.pop(pid) + line.partition(b" resumed>")[2] if b" resumed>" in line else line
        if found := _LINE.match(whole.rstrip()):
            yield found[1], found[2], found[3], int(found[4])


def _read(text: bytes) -> bytes:
    return bytes.fromhex(text.replace(b"\\x", b"").decode("ascii"))


def _inside(root: str, *parts: str) -> str | None:
    """A path inside the recorded folder; None where it is elsewhere."""
    path = os.path.normpath(os.path.join(*parts))  # noqa: PTH118
    if path == root:
        return ""
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None
