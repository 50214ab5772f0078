"""Forks processes that have the library imported, which takes a new one six seconds: `python fork_server.py SOCKET`.

Each message on the socket is one program: a JSON object with its arguments, environment and folder, and the files of
its stdin, stdout, stderr and of its status. The answer is its process id; the exit status follows once it has ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from typing import Any

# What commands import when they run.
MODULES = (
    "lggd.app.cli", "lggd.app.comparison.comparison", "lggd.app.comparison.search", "reproduction.experiments",
    "lggd.app.runs.saved_model", "lggd.sklearn", "lggd.app.studio.server", "pandas", "sklearn.datasets",
    "torch_geometric.data", "torch_geometric.utils",
)  # fmt: skip
MESSAGE = 1 << 20


def serve(requests: socket.socket) -> None:
    while True:
        message, files, _, _ = socket.recv_fds(requests, MESSAGE, 4)
        if not message:
            os._exit(0)
        if not os.fork():
            _keep(json.loads(message), files)
        for file in files:
            os.close(file)


def _keep(request: dict[str, Any], files: list[int]) -> None:
    """Forks the program, and waits for it: the server waits for the next request."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = files
    program = os.fork()
    if not program:
        os.close(status)
        _run(request, streams)
    for file in streams:
        os.close(file)
    os.write(status, program.to_bytes(4, "little"))
    _, ended = os.waitpid(program, 0)
    os.write(status, os.waitstatus_to_exitcode(ended).to_bytes(4, "little", signed=True))
    os._exit(0)


def _run(request: dict[str, Any], streams: list[int]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell ignore Ctrl-C
    for number, file in enumerate(streams):
        os.dup2(file, number)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    code, sys.argv = request["code"], request["argv"]
    sys.path[:] = [*request["env"].get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    try:
        if code is None:
            runpy.run_module("lggd", run_name="__main__", alter_sys=False)
        else:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # collecting in a fork would copy all pages
    serve(socket.socket(fileno=int(sys.argv[1])))
