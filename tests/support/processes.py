"""Programs in processes of their own: `lggd` commands, and pieces of Python."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TextIO, cast

from support.command_line import environment, program


@cache
def _server() -> socket.socket:
    """The connection to a process that forks, one for all tests of this process."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(there.fileno())]
    server = subprocess.Popen(command, pass_fds=[there.fileno()], env=environment(), start_new_session=True)
    there.close()

    def end() -> None:
        here.close()
        server.wait()

    atexit.register(end)
    return here


class Forked:
    """A forked process with pipes, which has the attributes and methods of `subprocess.Popen` that tests use."""

    def __init__(self, code: str | None, arguments: list[str], cwd: Path, env: dict[str, str]) -> None:
        (stdin, write), (read, stdout), (read_errors, stderr), (self._status, status) = (os.pipe() for _ in range(4))
        request = {"code": code, "argv": ["lggd" if code is None else "-c", *arguments], "cwd": str(cwd), "env": env}
        files = [stdin, stdout, stderr, status]
        socket.send_fds(_server(), [json.dumps(request).encode()], files)
        for file in files:
            os.close(file)
        self.stdin: TextIO = os.fdopen(write, "w")
        self.stdout, self.stderr = os.fdopen(read), os.fdopen(read_errors)
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        """The next number on the pipe: the process id, then the exit status."""
        found = os.read(self._status, 4)
        assert len(found) == 4, "the server has ended"
        return int.from_bytes(found, "little", signed=True)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("lggd", timeout or 0)
            self.returncode = self._number()
        return self.returncode

    def send_signal(self, sent: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str = "", timeout: float | None = None) -> tuple[str, str]:
        """The rest of stdout and of stderr, which are read at the same time: a full pipe would block the process."""
        with suppress(BrokenPipeError), self.stdin:
            self.stdin.write(text)
        with ThreadPoolExecutor(2) as reading:
            out, errors = (reading.submit(stream.read) for stream in (self.stdout, self.stderr))
            texts = out.result(timeout), errors.result(timeout)
        self.wait(timeout)
        return texts

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self.stderr.close()
        os.close(self._status)


def start(*arguments: object, code: str | None = None, cwd: Path | None = None, **env: str) -> Forked:
    """Starts `lggd ARGUMENTS`, or `code` with them in `sys.argv`, with pipes and one thread, in a session of its own.

    On Linux it is forked from a process that has imported the library; elsewhere it imports it anew.
    """
    texts, where, variables = list(map(str, arguments)), cwd or Path.cwd(), environment(**env)
    if sys.platform == "linux":
        return Forked(code, texts, where, variables)
    command = program(*texts) if code is None else [sys.executable, "-c", code, *texts]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return cast(Forked, subprocess.Popen(command, cwd=where, env=variables, text=True, start_new_session=True, **pipes))  # type: ignore[call-overload]


def finish(*arguments: object, code: str | None = None) -> tuple[int | None, str, str]:
    """Runs the same until it ends; returns its exit status, stdout and stderr."""
    with start(*arguments, code=code) as process:
        out, errors = process.communicate()
    return process.returncode, out, errors


def in_new_process(*arguments: object) -> dict[str, Any]:
    """Returns the result of a command, which must print nothing else."""
    status, out, errors = finish(*arguments, "--json")
    assert (status, errors) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found
