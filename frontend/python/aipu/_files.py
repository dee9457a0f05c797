"""Files that other processes read, and that survive a crash: written under another name, synced, renamed.

`_native.write_file` is for files of which a reader sees the old or the new one. Here is what a cache and a run that can
be resumed need beyond it: the bytes and the name are on the disk when a call returns, errors have their ``errno``, and
one process at a time may hold a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import stat
import sys
import tempfile
from typing import Any, Iterator

from . import _native

TEMPORARY = ".aipu-tmp"  # how names of half-written files end


def write_durably(path: str, data: bytes, sync_name: bool = True) -> None:
    """Writes a file that is whole or not there, also after a power failure; OSError with the path and its ``errno``.

    ``sync_name``: whether its name is on the disk when the call returns, or only after :func:`sync_folder`.
    """
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync_name:
            sync_folder(folder)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename, error.filename2 = path, None
        raise


def sync_folder(path: str) -> None:
    """Names in a folder are on the disk afterwards."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: str) -> None:
    """Removes what :func:`write_durably` had not finished in a process that was killed; only for who holds the lock."""
    for entry in os.scandir(folder):
        if entry.name.startswith(".") and entry.name.endswith(TEMPORARY):
            os.unlink(entry.path)


def rename(old: str, new: str) -> None:
    """Gives a file that is whole its name, in place of what had it."""
    os.replace(old, new)


def append_synced(path: str, data: bytes) -> None:
    """Adds bytes to the end of a file, made if it is not there; they are on the disk afterwards."""
    is_new = not os.path.exists(path)
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync_folder(os.path.dirname(path) or ".")


def folder_problem(path: str) -> str:
    """Why what is in a folder, made if it is not there, cannot be trusted to be this user's alone; "" if it can."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        info = os.stat(path)
    except OSError as error:
        return f"'{path}' cannot be used: {error.strerror}"
    if info.st_uid != os.geteuid():
        return f"'{path}' belongs to another user (number {info.st_uid}, this is {os.geteuid()})"
    if stat.S_IMODE(info.st_mode) & 0o022:
        return f"others may write to '{path}' (chmod go-w takes that away)"
    return ""


@contextlib.contextmanager
def locked(path: str, wait: bool = True) -> Iterator[None]:
    """Holds the lock of a name, which goes with the process; BlockingIOError if another holds it, unless ``wait``.

    The file is removed afterwards: who waited for it then looks whether the name still is the file that it locked.
    """
    while True:
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                if os.stat(path).st_ino != os.fstat(file.fileno()).st_ino:
                    continue
            except FileNotFoundError:
                continue
            try:
                yield
                return
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


@contextlib.contextmanager
def file_of_bytes(data: bytes, name: str) -> Iterator[str]:
    """A path under which this process finds the bytes, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
        try:
            with open(descriptor, "wb", buffering=0, closefd=False) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(prefix=name) as file:
            file.write(data)
            file.flush()
            yield file.name


def private_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder of this user alone that goes with the object."""
    return tempfile.TemporaryDirectory(prefix="aipu_")


def machine_folder(name: str) -> str:
    """A folder of this user alone that all its processes on this machine know; OSError where others may write to it."""
    path = os.path.join(tempfile.gettempdir(), f"{name}-{os.geteuid()}")
    problem = folder_problem(path)
    if problem:
        raise OSError(problem)
    return path


def _finite(told: Any) -> Any:
    """JSON has no infinity: null."""
    if isinstance(told, dict):
        return {name: _finite(value) for name, value in told.items()}
    if isinstance(told, (list, tuple)):
        return [_finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


def write_report(path: str, told: Any) -> None:
    """What a program tells other programs, as JSON; ``"-"`` is the standard output. OSError."""
    write_output(path, json.dumps(_finite(told), indent=1, allow_nan=False) + "\n")


def write_output(path: str, text: str) -> None:
    """A file for people or programs; ``"-"`` is the standard output. OSError."""
    if path == "-":
        sys.stdout.write(text)
    else:
        _native.write_file(path, text.encode())
