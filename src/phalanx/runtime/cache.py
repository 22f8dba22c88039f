"""Compiled kernels on disk: one file per entry, written whole or not at all, checked on every read.

An entry is a JSON dictionary and named byte blobs; nothing in it is ever evaluated or unpickled. The cache
can make a run quicker or leave it as it is: whatever is wrong with the disk, the folder or a file is a miss,
not an exception.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import stat
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from phalanx.frozen import frozen

# File: MAGIC, SHA-256 of all that follows, u32 length of the header, the header (JSON: key, meta, names and
# sizes of the blobs), then the blobs. The key inside keeps a renamed file from posing as another entry.
MAGIC = b"PHALANX1"
_DIGEST_BYTES = 32
_LENGTH = struct.Struct("<I")
_SUFFIX = ".entry"
_TEMPORARY = ".partial"
_STALE_SECONDS = 3600.0

_READING = sum(getattr(os, flag, 0) for flag in ("O_RDONLY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
"""How entries are opened: no link is followed, nothing is waited for. Each system has the flags that it needs."""

DEFAULT_LIMIT_BYTES = 256 << 20


@frozen
class Entry:
    """What `store` was given: a JSON dictionary and byte blobs by name."""

    meta: dict[str, Any]
    blobs: dict[str, bytes]


def digest(*parts: str | bytes) -> str:
    """A hex key over the parts; ("ab", "c") and ("a", "bc") differ, and so do "a" and b"a"."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%c%d:" % (b"s" if isinstance(part, str) else b"b", len(data)))
        state.update(data)
    return state.hexdigest()


@functools.cache
def compiler_fingerprint() -> str:
    """A hash over the sources of the phalanx package: a changed compiler must not find its old results."""
    return hash_sources(str(Path(__file__).resolve().parent.parent))


def hash_sources(folder: str) -> str:
    """Hash the names and contents of all source files below a folder, in an order that does not vary."""
    state = hashlib.sha256()
    for path in sorted(_source_files(folder)):
        with open(path, "rb") as file:
            data = file.read()
        state.update(f"{path[len(folder) :]}\0{len(data)}\0".encode())
        state.update(data)
    return state.hexdigest()


def _source_files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as items:
        for item in items:
            if item.name.endswith((".py", ".cuh", ".cu")):
                yield item.path
            elif item.name != "__pycache__" and item.is_dir():
                yield from _source_files(item.path)


