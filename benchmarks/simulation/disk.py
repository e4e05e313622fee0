"""A simulated disk: files in memory, with every write, sync and truncation of a crawl passing through here.

SQLite is reached through a VFS of its own that is registered in the library that Python's `sqlite3` uses. WARC files
are reached through `SimulatedFiles`. A disk can be full, and it can lose power: then everything that was written
behind the last sync of a file is lost in parts, sector by sector. A disk that lies reports a sync before it is done.
After `power_off` nothing is written any more, so the code of the dead process can unwind as it likes.
"""

import _sqlite3
import ctypes
import errno
import os
import random
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import BinaryIO, cast

from opilio.store.seal import SEAL_FILE
from opilio.store.warc import WarcFiles

SECTOR = 512
_OK, _FULL, _IOERR = 0, 13, 10  # result codes of SQLite
_Pointer = ctypes.c_void_p


class DiskFullError(OSError):
    def __init__(self) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disk:
    """The disk of one simulated machine while one process of the crawl runs. `on_step` is called before every change
    and may switch it off."""

    def __init__(
        self,
        folder: Path,
        on_step: Callable[[str], None],
        *,
        remember: bool,
        is_synced: Callable[[], bool] = lambda: True,
    ) -> None:
        self.folder = folder
        self.is_full = False
        self.image: dict[str, bytes] | None = None  # what is left of the files, once the power is off
        self._on_step = on_step
        self._is_synced = is_synced  # whether a sync does what it reports
        self.remembers = remember  # what is not synced yet; only needed where the power will fail
        self._durable = self._read_all() if remember else {}
        self._pending: dict[str, list[tuple[int, bytes | None]]] = {}  # (offset, data), or (size, None): a truncation

    @property
    def is_off(self) -> bool:
        return self.image is not None

    def change(self, name: str, offset: int, data: bytes | None) -> None:
        """Called before a write, or before a truncation to `offset`; raises OSError if it fails."""
        if not self.is_off:
            self._on_step("disk")
        if self.is_off:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.is_full and data is not None:
            raise DiskFullError
        if self.remembers:
            self._pending.setdefault(name, []).append((offset, data))

    def sync(self, name: str) -> None:
        """Everything written to a file so far survives a power failure."""
        if not self.is_off:
            self._on_step("disk")
        if self.is_off:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.remembers and self._is_synced():
            self._pending.pop(name, None)
            self._durable[name] = (self.folder / name).read_bytes()

    def kill(self) -> None:
        """The process is gone; the files stay as they are."""
        self.image = self._read_all()

    def power_off(self, rng: random.Random) -> None:
        """The machine is gone: of what was not synced, only some sectors are on the disk."""
        keep = rng.choice((0.0, 0.5, 0.9, 1.0))
        image = {name: bytearray(content) for name, content in self._durable.items() if (self.folder / name).exists()}
        for name, changes in self._pending.items():
            # The name of a new file is lost with it, where the folder was not synced.
            if name not in image and rng.random() < 0.3:
                continue
            content = image.setdefault(name, bytearray())
            for offset, data in changes:
                _apply(content, offset, data, keep, rng)
        self.image = {name: bytes(content) for name, content in image.items()}
        # Written and synced under another name, then renamed.
        if (seal := self.folder / SEAL_FILE).exists() and self._is_synced():
            self.image[SEAL_FILE] = seal.read_bytes()

    def _read_all(self) -> dict[str, bytes]:
        # SQLite makes the index of its log anew.
        paths = [path for path in sorted(self.folder.iterdir()) if not path.name.endswith("-shm")]
        return {path.name: path.read_bytes() for path in paths}


