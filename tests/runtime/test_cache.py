"""The disk cache: round trips, damage, strangers, concurrency, eviction. None of it may raise."""

from __future__ import annotations

import hashlib
import os
import pickle
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import phalanx.runtime.cache as cache_module
from phalanx.runtime.cache import DiskCache, Entry, compiler_fingerprint, digest, hash_sources

KEY = digest("a kernel")
META = {"registers": 40, "name": "copy", "nested": {"grid": [1, 2]}}
BLOBS = {"cubin": bytes(range(256)) * 100, "ptx": b"", "source": "λ".encode()}


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def entry_file(cache: DiskCache) -> Path:
    (path,) = Path(cache.root or "").glob("*.entry")
    return path


def test_round_trip_and_overwrite(cache: DiskCache) -> None:
    assert cache.load(KEY) is None
    assert cache.store(KEY, META, BLOBS)
    assert cache.load(KEY) == Entry(META, BLOBS)
    assert cache.store(KEY, {}, {"cubin": b"new"})
    assert cache.load(KEY) == Entry({}, {"cubin": b"new"})
    assert cache.load(digest("another")) is None


def test_folder_and_files_are_private(cache: DiskCache) -> None:
    cache.store(KEY, META, BLOBS)
    assert os.stat(cache.root or "").st_mode & 0o777 == 0o700
    assert entry_file(cache).stat().st_mode & 0o777 == 0o600


def test_another_instance_and_another_process_see_it(cache: DiskCache) -> None:
    cache.store(KEY, META, BLOBS)
    assert DiskCache(cache.root).load(KEY) == Entry(META, BLOBS)
    script = (
        "import sys; from phalanx.runtime.cache import DiskCache; "
        "e = DiskCache(sys.argv[1]).load(sys.argv[2]); print(len(e.blobs['cubin']), e.meta['registers'])"
    )
    assert cache.root is not None
    command = [sys.executable, "-c", script, cache.root, KEY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["25600", "40"]


@pytest.mark.parametrize("length", [0, 3, 8, 39, 40, 60, -1])
def test_truncated_entry_is_a_miss_and_removed(cache: DiskCache, length: int) -> None:
    cache.store(KEY, META, BLOBS)
    path = entry_file(cache)
    path.write_bytes(path.read_bytes()[:length])
    assert cache.load(KEY) is None
    assert not path.exists()
    assert cache.store(KEY, META, BLOBS)
    assert cache.load(KEY) == Entry(META, BLOBS)


def test_every_flipped_byte_is_noticed(cache: DiskCache) -> None:
    cache.store(KEY, {"a": 1}, {"x": b"payload"})
    path = entry_file(cache)
    good = path.read_bytes()
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x20
        path.write_bytes(bytes(bad))
        assert cache.load(KEY) is None, position
        assert not path.exists()


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"key": "%s", "meta": 3, "blobs": []}' % KEY.encode(),
        b'{"key": "%s", "meta": {}, "blobs": 3}' % KEY.encode(),
        b'{"key": "%s", "meta": {}, "blobs": [["x", 5]]}' % KEY.encode(),
        b'{"key": "%s", "meta": {}, "blobs": [["x", "y"]]}' % KEY.encode(),
    ],
)
def test_right_checksum_over_wrong_content_is_a_miss(cache: DiskCache, header: bytes) -> None:
    body = struct.pack("<I", len(header)) + header
    path = Path(cache.root or "") / f"{KEY}.entry"
    path.write_bytes(cache_module.MAGIC + hashlib.sha256(body).digest() + body)
    path.chmod(0o600)
    assert cache.load(KEY) is None
    assert not path.exists()


def test_renamed_entry_does_not_pose_as_another(cache: DiskCache) -> None:
    cache.store(KEY, META, BLOBS)
    path = entry_file(cache)
    other = digest("other")
    path.rename(path.with_name(other + ".entry"))
    assert cache.load(other) is None


def test_pickle_is_not_loaded(cache: DiskCache) -> None:
    class Planted:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (os.path.join(cache.root or "", "pwned"),))

    path = Path(cache.root or "") / f"{KEY}.entry"
    path.write_bytes(pickle.dumps(Planted()))
    path.chmod(0o600)
    assert cache.load(KEY) is None
    assert os.listdir(cache.root) == []


def test_link_folder_and_writable_entry_are_misses(cache: DiskCache, tmp_path: Path) -> None:
    cache.store(KEY, META, BLOBS)
    path = entry_file(cache)
    path.chmod(0o666)
    assert cache.load(KEY) is None
    assert not path.exists()
    cache.store(KEY, META, BLOBS)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.load(KEY) is None
    path.unlink(missing_ok=True)
    path.mkdir()
    assert cache.load(KEY) is None
    assert not cache.store(KEY, META, BLOBS)
    assert [p.name for p in Path(cache.root or "").iterdir()] == [path.name]  # no temporary file left behind


def test_shared_folder_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    cache = DiskCache(shared)
    assert cache.root is None
    assert cache.disabled_reason == f"{shared} can be written by other users"
    assert not cache.store(KEY, META, BLOBS)
    assert cache.load(KEY) is None
    assert list(shared.iterdir()) == []


def test_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    cache = DiskCache(tmp_path)
    assert cache.root is None
    assert cache.disabled_reason == f"{tmp_path} belongs to another user"


def test_entry_of_another_user_is_a_miss(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, META, BLOBS)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert cache.load(KEY) is None


def test_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = DiskCache(root)
        assert cache.root is None
        assert cache.disabled_reason
        assert cache.load(KEY) is None
        assert cache.size_bytes() == 0
        cache.clear()


