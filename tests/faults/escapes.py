"""Programs that try to escape the sandbox, exhaust resources or pass without a solution.

A program sets ``done`` at its end only if its attempt has succeeded. All programs terminate and cause
little damage, so a failing sandbox fails the test without harming the machine. `Outside` provides their
targets and detects changes.
"""

import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from tests.faults.cheats import CHEATS, RIGHT, TESTED
from tests.faults.kernel_calls import KERNEL_CALLS

__all__ = [
    "CHEATS",
    "ESCAPES",
    "EXHAUSTION",
    "HARMLESS",
    "HIDDEN",
    "RIGHT",
    "TESTED",
    "TOOLS",
    "Outside",
]

TOOLS = """
import ctypes, errno, fcntl, math, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(intel, arm, *arguments):
    number = intel if os.uname().machine == 'x86_64' else arm
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""

_READING = {
    "read a file of the user": "open(FILE).read()",
    "read a file through a link": "os.symlink(FILE, 'link'); open('link').read()",
    "read a file by a hard link": "os.link(FILE, 'link'); open('link').read()",
    "read a file upwards": "open('../' * 20 + FILE).read()",
    "read a file under /proc/self/root": "open('/proc/self/root' + FILE).read()",
    "read a file by the parent's folder": "open(f'/proc/{os.getppid()}/cwd' + FILE).read()",
    "list a folder of the user": "assert os.listdir(FOLDER)",
    "list the user's home": "assert len(os.listdir(HOME)) > 1",  # the interpreter may be there
    "read /etc/passwd": "open('/etc/passwd').read()",
    "read /etc/shadow": "open('/etc/shadow').read()",
    "read the caller's environment": "open(f'/proc/{PID}/environ').read()",
    "read the parent's environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "read another's command": "open(f'/proc/{SENTINEL}/cmdline').read()",
    "list the processes": "assert os.listdir('/proc')",
    "list the caller's files": "assert os.listdir(f'/proc/{PID}/fd')",
    "read the parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "read its own environment": "assert 'KEY' in open('/proc/self/environ').read()",
    "find a key in its variables": "assert any('KEY' in name for name in os.environ)",
    "read the kernel's log": "call(103, 116, 3, ctypes.create_string_buffer(9999), 9999)",
    "open the disk": "[open('/dev/' + n, 'rb') for n in os.listdir('/dev') if n[:2] in ('vd', 'sd')][0]",
    "open memory": "open('/dev/mem', 'rb')",
    "open by handle": "call(304, 265, -100, b'x', 0)",
    "copy a file of the user": "import shutil; shutil.copy(FILE, 'copy')",
}
_WRITING = {
    "write a file of the user": "open(FILE, 'w').write('x')",
    "append to a file of the user": "open(FILE, 'a').write('x')",
    "make a file beside it": "open(FOLDER + '/new', 'w').write('x')",
    "make a file in /tmp that others see": "open(f'/tmp/escaped-{SENTINEL}', 'w'); assert 0",
    "make a file in /dev/shm": "open(f'/dev/shm/escaped-{SENTINEL}', 'w')",
    "make a folder": "os.mkdir(FOLDER + '/new')",
    "remove a file": "os.unlink(FILE)",
    "move a file": "os.rename(FILE, 'mine')",
    "move a file away": "os.rename(FILE, FILE + '2')",
    "cut a file": "os.truncate(FILE, 0)",
    "cut a file that is read": "os.open(FILE, os.O_RDONLY | os.O_TRUNC)",
    "change a mode": "os.chmod(FILE, 0o777); assert os.stat(FILE).st_mode & 7 == 7",
    "change a time": "os.utime(FILE, (1, 1)); assert os.stat(FILE).st_mtime == 1",
    "change an owner": "os.chown(FILE, os.getuid(), os.getgid()); os.chown(FILE, 1, 1)",
    "set an attribute": "os.setxattr(FILE, 'user.x', b'x')",
    "write to a pipe of the user": "os.write(os.open(FIFO, os.O_WRONLY | os.O_NONBLOCK), b'x')",
    "write to the terminal": "open('/dev/tty', 'w').write('x')",
    "write to any terminal": "[open('/dev/pts/' + n, 'w') for n in os.listdir('/dev/pts')][0]",
    "type into the terminal": "[fcntl.ioctl(n, 0x5412, b'x') for n in (0, 1, 2)]",
    "write to a console": "open('/dev/console', 'w').write('x')",
    "write to the parent's memory": "open(f'/proc/{os.getppid()}/mem', 'r+b')",
    "change the interpreter": "open(os.__file__, 'a').write('#')",
    "change the toolkit": "open(OURS, 'a').write('#')",
    "make a device": "os.mknod('zero', 0o20600 | 0o4, os.makedev(1, 5)); open('zero', 'rb').read(1)",
    "change a setting of the kernel": "open('/proc/sys/kernel/core_pattern', 'w').write('x')",
    "change its limits' group": "open('/sys/fs/cgroup/memory/tasks', 'w').write('0')",
    "be spared when memory is short": "open('/proc/self/oom_score_adj', 'w').write('-1000')",
}
_PROCESSES = {
    "fork": "os._exit(0) if os.fork() == 0 else None",
    "fork by the kernel's call": "assert call(57, 220, 17, 0, 0, 0, 0)",
    "fork by clone3": "call(435, 435, struct.pack('8Q', 0, 0, 0, 0, 17, 0, 0, 0), 64)",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "subprocess": "import subprocess; subprocess.run(['true'])",
    "a shell": "assert os.system('true') == 0",
    "multiprocessing": "import multiprocessing as m; p = m.get_context('fork').Process(); p.start()",
    "another program": "os.execv('/bin/true', ['true'])",
    "another interpreter": "os.execv(sys.executable, ['python', '-c', ''])",
    "a program in memory": "f = os.memfd_create('x'); os.execv(f, ['x'])",
    "kill its parent": "os.kill(os.getppid(), 9)",
    "kill the caller": "os.kill(PID, 9)",
    "kill another process": "os.kill(SENTINEL, 9)",
    "kill its group": "os.killpg(0, 9)",
    "kill everything": "os.kill(-1, 9)",
    "kill by thread": "call(200, 130, SENTINEL, 9)",
    "kill by group and thread": "call(234, 131, SENTINEL, SENTINEL, 9)",
    "queue a signal": "call(129, 138, SENTINEL, 9, bytes(128))",
    "signal by a file": "signal.pidfd_send_signal(os.pidfd_open(SENTINEL), 9)",
    "trigger a signal": (
        "r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, SENTINEL)\n"
        "fcntl.fcntl(r, 10, 9)\n"
        "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); os.write(w, b'x')"
    ),
    "trigger a signal to a thread": "r, w = os.pipe(); fcntl.fcntl(r, 15, struct.pack('ii', 1, SENTINEL))",
    "trigger a signal by a device": (
        "a, b = socket.socketpair(); fcntl.ioctl(a, 0x8901, struct.pack('i', SENTINEL))"
    ),
    "a lease": "fcntl.fcntl(os.open(os.__file__, 0), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "watch a folder": "fcntl.fcntl(os.open('.', 0), fcntl.F_NOTIFY, fcntl.DN_CREATE)",
    "trace its parent": "call(101, 117, 16, os.getppid(), 0, 0)",
    "be traced": "call(101, 117, 0, 0, 0, 0)",
    "read another's memory": (
        "b = ctypes.create_string_buffer(8)\n"
        "v = struct.pack('PN', ctypes.addressof(b), 8); call(310, 270, os.getppid(), v, 1, v, 1, 0)"
    ),
    "limit another": "import resource; resource.prlimit(SENTINEL, resource.RLIMIT_CPU, (0, 0))",
    "renice another": "os.setpriority(os.PRIO_PROCESS, SENTINEL, 19)",
    "renice the user": "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
    "bind another to a core": "os.sched_setaffinity(SENTINEL, {0})",
    "schedule another": "os.sched_setscheduler(SENTINEL, os.SCHED_BATCH, os.sched_param(0))",
    "slow another's disk": "call(251, 30, 1, SENTINEL, 3 << 13)",
    "compare with another": "call(312, 272, os.getpid(), SENTINEL, 0, 0, 0)",
    "take a file of another": "call(438, 438, os.pidfd_open(SENTINEL), 0, 0)",
    "move another's pages": "call(256, 238, SENTINEL, 1, bytes(8), bytes(8))",
    "end without its parent": "libc.prctl(1, 0) and 1 / 0",
    "become root": "os.setuid(0); assert os.getuid() == 0 and not os.setuid(0); open('/etc/shadow')",
    "have new namespaces": "call(272, 97, 0x10000000)",
    "join namespaces": "call(308, 268, os.open(f'/proc/{PID}/ns/net', 0), 0)",
    "mount": "call(165, 40, b'tmpfs', b'.', b'tmpfs', 0, 0)",
    "mount anew": "call(428, 428, -100, b'/', 0)",
    "unmount": "call(166, 39, b'/', 2)",
    "another root": "os.chroot('.')",
    "another host name": "call(170, 161, b'x', 1)",
    "load a module": "call(175, 105, b'', 0, b'')",
    "restart the machine": "call(169, 142, 0xFEE1DEAD, 672274793, 0, 0)",
    "a program for the kernel": "call(321, 280, 0, bytes(128), 128)",
    "count events": "call(298, 241, bytes(128), 0, -1, -1, 0)",
    "faults of pages": "call(323, 282, 0)",
    "a ring of requests": "call(425, 425, 8, ctypes.create_string_buffer(120))",
    "a key ring": "call(250, 219, 0, -3, 0)",
    "shared memory": "call(29, 194, 0, 4096, 0o1600)",
    "a queue of messages": "call(68, 186, 0, 0o1600)",
    "another personality": "call(135, 92, 0x0400000)",
    "the other numbering": "call(0x40000000 + 39, 172)"
    " if os.uname().machine == 'x86_64' else 1 / 0",
    "the older kernel's door": (
        "import mmap\n"
        "m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "1 / (os.uname().machine == 'x86_64')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()"
    ),
}
_NETWORK = {
    "a connection": "socket.create_connection(('127.0.0.1', PORT), 1)",
    "a connection by IPv6": "socket.socket(socket.AF_INET6)",
    "a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "a socket by the kernel's call": "call(41, 198, 2, 1, 0)",
    "a socket of the user": "s = socket.socket(socket.AF_UNIX); s.connect(SOCKET)",
    "an abstract socket": "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + ABSTRACT)",
    "a pair that is connected anew": (
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', SOCKET + '2')"
    ),
    "questions to the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "the kernel's cryptography": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "virtual machines": "socket.socket(40)",
    "a name": "assert socket.gethostbyname('localhost') == 1",
}
ESCAPES = {**_READING, **_WRITING, **_PROCESSES, **_NETWORK, **KERNEL_CALLS}

EXHAUSTION = {
    "a loop": "end = time.time() + 60\nwhile time.time() < end: pass",
    "a loop of the kernel": "time.sleep(60)",
    "ten gigabytes": "x = bytearray(10**10)",
    "many small objects": "x = [bytes(1000) for _ in range(10**8)]",
    "a long file": "open('big', 'wb').write(bytes(10**9))",
    "many files": "for i in range(20): open(f'f{i}', 'wb').write(bytes(10**7))\ntime.sleep(60)",
    "very many files": "for i in range(10**5): open(f'f{i}', 'wb')\ntime.sleep(60)",
    "many open files": "x = [open(os.__file__) for _ in range(1000)]",
    "files in memory": "x = [os.memfd_create('x') for _ in range(60)]; [os.truncate(f, 10**9) for f in x]",
    "a fork bomb": "for _ in range(6): os.fork()\ntime.sleep(2)",
    "many threads": (
        "import threading; threading.stack_size(2**16)\n"
        "for _ in range(10**5): threading.Thread(target=time.sleep, args=(60,)).start()"
    ),
    "deep recursion": "sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "deep nesting": "eval('(' * 100_000 + ')' * 100_000)",
    "a power": "9**9**9",
    "a pattern": "import re; re.match('(a+)+$', 'a' * 60 + '!')",
    "a segmentation fault": "ctypes.string_at(0)",
    "an abort": "os.abort()",
    "lifts its limits": "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))",
    "ignores the alarm": "signal.signal(signal.SIGALRM, print); time.sleep(60)",
    "holds its signals": "signal.pthread_sigmask(0, range(1, 65)); time.sleep(60)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "reads the keyboard": "input()",
    "closes everything": "os.closerange(0, 1000); os.write(3, b'x')",
    "a null": "exec('x = 1\\x00')",
}

_MAPPED = "k.append(mmap.mmap(f.fileno(), 4096)); f.close()"
_UNSEEN = "import mmap\nk = []\nfor i in range(40):\n    f = open(f'x{i}', 'w+b'); "
HIDDEN = {
    "files that are removed and open": (
        f"{_UNSEEN}os.unlink(f'x{{i}}'); f.write(bytes(15 << 20)); f.flush(); k.append(f)"
    ),
    "files that are removed and mapped": (
        f"{_UNSEEN}os.unlink(f'x{{i}}'); f.write(bytes(15 << 20)); f.flush(); {_MAPPED}"
    ),
    "space that is reserved": (
        f"{_UNSEEN}os.posix_fallocate(f.fileno(), 0, 15 << 20); os.unlink(f'x{{i}}'); {_MAPPED}"
    ),
    "files whose names are too long": (
        "for i in range(40): os.mkdir('d' * 250); os.chdir('d' * 250)\n"
        "for i in range(40): open(f'x{i}', 'wb').write(bytes(15 << 20))"
    ),
    "many files whose names are too long": (
        "for i in range(40): os.mkdir('d' * 250); os.chdir('d' * 250)\n"
        "for i in range(20_000): open(f'x{i}', 'wb').close()"
    ),
}
"""Programs that exceed their disk limit in ways that are invisible in their folder."""

HARMLESS = {
    "save the right one as a separate file": "open('x', 'w').write('y'); assert open('x').read() == 'y'",
    "a temporary file": "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x')",
    "a database": "import sqlite3; sqlite3.connect('x.db').execute('create table t (a)')",
    "threads": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "a pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as p: assert sum(p.map(abs, range(9))) == 36"
    ),
    "asyncio": "import asyncio; asyncio.run(asyncio.sleep(0.01))",
    "random numbers": "import random, secrets, uuid; random.random(); secrets.token_hex(); uuid.uuid4()",
    "time zones": "import zoneinfo, datetime; datetime.datetime.now(datetime.timezone.utc)",
    "archives": "import zipfile\nwith zipfile.ZipFile('x.zip', 'w') as z: z.writestr('a', 'b')",
    "hashes": "import hashlib; hashlib.sha256(b'x').hexdigest()",
    "C": "assert libc.abs(-3) == 3",
    "folders": "import shutil; os.makedirs('a/b'); shutil.rmtree('a'); os.chdir('.')",
    "clocks": "time.sleep(0.001); time.perf_counter(); os.times()",
    "a signal to itself": "signal.signal(10, lambda *_: None); signal.raise_signal(10)",
    "what machine it is": "import platform; platform.system(); os.cpu_count(); os.uname()",
    "decimal numbers": "import decimal, fractions; decimal.Decimal(1) / 3",
    "a link": "os.symlink('x', 'y')",
    "a selector": "import selectors; selectors.DefaultSelector().select(0)",
    "copies": "import shutil; open('a', 'w').write('x'); shutil.copy('a', 'b')",
    "memory": "import mmap; mmap.mmap(-1, 4096).write(b'x')",
}


class Outside:
    """Resources of the user that must not change: files, a process, sockets and a pipe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "outside"
        self._folder.mkdir()
        self.file = self._folder / "file"
        self.file.write_text("the user's")
        self.file.chmod(0o640)
        self._fifo = self._folder / "fifo"
        os.mkfifo(self._fifo)
        self._reader = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
        self._sockets = [socket.create_server(("127.0.0.1", 0)), *self._of_the_user()]
        self.sentinel = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        self._before = self._state()

    def _of_the_user(self) -> list[socket.socket]:
        self._path, self._abstract = str(self._folder / "s"), f"eval-toolkit-{os.getpid()}"
        made = []
        for kind, place in (
            (socket.SOCK_STREAM, self._path),
            (socket.SOCK_STREAM, f"\0{self._abstract}"),
            (socket.SOCK_DGRAM, f"{self._path}2"),
        ):
            made.append(socket.socket(socket.AF_UNIX, kind))
            made[-1].bind(place)
            if kind == socket.SOCK_STREAM:
                made[-1].listen()
        return made

    def __enter__(self) -> "Outside":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.sentinel.kill()
        self.sentinel.wait()
        for one in self._sockets:
            one.close()
        os.close(self._reader)

    @property
    def names(self) -> str:
        """Return Python code with the locations of the resources, for a program."""
        given = {
            "FILE": str(self.file),
            "FOLDER": str(self._folder),
            "FIFO": str(self._fifo),
            "HOME": str(Path.home()),
            "PID": os.getpid(),
            "SENTINEL": self.sentinel.pid,
            "PORT": self._sockets[0].getsockname()[1],
            "SOCKET": self._path,
            "ABSTRACT": self._abstract,
            "OURS": str(Path(__file__).parents[2] / "src/eval_toolkit/errors.py"),
        }
        return "\n".join(f"{name} = {value!r}" for name, value in given.items())

    def _state(self) -> dict[str, object]:
        about = self.file.stat()
        pid = self.sentinel.pid
        return {
            "its text": self.file.read_text(),
            "its mode": stat.S_IMODE(about.st_mode),
            "its owner": (about.st_uid, about.st_gid),
            "its time": about.st_mtime_ns,
            "its attributes": os.listxattr(self.file),
            "the folder": sorted(os.listdir(self._folder)),  # noqa: PTH208
            "a process": self.sentinel.poll(),
            "its priority": os.getpriority(os.PRIO_PROCESS, pid),
            "its cores": os.sched_getaffinity(pid),
            "its limits": Path(f"/proc/{pid}/limits").read_text(),
            "the pipe": select.select([self._reader], [], [], 0)[0] and os.read(self._reader, 9),
            "connections": len(select.select(self._sockets, [], [], 0)[0]),
            "files in /tmp": Path(f"/tmp/escaped-{pid}").exists(),  # noqa: S108
            "files in /dev/shm": Path(f"/dev/shm/escaped-{pid}").exists(),  # noqa: S108
            "this process's priority": os.getpriority(os.PRIO_PROCESS, 0),
            "its threads": threading.active_count(),
            "alarms": signal.getitimer(signal.ITIMER_REAL),
        }

    def touched(self) -> list[str]:
        """Return the resources that were changed."""
        try:
            now = self._state()
        except OSError as gone:
            return [str(gone)]
        return [name for name, before in self._before.items() if now[name] != before]
