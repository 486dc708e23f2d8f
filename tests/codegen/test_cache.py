"""Blobs on disk: whole or a miss, for the very key or a miss, never an error."""

from __future__ import annotations

import os
import threading
import tracemalloc
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from mlcnb.codegen.llvm import cache
from mlcnb.codegen.llvm.cache import Store, pack, packed, unpack
from mlcnb.core import files
from mlcnb.ir.memory import address_of


def only_file(store: Store) -> Path:
    (path,) = store.folder.iterdir()
    return path


def test_put_and_get(tmp_path):
    store = Store(tmp_path / "deep" / "folder")
    assert store.get("key") is None
    store.put("key", b"blob")
    store.put("other", b"")
    assert store.get("key") == b"blob"
    assert store.get("other") == b""
    assert (store.hits, store.misses) == (2, 1)
    store.put("key", b"newer")
    assert store.get("key") == b"newer"


def test_the_parts_of_a_blob_are_written_where_they_lie(tmp_path):
    arrays = [np.arange(n, dtype=np.float32) for n in (0, 3, 1 << 20)]
    parts = packed([b"text", *(a.view(np.uint8) for a in arrays)], 64)
    store = Store(tmp_path)
    store.put("parts", *parts)
    store.put("whole", b"".join(parts))
    assert store.get("parts") == store.get("whole") == b"".join(parts)
    found = unpack(store.view("parts"), 64)
    assert bytes(found[0]) == b"text"
    for a, blob in zip(arrays, found[1:], strict=True):
        assert np.array_equal(np.frombuffer(blob, np.float32), a)


def test_writing_parts_takes_no_copy_of_them(tmp_path):
    large = np.ones(32 << 20, np.uint8)
    tracemalloc.start()
    try:
        Store(tmp_path).put("key", *packed([b"text", large], 64))
        assert tracemalloc.get_traced_memory()[1] < large.nbytes // 8
    finally:
        tracemalloc.stop()


def test_another_store_of_the_folder_sees_it(tmp_path):
    Store(tmp_path).put("key", b"blob")
    assert Store(tmp_path).get("key") == b"blob"
    assert Store(tmp_path, "another salt").get("key") is None


def test_two_keys_of_one_hash_are_a_miss_not_a_mix_up(tmp_path):
    store = Store(tmp_path, name_of=lambda key: "same")
    store.put("first", b"1")
    assert store.get("second") is None
    store.put("second", b"2")
    assert store.get("second") == b"2"
    assert store.get("first") is None


def test_a_file_cut_short_anywhere_is_a_miss(tmp_path):
    store = Store(tmp_path)
    store.put("key", b"some blob")
    whole = only_file(store).read_bytes()
    for length in range(len(whole)):
        only_file(store).write_bytes(whole[:length])
        assert store.get("key") is None
    only_file(store).write_bytes(whole + b"\0")
    assert store.get("key") is None
    only_file(store).write_bytes(whole)
    assert store.get("key") == b"some blob"


def test_a_file_with_any_byte_changed_is_a_miss(tmp_path):
    store = Store(tmp_path)
    store.put("key", b"some blob")
    whole = only_file(store).read_bytes()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        only_file(store).write_bytes(changed)
        assert store.get("key") is None


def test_huge_lengths_in_a_forged_head_are_a_miss(tmp_path):
    store = Store(tmp_path)
    store.put("key", b"some blob")
    forged = cache._HEAD.pack(cache._MAGIC, 2**63, 2**63, b"\0" * 32)
    only_file(store).write_bytes(forged)
    assert store.get("key") is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_a_file_that_others_can_write_is_a_miss(tmp_path):
    store = Store(tmp_path)
    store.put("key", b"blob")
    assert only_file(store).stat().st_mode & 0o777 == 0o600
    only_file(store).chmod(0o666)
    assert store.get("key") is None
    store.put("key", b"blob")
    assert store.get("key") == b"blob"


def test_the_least_recently_used_go_first(tmp_path):
    store = Store(tmp_path, max_bytes=5000)
    for i in range(4):
        store.put(f"key{i}", bytes(1000))
        os.utime(store._path(store._raw(f"key{i}")), (i, i))
    assert store.get("key0") is not None
    store.put("key4", bytes(1000))
    assert store.size() <= 5000
    kept = [i for i in range(5) if store.get(f"key{i}") is not None]
    assert 0 in kept and 4 in kept and 1 not in kept


def test_the_cap_holds_over_many_writes(tmp_path):
    store = Store(tmp_path, max_bytes=20_000)
    for i in range(200):
        store.put(f"key{i}", bytes(100 + 7 * i % 500))
        assert store.size() <= 21_000
    assert store.get("key199") is not None
    store.put("giant", bytes(30_000))
    assert store.get("giant") is None
    store.clear()
    assert store.size() == 0


