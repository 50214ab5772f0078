"""A small disk in memory that nobody sees but the commands that are run on it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.processes import finish

# A forked process joins the namespaces of the shell that has mounted the disk.
JOIN = """
import ctypes, runpy, sys
shell = sys.argv.pop(1)
for kind in ("user", "mnt"):
    with open(f"/proc/{shell}/ns/{kind}") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
runpy.run_module("lggd", run_name="__main__")
"""


class SmallDisk:
    def __init__(self, shell: subprocess.Popen[str], folder: Path) -> None:
        self._shell, self.folder = shell, folder

    def sh(self, script: str, *arguments: object) -> int:
        """Runs a script in the folder of the disk; returns its exit code."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        words = map(str, (self.folder, *arguments))
        self._shell.stdin.write(f"sh -c {shlex.quote(f'cd $0; {script}')} {shlex.join(words)} >&2; echo $?\n")
        self._shell.stdin.flush()
        return int(self._shell.stdout.readline() or -1)

    def lggd(self, *arguments: object) -> tuple[int | None, str, str]:
        """Runs a command; returns its exit code, stdout and stderr."""
        return finish(self._shell.pid, *arguments, code=JOIN)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk]:
    """Mounts a disk on a new folder; skips the test where that is not allowed."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    folder.mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        disk = SmallDisk(shell, folder)
        try:
            if disk.sh(f"mount -t tmpfs -o size={size} tmpfs $0"):
                pytest.skip("needs user namespaces")
            yield disk
        except BrokenPipeError:
            pytest.skip("needs user namespaces")
