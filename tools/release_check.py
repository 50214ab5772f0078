"""Builds wheel and sdist, installs the wheel in an empty environment outside the repository, and uses it from there.

`python tools/release_check.py`, or with constraints in place of constraints.txt, such as
`python tools/release_check.py torch==2.5.0 torch-geometric==2.6.0`. Exits with 1 at a failure.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
COMPARED = "label-propagation,kernel-ridge"
COMMANDS = (
    ("--version",),
    ("run", "digits", "--out", "digits"),
    (
        "compare",
        "karate",
        "--methods",
        COMPARED,
        "--splits",
        "2",
        "--labels",
        "3/class",
        "--no-curve",
        "--out",
        "which",
    ),
)
# What must be in the archives besides the modules.
IN_WHEEL = (
    "lggd/app/report/page/page.js",
    "lggd/app/studio/static/studio.html",
)
NOT_IN_WHEEL = re.compile(r"configs/|reproduction/|tests/|benchmarks/")
IN_SDIST = (
    "src/lggd/__init__.py",
    "tests/conftest.py",
    "reproduction/configs/rows/lggd.toml",
    "examples/plot_digits.py",
    "docs/getting_started.ipynb",
    "LICENSE",
)
SECONDS_TO_START = 180


class CheckFailedError(Exception):
    """What did not hold."""


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def environment(folder: Path) -> Path:
    """Creates an empty environment; returns its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def run(*command: str | Path, cwd: Path) -> str:
    """Runs a command without the repository on its path; returns what it printed."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean, capture_output=True, text=True)
    if done.returncode:
        raise CheckFailedError(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(folder: Path) -> Path:
    """Builds the sdist, and the wheel from it; returns the wheel."""
    python = environment(folder / "builder")
    run(python, *INSTALL, "build", cwd=folder)
    run(python, "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    missing = set(IN_WHEEL) - set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        missing |= set(IN_SDIST) - {name.partition("/")[2] for name in archive.getnames()}
    extra = [name for name in zipfile.ZipFile(wheel).namelist() if NOT_IN_WHEEL.search(name)]
    if extra:
        raise CheckFailedError(f"in the wheel: {', '.join(extra)}")
    if missing:
        raise CheckFailedError(f"not in the archives: {', '.join(sorted(missing))}")
    say(f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name} ({sdist.stat().st_size:,} bytes)")
    return wheel


def constraints(folder: Path, replaced: list[str]) -> Path:
    """The pins of the repository, or `replaced`: then all others are the newest that these allow."""
    if not replaced:
        return ROOT / "constraints.txt"
    path = folder / "constraints.txt"
    path.write_text("\n".join(replaced) + "\n")
    return path


def check_studio(lggd: Path, folder: Path) -> None:
    """Starts a studio on a free port, asks for its health, and stops it."""
    log = (folder / "studio.log").open("w+")
    words = [str(lggd), "studio", "karate", "--port", "0", "--store", str(folder / "labels.sqlite")]
    service = subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(2 * SECONDS_TO_START):
            time.sleep(0.5)
            address = re.search(r"http://127\.0\.0\.1:\d+", (folder / "studio.log").read_text())
            if address or service.poll() is not None:
                break
        if not address:
            raise CheckFailedError(f"lggd studio printed no address:\n{(folder / 'studio.log').read_text()}")
        with urllib.request.urlopen(f"{address[0]}/api/health", timeout=60) as answer:
            say(f"lggd studio: {answer.status} {answer.read().decode()}")
    finally:
        service.terminate()
        service.wait(60)
        log.close()


def check(folder: Path, replaced: list[str]) -> None:
    wheel = build(folder)
    python = environment(folder / "empty")
    pins = ("--constraint", constraints(folder, replaced))
    run(python, *INSTALL, *pins, "torch", cwd=folder)
    run(python, *INSTALL, *pins, f"{wheel}[studio]", cwd=folder)
    say("installed " + " ".join(run(python, "-m", "pip", "freeze", cwd=folder).split("\n"))[:600])
    where = run(python, "-c", "import lggd; print(lggd.__file__)", cwd=folder).strip()
    if not Path(where).is_relative_to(folder):
        raise CheckFailedError(f"lggd was imported from {where}")
    lggd = python.with_name("lggd")
    for words in COMMANDS:
        start = time.perf_counter()
        printed = run(lggd, *words, cwd=folder).strip().splitlines()
        say(f"lggd {' '.join(words)}: {time.perf_counter() - start:.0f} s\n    " + "\n    ".join(printed[-4:]))
    for written in ("digits/report.html", "which/comparison.html"):
        if not (folder / written).stat().st_size:
            raise CheckFailedError(f"{written} is empty")
    check_studio(lggd, folder)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name).resolve()
        try:
            check(folder, sys.argv[1:])
        except CheckFailedError as failure:
            say(f"FAILED: {failure}")
            return 1
    say("all of it works")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