class DiskCache:
    """The cache folder of one user. `root` is None when there is none to use; `disabled_reason` says why.

    The folder is `root`, else `$PHALANX_CACHE_DIR`, else `phalanx` in the user's cache folder.
    `PHALANX_CACHE=0` turns it off. A folder that another user owns, or that others may write to, is not used.

        cache = DiskCache()
        cache.store(key, {"registers": 40}, {"cubin": cubin})
        entry = cache.load(key)             # None, or Entry(meta, blobs)
    """

    def __init__(
        self, root: str | os.PathLike[str] | None = None, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
    ) -> None:
        self.limit_bytes = limit_bytes
        self.root: str | None = None
        self.disabled_reason = ""
        if os.environ.get("PHALANX_CACHE", "1").strip().lower() in ("0", "off", "no", "false"):
            self.disabled_reason = "PHALANX_CACHE turns it off"
            return
        try:
            folder = os.path.abspath(root) if root is not None else default_folder()
            os.makedirs(folder, mode=0o700, exist_ok=True)
            reason = _not_private(os.stat(folder))
            if reason:
                self.disabled_reason = f"{folder} {reason}"
            else:
                self.root = folder
        except (OSError, RuntimeError, ValueError) as cause:
            self.disabled_reason = str(cause)

    def load(self, key: str) -> Entry | None:
        """The entry of a key, or None. A damaged entry is removed and counts as missing."""
        path = self._path(key)
        if path is None:
            return None
        try:
            # A pipe that somebody put there would block the open, and then the read, for ever.
            descriptor = os.open(path, _READING)
            information = os.fstat(descriptor)
            with open(descriptor, "rb", buffering=0) as file:
                intact = stat.S_ISREG(information.st_mode) and not _not_private(information)
                entry = _decode(file.read(), key) if intact else None
        except FileNotFoundError:
            return None
        except OSError:  # a link, a folder, no permission
            entry = None
        if entry is None:
            _remove(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # eviction removes what was used longest ago
        return entry

    def store(self, key: str, meta: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bool:
        """Write an entry; False when that was not possible. Readers see the old or the new one whole."""
        data = _encode(key, meta, blobs)
        path = self._path(key)
        if path is None or self.root is None or len(data) > self.limit_bytes:
            return False
        temporary = ""
        try:
            descriptor, temporary = tempfile.mkstemp(suffix=_TEMPORARY, dir=self.root)  # mode 0600
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            if temporary:
                _remove(temporary)
            return False
        self._evict()
        return True

    def clear(self) -> None:
        """Remove every entry."""
        for path, _, _ in self._files():
            _remove(path)

    def size_bytes(self) -> int:
        """How much the entries take on disk."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key: str) -> str | None:
        if not re.fullmatch(r"[0-9a-f]{8,128}", key):
            raise ValueError(f"a cache key is lower-case hex, as digest() makes it; got {key!r}")
        return None if self.root is None else os.path.join(self.root, key + _SUFFIX)

    def _files(self) -> list[tuple[str, int, float]]:
        """(path, size, time of last use) of all files of the cache."""
        found: list[tuple[str, int, float]] = []
        if self.root is None:
            return found
        with contextlib.suppress(OSError), os.scandir(self.root) as items:
            for item in items:
                if item.name.endswith((_SUFFIX, _TEMPORARY)):
                    with contextlib.suppress(OSError):  # another process removed it meanwhile
                        information = item.stat(follow_symlinks=False)
                        found.append((item.path, information.st_size, information.st_mtime))
        return found

    def _evict(self) -> None:
        """Keep the folder under its limit: drop leftovers of dead writers, then what was used longest ago."""
        files = self._files()
        now = time.time()
        for path, _, used in files:
            if path.endswith(_TEMPORARY) and now - used > _STALE_SECONDS:
                _remove(path)
        entries = sorted((used, path, size) for path, size, used in files if path.endswith(_SUFFIX))
        total = sum(size for _, _, size in entries)
        if total <= self.limit_bytes:
            return
        for _, path, size in entries[:-1]:  # the newest one always stays
            if total <= self.limit_bytes * 3 // 4:  # some air, so that the next store does not evict again
                break
            _remove(path)
            total -= size


def default_folder() -> str:
    """The folder of this user, which need not be there yet."""
    chosen = os.environ.get("PHALANX_CACHE_DIR")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    named = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")  # the second one is Windows'
    base = named or os.path.join(Path.home(), ".cache")
    return os.path.join(base, "phalanx")


def _not_private(information: os.stat_result) -> str:
    """Why a file or folder can't be trusted, or "". On Windows the profile's folder is private by its access list."""
    if not hasattr(os, "getuid"):
        return ""
    if information.st_uid != os.getuid():
        return "belongs to another user"
    if information.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by other users"
    return ""


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _encode(key: str, meta: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    sizes = [[name, len(data)] for name, data in blobs.items()]
    header = json.dumps({"key": key, "meta": dict(meta), "blobs": sizes}).encode()
    body = b"".join((_LENGTH.pack(len(header)), header, *blobs.values()))
    return MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes, key: str) -> Entry | None:
    """The entry in a file's bytes, or None if they are not exactly what `_encode` wrote for this key."""
    start = len(MAGIC) + _DIGEST_BYTES
    body = memoryview(data)[start:]
    if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : start] != hashlib.sha256(body).digest():
        return None
    try:
        (header_bytes,) = _LENGTH.unpack_from(body)
        position = _LENGTH.size + header_bytes
        header = json.loads(bytes(body[_LENGTH.size : position]))
        if header["key"] != key:
            return None
        blobs = {}
        for name, size in header["blobs"]:
            blobs[name] = bytes(body[position : position + size])
            position += size
        if position != len(body) or not isinstance(header["meta"], dict):
            return None
        return Entry(header["meta"], blobs)
    except (ValueError, KeyError, TypeError, RecursionError, struct.error):  # a right checksum over the wrong content
        return None
