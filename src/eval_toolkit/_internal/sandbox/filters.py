"""System call filter with an allow list.

An allow list also rejects system calls added in later kernels. Memory, open files, threads, clocks
and waiting are allowed. New processes and programs, sockets (except socket pairs), signals to other
processes, priorities, namespaces, device-specific calls and access to other processes are rejected.
Multi-purpose calls are filtered by argument.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from itertools import starmap

# System call numbers on x86-64 and aarch64, from the kernel's tables; "-" if there is none.
_ALLOWED = """
read:0/63 write:1/64 readv:19/65 writev:20/66 pread64:17/67 pwrite64:18/68 preadv:295/69
pwritev:296/70 close:3/57 close_range:436/436 lseek:8/62 dup:32/23 dup2:33/- dup3:292/24 pipe:22/-
pipe2:293/59 fsync:74/82 fdatasync:75/83 ftruncate:77/46 fadvise64:221/223
flock:73/32 sendfile:40/71 copy_file_range:326/285 getdents:78/- getdents64:217/61 getcwd:79/17
chdir:80/49 fchdir:81/50 umask:95/166
stat:4/- fstat:5/80 lstat:6/- newfstatat:262/79 statx:332/291 access:21/- faccessat:269/48
faccessat2:439/439 readlink:89/- readlinkat:267/78 statfs:137/43 fstatfs:138/44
mkdir:83/- mkdirat:258/34 rmdir:84/- unlink:87/- unlinkat:263/35 rename:82/- renameat:264/38
renameat2:316/276 link:86/- linkat:265/37 symlink:88/- symlinkat:266/36
mmap:9/222 munmap:11/215 mremap:25/216 mprotect:10/226 madvise:28/233 msync:26/227 brk:12/214
membarrier:324/283
futex:202/98 set_robust_list:273/99 set_tid_address:218/96 rseq:334/293 sched_yield:24/124
sched_getaffinity:204/123 sched_getparam:143/121 sched_getscheduler:145/120
sched_get_priority_max:146/125 sched_get_priority_min:147/126 gettid:186/178 exit:60/93
exit_group:231/94 arch_prctl:158/-
rt_sigaction:13/134 rt_sigprocmask:14/135 rt_sigreturn:15/139 rt_sigpending:127/136
rt_sigtimedwait:128/137 rt_sigsuspend:130/133 sigaltstack:131/132 pause:34/-
restart_syscall:219/128 alarm:37/- setitimer:38/103 getitimer:36/102
nanosleep:35/101 clock_nanosleep:230/115 clock_gettime:228/113 clock_getres:229/114
gettimeofday:96/169 time:201/- times:100/153
poll:7/- ppoll:271/73 select:23/- pselect6:270/72 epoll_create:213/- epoll_create1:291/20
epoll_ctl:233/21 epoll_wait:232/- epoll_pwait:281/22 epoll_pwait2:441/441 eventfd:284/-
eventfd2:290/19 timerfd_create:283/85 timerfd_settime:286/86 timerfd_gettime:287/87 wait4:61/260
waitid:247/95
sendto:44/206 recvfrom:45/207 shutdown:48/210 getsockopt:55/209 getsockname:51/204
getpeername:52/205
getpid:39/172 getppid:110/173 getuid:102/174 geteuid:107/175 getgid:104/176 getegid:108/177
getgroups:115/158 getresuid:118/148 getresgid:120/150 getpgid:121/155 getpgrp:111/- getsid:124/156
getpriority:140/141 getrlimit:97/163 getrusage:98/165 sysinfo:99/179 uname:63/160
getrandom:318/278 getcpu:309/168
"""
_PRETENDED = """
chmod:90/- fchmod:91/52 fchmodat:268/53 fchmodat2:452/452 utime:132/- utimes:235/- utimensat:280/88
futimesat:261/-
"""
"""Mode and time changes, which Landlock does not block; they report success without effect."""
_UNSUPPORTED = "fallocate:285/47"
"""Preallocation; rejected because written bytes must be counted, and libraries work without it."""
_DECIDED = """
open:2/- openat:257/56 fcntl:72/25 ioctl:16/29 prctl:157/167 prlimit64:302/261 tgkill:234/131
clone:56/220 socketpair:53/199
"""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000
"""First system call number of the x32 ABI on x86-64."""
_NEWEST = 424
"""Newer calls that report "not implemented", so libraries fall back to older calls."""

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE, _UNKNOWN = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _AND, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4

_DUPLICATE, _DESCRIPTOR_FLAGS, _LOCKS = (0, 1030), (1, 2, 3), (5, 6, 7, 36, 37, 38)
_SET_STATUS, _PIPE_SIZE = 4, 1032
_ASYNCHRONOUS = 0x2000
_OF_ANY_FILE = (0x5421, 0x5450, 0x5451)
"""ioctl requests that set non-blocking and close-on-exec flags."""
_NAMES = (15, 16, 0x53564D41)
"""Options of prctl to name threads and memory, used by the C library."""
_THREAD = 0x10000
_UNIX, _STREAM, _KIND_OF_SOCKET = 1, 1, 0xF
_TRUNCATE, _WRITE_ONLY_OR_BOTH = 0x200, 0x3


def has_filter() -> bool:
    """Return whether a filter exists for this system and processor."""
    return (
        sys.platform.startswith("linux") and platform.machine() in _MACHINES and sys.maxsize > 2**32
    )


def filter_calls() -> bool:
    """Permanently block all system calls that are not listed; return whether this succeeded.

    Rejected calls fail with EPERM, as if the user lacked permission.

    Returns False on unsupported systems and processors, and if the kernel rejects the filter.
    """
    if not has_filter():
        return False
    column, machine = _MACHINES[platform.machine()]
    rules = b"".join(starmap(_instruction, _rules(column, machine)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    program = ctypes.create_string_buffer(rules, len(rules))
    argument = struct.pack("HxxxxxxP", len(rules) // 8, ctypes.addressof(program))
    return bool(libc.prctl(_SECCOMP, _FILTER, argument, 0, 0) == 0)


def _instruction(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


Rule = tuple[int, int, int, int]


def _rules(column: int, machine: int) -> list[Rule]:
    """Return the filter as classic BPF instructions."""
    rules: list[Rule] = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, machine), _answer(_KILL)]
    rules += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _answer(_REFUSE)]
    unsupported = _ERROR | errno.EOPNOTSUPP
    answers = ((_ALLOWED, _ALLOW), (_PRETENDED, _ERROR), (_UNSUPPORTED, unsupported))
    for table, answer in answers:
        for number in _numbers(table, column).values():
            rules += [(_EQUAL, 0, 1, number), _answer(answer)]
    for name, number in _numbers(_DECIDED, column).items():
        decided = _decided(name)
        rules += [(_EQUAL, 0, len(decided), number), *decided]
    rules += [(_AT_LEAST, 0, 1, _NEWEST), _answer(_UNKNOWN), _answer(_REFUSE)]
    return rules


def _numbers(table: str, column: int) -> dict[str, int]:
    found = {}
    for entry in table.split():
        name, _, numbers = entry.partition(":")
        number = numbers.split("/")[column]
        if number != "-":
            found[name] = int(number)
    return found


def _answer(what: int) -> Rule:
    return (_ANSWER, 0, 0, what)


def _argument(position: int) -> Rule:
    """Load the lower half of an argument; all tested arguments fit into it."""
    return (_LOAD, 0, 0, 16 + 8 * position)


def _only(position: int, *values: int, otherwise: int = _REFUSE) -> list[Rule]:
    """Allow a call if its argument has one of these values."""
    one_by_one = [rule for value in values for rule in ((_EQUAL, 0, 1, value), _answer(_ALLOW))]
    return [_argument(position), *one_by_one, _answer(otherwise)]


def _decided(name: str) -> list[Rule]:
    """Return the rules for a call that is filtered by argument."""
    if name == "fcntl":  # no signals on readable input
        kept = (*_DUPLICATE, *_DESCRIPTOR_FLAGS, *_LOCKS, _PIPE_SIZE)
        status = [_argument(2), (_HAS_BITS, 0, 1, _ASYNCHRONOUS), _answer(_REFUSE), _answer(_ALLOW)]
        return [_argument(1), (_EQUAL, 0, len(status), _SET_STATUS), *status, *_only(1, *kept)]
    if name == "ioctl":  # else ENOTTY; Python checks for terminals
        return _only(1, *_OF_ANY_FILE, otherwise=_ERROR | errno.ENOTTY)
    if name == "prctl":
        return _only(0, *_NAMES)
    if name == "prlimit64":
        return _only(0, 0)
    if name == "tgkill":
        return _only(0, os.getpid())
    if name == "clone":
        return [_argument(0), (_HAS_BITS, 0, 1, _THREAD), _answer(_ALLOW), _answer(_REFUSE)]
    if name == "socketpair":  # a connected socket that stays connected
        kind = [_argument(1), (_AND, 0, 0, _KIND_OF_SOCKET), (_EQUAL, 0, 1, _STREAM)]
        other = [(_EQUAL, 0, 4, _UNIX), *kind, _answer(_ALLOW), _answer(_REFUSE)]
        return [_argument(0), *other]
    flags = 1 if name == "open" else 2
    # Early versions of Landlock allow truncating a file that is opened read-only.
    return [
        *(_argument(flags), (_HAS_BITS, 0, 2, _TRUNCATE)),
        *((_HAS_BITS, 1, 0, _WRITE_ONLY_OR_BOTH), _answer(_REFUSE), _answer(_ALLOW)),
    ]