def test_disk_that_refuses_writes(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, META, BLOBS)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    assert not cache.store(digest("new"), META, BLOBS)
    assert cache.load(KEY) == Entry(META, BLOBS)


def test_folder_removed_meanwhile(cache: DiskCache) -> None:
    os.rmdir(cache.root or "")
    assert cache.load(KEY) is None
    assert not cache.store(KEY, META, BLOBS)


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path / "chosen"))
    assert DiskCache().root == str(tmp_path / "chosen")
    monkeypatch.delenv("PHALANX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert DiskCache().root == str(tmp_path / "xdg" / "phalanx")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert DiskCache().root == str(tmp_path / "home" / ".cache" / "phalanx")
    monkeypatch.setenv("PHALANX_CACHE", "0")
    cache = DiskCache()
    assert cache.root is None and cache.disabled_reason == "PHALANX_CACHE turns it off"
    assert not cache.store(KEY, META, BLOBS)


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit_bytes=50_000)
    keys = [digest(str(n)) for n in range(5)]
    for age, key in enumerate(keys[:4]):
        cache.store(key, {}, {"x": bytes(10_000)})
        os.utime(tmp_path / f"{key}.entry", (1000 + age, 1000 + age))
    assert cache.load(keys[0]) is not None  # now the most recently used one
    cache.store(keys[4], {}, {"x": bytes(10_000)})
    assert [key for key in keys if cache.load(key)] == [keys[0], keys[3], keys[4]]
    assert cache.size_bytes() <= 50_000


def test_entry_beyond_the_limit_is_not_stored(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit_bytes=1000)
    assert not cache.store(KEY, {}, {"x": bytes(2000)})
    assert cache.size_bytes() == 0


def test_leftovers_of_dead_writers_are_removed(cache: DiskCache) -> None:
    old, young = Path(cache.root or "") / "tmpold.partial", Path(cache.root or "") / "tmpyoung.partial"
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (1000, 1000))
    cache.store(KEY, META, BLOBS)
    assert not old.exists()
    assert young.exists()


def test_clear(cache: DiskCache) -> None:
    cache.store(KEY, META, BLOBS)
    assert cache.size_bytes() > 25_600
    cache.clear()
    assert cache.load(KEY) is None


@pytest.mark.long
def test_processes_and_threads_write_the_same_keys(cache: DiskCache) -> None:
    script = """
import sys
from phalanx.runtime.cache import DiskCache, digest
cache = DiskCache(sys.argv[1])
who = sys.argv[2].encode()
for n in range(60):
    key = digest(str(n % 3))
    entry = cache.load(key)
    if entry is not None:
        assert len(set(entry.blobs["x"])) == 1 and len(entry.blobs["x"]) == 20_000
    cache.store(key, {}, {"x": who * 20_000})
"""

    assert cache.root is not None
    root = cache.root

    def run(name: str) -> int:
        return subprocess.run([sys.executable, "-c", script, root, name]).returncode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, "abcd")) == [0, 0, 0, 0]
    assert sorted(p.suffix for p in Path(root).iterdir()) == [".entry"] * 3


def test_key_must_be_a_digest(cache: DiskCache) -> None:
    for key in ("../../etc/passwd", "", "ABCDEF0123", "abc"):
        with pytest.raises(ValueError, match="cache key"):
            cache.load(key)


def test_digest_separates_its_parts() -> None:
    keys = [digest("ab", "c"), digest("a", "bc"), digest("abc"), digest(b"abc"), digest("abc", ""), digest()]
    assert len(set(keys)) == len(keys)
    assert digest("ab", b"c") == digest("ab", b"c")
    assert len(digest("x")) == 64


def test_fingerprint_follows_every_source(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "sub" / "b.cuh").write_text("// b")
    first = hash_sources(str(tmp_path))
    (tmp_path / "notes.txt").write_text("no source")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").write_text("no source")
    assert hash_sources(str(tmp_path)) == first
    (tmp_path / "sub" / "b.cuh").write_text("// B")
    second = hash_sources(str(tmp_path))
    (tmp_path / "sub" / "b.cuh").rename(tmp_path / "sub" / "c.cuh")
    third = hash_sources(str(tmp_path))
    (tmp_path / "new.py").write_text("")
    assert len({first, second, third, hash_sources(str(tmp_path))}) == 4


def test_fingerprint_of_the_package() -> None:
    folder = Path(cache_module.__file__).parent.parent
    assert folder.name == "phalanx"
    assert compiler_fingerprint() == hash_sources(str(folder))


def test_a_pipe_in_place_of_an_entry_does_not_block(cache: DiskCache) -> None:
    cache.store(KEY, META, BLOBS)
    path = entry_file(cache)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert cache.load(KEY) is None
    assert not path.exists(), "it is removed, as a damaged entry"
    assert cache.store(KEY, META, BLOBS) and cache.load(KEY) == Entry(META, BLOBS)


@pytest.mark.parametrize("header", [b"[" * 100_000 + b"]" * 100_000, b'{"key":' * 50_000 + b"1" + b"}" * 50_000])
def test_a_right_sum_over_deeply_nested_json(cache: DiskCache, header: bytes) -> None:
    cache.store(KEY, META, BLOBS)
    body = struct.pack("<I" if struct.calcsize(cache_module._LENGTH.format) == 4 else "<Q", len(header)) + header
    entry_file(cache).write_bytes(cache_module.MAGIC + hashlib.sha256(body).digest() + body)
    assert cache.load(KEY) is None