def test_a_folder_that_cannot_be_used_means_no_cache(tmp_path):
    obstacle = tmp_path / "file"
    obstacle.write_text("not a folder")
    store = Store(obstacle / "cache")
    store.put("key", b"blob")
    assert store.get("key") is None
    assert store.size() == 0
    store.clear()


def test_an_entry_that_is_a_folder_is_a_miss(tmp_path):
    store = Store(tmp_path, name_of=lambda key: "x")
    (tmp_path / "x.blob").mkdir()
    assert store.get("key") is None
    store.put("key", b"blob")
    assert store.get("key") is None
    assert [p.name for p in tmp_path.iterdir()] == ["x.blob"]


def test_threads_read_and_write(tmp_path):
    store = Store(tmp_path, max_bytes=30_000)
    wrong = []

    def work(me):
        for i in range(60):
            key = f"key{(me + i) % 20}"
            store.put(key, key.encode() * 100)
            if store.get(key) not in (None, key.encode() * 100):
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("parts", [[], [b""], [b"a", b"", b"ccc"], [bytes(1000)] * 5])
def test_pack(parts):
    assert unpack(pack(parts)) == parts


@pytest.mark.parametrize(
    "blob", [b"", b"\xff\xff\xff\xff", pack([b"abc"])[:-1], pack([b"a"]) + b"b"]
)
def test_unpack_refuses(blob):
    assert unpack(blob) is None


def test_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    store = cache.user_store()
    assert store is not None and store.folder == tmp_path
    assert store is cache.user_store()
    assert store.salt == cache.salt(tmp_path)
    for off in ("0", "off", "False"):
        monkeypatch.setenv("MLCNB_CACHE", off)
        assert cache.user_store() is None


@pytest.mark.skipif(os.name != "posix", reason="home folders of POSIX")
def test_user_folder(monkeypatch):
    monkeypatch.delenv("MLCNB_CACHE_DIR", raising=False)
    monkeypatch.setattr(files.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert files.user_folder() == Path("/somewhere/mlcnb")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert files.user_folder() == Path("/home/ada/.cache/mlcnb")
    monkeypatch.setattr(files.sys, "platform", "darwin")
    assert files.user_folder() == Path("/home/ada/Library/Caches/mlcnb")


def test_no_home_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("MLCNB_CACHE_DIR", "XDG_CACHE_HOME", "MLCNB_CACHE", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(files.Path, "home", no_home)
    assert files.user_folder() is None
    assert cache.user_store() is None


def test_salt_names_the_makers(tmp_path):
    first, version, digest, *rest = cache.salt(tmp_path).split()
    assert first == "mlcnb" and len(digest) == 32
    assert rest[::2] == ["llvmlite", "islpy"]
    assert rest[1::2] == [metadata.version("llvmlite"), metadata.version("islpy")]
    assert version and cache._version("a package that is not there") == "checkout"


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_what_is_packed_lies_at_multiples(tmp_path, size):
    """Arrays of a kept blob are used where they were read: a file's key may be of any length."""
    store = Store(tmp_path)
    parts = [b"text", np.arange(size, dtype=np.uint8), b"", np.ones(3, np.uint8)]
    for key in ("k", "key " * 9):
        store.put(key, pack(parts, 64))
        found = unpack(store.view(key), 64)
        assert [bytes(part) for part in found] == [bytes(part) for part in parts]
        if size > cache.MAPPED:
            assert [address_of(np.asarray(part)) % 64 for part in found if len(part)] == [0, 0, 0]
        assert store.get(key) == bytes(pack(parts, 64))
    assert unpack(pack(parts, 64)[:-1], 64) is None
    assert unpack(pack(parts, 64)) is None


def test_a_large_file_cut_short_or_changed_is_a_miss(tmp_path):
    store = Store(tmp_path)
    blob = bytes(range(256)) * 1024
    store.put("key", blob)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    assert store.view("key") == blob
    for damaged in (data[:-1], data + b"x", data[:-9] + b"\0" + data[-8:], data[:200]):
        path.write_bytes(damaged)
        assert store.view("key") is None
    path.write_bytes(data)
    kept = store.view("key")
    path.unlink()
    assert kept == blob, "what was read stays"


def test_what_is_mapped_stays_as_it_was(tmp_path):
    """A file is replaced or removed whole, so who holds a view of it keeps what it had."""
    store, blob = Store(tmp_path), bytes(range(256)) * 8192
    store.put("key", blob)
    held = store.view("key")
    store.put("key", blob[::-1])
    newer = store.view("key")
    newer[0] ^= 255  # a copy of the one who writes to it
    store.clear()
    assert bytes(held) == blob
    assert bytes(newer[1:]) == blob[::-1][1:]
    assert store.get("key") is None
    store.put("key", blob[::-1])
    assert store.get("key") == blob[::-1]
