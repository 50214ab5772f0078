"""Workers of Ray for tests that are forked from one process, which has imported torch and lggd once for all of them.

Ray runs this file in place of its own `default_worker.py`: it hands its arguments to the server that `forked_workers`
has started, whose fork becomes the worker. A worker is then ready after a tenth of the time of a new interpreter.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import sys

SERVER = "LGGD_TEST_WORKERS"  # names the socket of the server
# Not Ray itself: it reads its settings when it is imported, and those differ from worker to worker.
PRELOADED = ("lggd.cluster", "lggd.app.comparison.comparison", "optuna")


@contextlib.contextmanager
def forked_workers(folder):
    """Starts the server, whose socket is in this folder; Ray's `worker_path` is this file."""
    import subprocess

    os.environ[SERVER] = str(folder / "workers")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.environ[SERVER])
        listening.listen(64)  # workers may ask while the server still imports
        handed = {"pass_fds": [listening.fileno()]}
        server = subprocess.Popen([sys.executable, __file__, "serve", str(listening.fileno())], **handed)
    try:
        yield
    finally:
        server.kill()
        server.wait()
        del os.environ[SERVER]


def serve(descriptor):
    """Forks a worker for every connection."""
    import gc
    import importlib

    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    listening = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            work(connection)
        connection.close()


def work(connection):
    """Becomes the worker of Ray that a connection asks for; it stays open as long as the worker lives."""
    import runpy

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content, descriptors, _, _ = socket.recv_fds(connection, 2**20, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    arguments, environment, folder = pickle.loads(content)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    from ray._private import workers

    sys.argv = [os.path.join(next(iter(workers.__path__)), "default_worker.py"), *arguments]  # noqa: PTH118
    sys.path[0] = os.path.dirname(sys.argv[0])  # noqa: PTH120
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


def ask():
    """Asks the server for a worker and waits for its end, as Ray waits for this process."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SERVER])
        request = pickle.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))  # noqa: PTH109
        socket.send_fds(connection, [request], [0, 1, 2])
        connection.recv(1)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        ask()