def _apply(content: bytearray, offset: int, data: bytes | None, keep: float, rng: random.Random) -> None:
    """Apply those sectors of a change that reached the disk."""
    if data is None:
        if rng.random() < keep:
            del content[offset:]
        return
    start = offset
    while start < offset + len(data):
        end = min((start // SECTOR + 1) * SECTOR, offset + len(data))
        if rng.random() < keep:
            content.extend(bytes(max(0, end - len(content))))
            content[start:end] = data[start - offset : end - offset]
        start = end


class SimulatedFiles(WarcFiles):
    """WARC files on a simulated disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(self, path: Path, mode: str) -> BinaryIO:
        return cast(BinaryIO, _BufferedFile(self._disk, path, super().open(path, mode)))

    def sync(self, file: BinaryIO) -> None:
        self._disk.sync(cast(_BufferedFile, file).path.name)

    def sync_folder(self, folder: Path) -> None:
        """Names of files become durable with their content."""


class _BufferedFile:
    """As a file of Python: what is written stays in memory until it is flushed."""

    def __init__(self, disk: Disk, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._disk = disk
        self._file = file
        self._buffer = bytearray()

    def write(self, data: bytes) -> int:
        self._buffer += data
        return len(data)

    def flush(self) -> None:
        if self._buffer:
            self._disk.change(self.path.name, self._file.tell(), bytes(self._buffer))
            self._file.write(self._buffer)
            self._file.flush()
            self._buffer.clear()

    def truncate(self, size: int) -> int:
        self._disk.change(self.path.name, size, None)
        return self._file.truncate(size)

    def seek(self, offset: int) -> int:
        self.flush()
        return self._file.seek(offset)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()


_library = ctypes.CDLL(_sqlite3.__file__)  # finds the functions of the SQLite that it is linked to
# The name is passed on as an address: behind its end SQLite keeps the parameters of the URI.
_Open = CFUNCTYPE(c_int, _Pointer, c_void_p, _Pointer, c_int, c_void_p)
_Write = CFUNCTYPE(c_int, _Pointer, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, _Pointer, c_int64)
_Sync = CFUNCTYPE(c_int, _Pointer, c_int)
_Close = CFUNCTYPE(c_int, _Pointer)


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, as far as it is used here; the rest is copied."""

    _fields_ = (
        ("version", c_int), ("file_size", c_int), ("path_size", c_int), ("next", c_void_p), ("name", c_char_p),
        ("data", c_void_p), ("open", _Open), ("rest", c_void_p * 15),
    )  # fmt: skip


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`."""

    _fields_ = (
        ("version", c_int), ("close", _Close), ("read", c_void_p), ("write", _Write), ("truncate", _Truncate),
        ("sync", _Sync), ("rest", c_void_p * 13),
    )  # fmt: skip


class SqliteHook:
    """Has SQLite call a `Disk` for every change of a file in its folder. One per process."""

    def __init__(self) -> None:
        self.disk: Disk | None = None
        self._names: dict[int, str] = {}  # open files of the disk, by the address of their structure
        _library.sqlite3_vfs_find.restype = c_void_p
        self._original = _Vfs.from_address(_library.sqlite3_vfs_find(None))
        self._vfs = _Vfs.from_buffer_copy(self._original)
        self._vfs.name = b"simulated"
        self._vfs.open = _Open(self._open)
        self._methods: dict[int, tuple[_Methods, _Methods]] = {}  # original and ours, by address of the original
        _library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    def close(self) -> None:
        _library.sqlite3_vfs_register(ctypes.byref(self._original), 1)
        _library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        result: int = self._original.open(vfs, name, file, flags, out)
        disk = self.disk
        if result != _OK or name is None or disk is None:
            return result
        path = Path(os.fsdecode(ctypes.string_at(name)))
        if path.parent != disk.folder:
            return result
        place = c_void_p.from_address(file)
        if place.value is not None:
            place.value = self._hooked(place.value)
            self._names[file] = path.name
        return result

    def _hooked(self, address: int) -> int:
        """The address of the methods that call us first."""
        if address not in self._methods:
            original = _Methods.from_address(address)
            ours = _Methods.from_buffer_copy(original)

            # Every page of the database passes here, so its content is only read if the disk needs it.
            def write(file: int, data: int, size: int, offset: int) -> int:
                disk = self.disk
                assert disk is not None
                try:
                    disk.change(self._names[file], offset, ctypes.string_at(data, size) if disk.remembers else b"")
                except OSError as error:
                    return _code_of(error)
                return cast(int, original.write(file, data, size, offset))

            def truncate(file: int, size: int) -> int:
                assert self.disk is not None
                try:
                    self.disk.change(self._names[file], size, None)
                except OSError as error:
                    return _code_of(error)
                return cast(int, original.truncate(file, size))

            def sync(file: int, flags: int) -> int:
                del flags  # the files are in memory: there is nothing to wait for
                assert self.disk is not None
                try:
                    self.disk.sync(self._names[file])
                except OSError as error:
                    return _code_of(error)
                return _OK

            def close(file: int) -> int:
                self._names.pop(file, None)
                return cast(int, original.close(file))

            ours.write, ours.truncate, ours.sync, ours.close = (
                _Write(write),
                _Truncate(truncate),
                _Sync(sync),
                _Close(close),
            )
            self._methods[address] = original, ours
        return ctypes.addressof(self._methods[address][1])


def _code_of(error: OSError) -> int:
    """The result code of SQLite for an error of the disk."""
    return _FULL if isinstance(error, DiskFullError) else _IOERR
