"""The service of the label studio under load, killed, and with hostile requests: its tests, at full size.

Each test prints what it has found as a line of JSON; it fails where a label is lost or a request is not answered as it
should be.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

from benchmarks.record import ROOT

TESTS = ROOT / "tests" / "studio"
SECONDS, KILLS, EXAMPLES = 60, 100, 200
P99 = 250.0


def run_test(name: str, **variables: int) -> dict[str, Any]:
    """Runs a test in a process of its own, and returns what it prints and how many of its cases passed."""
    environment = {**os.environ, **{f"LGGD_{key}": str(value) for key, value in variables.items()}}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-n", "0", *name.split()]
    done = subprocess.run(command, env=environment, cwd=TESTS, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stdout[-3000:]}")
    printed = re.findall(r"\{\".*\}", done.stdout)
    passed = re.findall(r"(\d+) passed", done.stdout)
    return {**(json.loads(printed[-1]) if printed else {}), "passed": int(passed[-1])}


def measure_load() -> dict[str, Any]:
    return {**run_test("test_load.py", LOAD_SECONDS=SECONDS), "load average": round(os.getloadavg()[0], 1)}


def measure_kill() -> dict[str, Any]:
    return run_test("test_killed.py -k acknowledged", KILLS=KILLS)


def measure_requests() -> dict[str, Any]:
    return {
        "described": run_test("test_openapi.py", EXAMPLES=EXAMPLES),
        "hostile": run_test("test_app.py test_security.py"),
    }


def service_lines(found: dict[str, Any]) -> list[str]:
    """The part of the page about the service."""
    rows = []
    if one := found.get("load"):
        verdict = "met" if one["p99"] <= P99 else "missed"
        rows.append(
            f"50 readers and 5 writers for {one['seconds']:g} s on loopback | {one['reads']:,} reads and "
            f"{one['labels']:,} labelled nodes, no error, no label lost; reads: median {one['p50']:g} ms, "
            f"99th percentile {one['p99']:g} ms | {P99:g} ms: {verdict}{one.get('note', '')}"
        )
    if one := found.get("kill"):
        rows.append(
            f"`kill -9` {one['kills']} times during writes | {one['acknowledged requests']:,} acknowledged requests of "
            "three labels, all present, none twice; database intact after each | none lost: met"
        )
    if one := found.get("requests"):
        described, hostile = one["described"], one["hostile"]
        rows.append(
            f"requests by schemathesis from the OpenAPI document | {described['requests']:,} requests, "
            f"{described['server errors']} answers 5xx | none: {'missed' if described['server errors'] else 'met'}"
        )
        rows.append(
            "hostile requests, tokens, Host, Origin (`test_app.py`, `test_security.py`) | "
            f"{hostile['passed']} cases: a sentence and 4xx, nothing changed, nobody in without the token | met"
        )
    if not rows:
        return []
    return ["## The service", "", "| what | found | bar |", "|---|---|---|", *(f"| {row} |" for row in rows), ""]
