"""The sandbox of a worker process: a filter of system calls (seccomp). Linux on x86-64 only.

A worker parses foreign bytes with native libraries. If one of them has a flaw that runs code of a page, that code can
read files and use the processor, but after `enter_sandbox` it can't write a file, open a connection, start a program or
trace a process. The filter is a list of system calls that a worker never needs; they fail with EPERM.
"""

import ctypes
import errno
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Iterator

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SYSCALL, _SET_MODE_FILTER, _ALL_THREADS = 317, 1, 1
_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_CALLS = 0x40000000  # system calls of another table
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000  # with the error in the lower half
# Offsets in the data that the filter sees: number of the call, architecture, lower halves of the arguments.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, (16, 24, 32)
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions
_OPEN, _OPENAT, _CLONE = 2, 257, 56
_WRITE_FLAGS = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000  # WRONLY, RDWR, CREAT, TRUNC, TMPFILE
_CLONE_THREAD = 0x10000
# The C library falls back to older calls, whose arguments the filter can see.
_UNKNOWN_CALLS = (435, 437)  # clone3, openat2

_REFUSED_CALLS = {
    # socket, connect, accept, bind, listen, socketpair, accept4.
    "network": (41, 42, 43, 49, 50, 53, 288),
    "programs": (57, 58, 59, 322),  # fork, vfork, execve, execveat
    # kill, ptrace, tkill, process_vm_*, pidfd_*.
    "processes": (62, 101, 200, 310, 311, 424, 434, 438),
    "names": (82, 83, 84, 85, 86, 87, 88, 133, 258, 259, 263, 264, 265, 266, 316),  # rename, mkdir, unlink, link …
    "attributes": (76, 90, 91, 92, 93, 94, 132, 188, 189, 190, 235, 260, 268, 280, 452),  # truncate, chmod, chown …
    # shmget, mq_open, memfd_create, memfd_secret.
    "memory files": (29, 240, 319, 447),
    "system": (
        155,
        161,
        165,
        166,
        167,
        169,
        170,
        172,
        173,
        175,
        176,
        246,
        272,
        308,
        313,
        320,
    ),  # mount, chroot, modules …
    "kernel interfaces": (248, 249, 250, 298, 321, 323, 425, 426, 427),  # keys, perf, bpf, userfaultfd, io_uring
}


def sandbox_available() -> bool:
    """Whether this system has the filter."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def enter_sandbox() -> bool:
    """Restrict this process until its end; False if the system has no such filter or forbids it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sandbox_available():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    program = b"".join(_filter_program())
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions of 8 bytes, and their address.
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.syscall(_SECCOMP_SYSCALL, _SET_MODE_FILTER, _ALL_THREADS, header) == 0)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """`struct sock_filter`; a jump counts the instructions that are skipped."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def _filter_program() -> Iterator[bytes]:
    """The instructions, in the order in which they run."""
    refused, unknown = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield from _return_unless(_AUDIT_ARCH_X86_64, refused)
    yield _instruction(_LOAD, _NUMBER)
    yield _instruction(_AT_LEAST, _X32_CALLS, if_false=1)
    yield _instruction(_RETURN, refused)
    yield from _return_if(_UNKNOWN_CALLS, unknown)
    for calls in _REFUSED_CALLS.values():
        yield from _return_if(calls, refused)
    # A file may be opened for reading, and a thread may be started.
    for call, argument in ((_OPEN, 1), (_OPENAT, 2)):
        yield _instruction(_EQUAL, call, if_false=4)
        yield _instruction(_LOAD, _ARGUMENTS[argument])
        yield _instruction(_ANY_BIT, _WRITE_FLAGS, if_false=1)
        yield _instruction(_RETURN, refused)
        yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_EQUAL, _CLONE, if_false=3)
    yield _instruction(_LOAD, _ARGUMENTS[0])
    yield _instruction(_ANY_BIT, _CLONE_THREAD, if_true=1)
    yield _instruction(_RETURN, refused)
    yield _instruction(_RETURN, _ALLOW)


def _return_unless(value: int, result: int) -> Iterator[bytes]:
    yield _instruction(_EQUAL, value, if_true=1)
    yield _instruction(_RETURN, result)


def _return_if(values: Iterable[int], result: int) -> Iterator[bytes]:
    for value in values:
        yield _instruction(_EQUAL, value, if_false=1)
        yield _instruction(_RETURN, result)
