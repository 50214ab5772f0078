"""The OpenAPI document describes the service, and no request that it allows ends in an error of the server.

LGGD_EXAMPLES sets how many requests are tried for each address and method; 6 in an ordinary run.
"""

from __future__ import annotations

import json
import os
from typing import cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from lggd.app.studio.app import build_app
from lggd.app.studio.security import Access
from lggd.app.studio.session import Session
from support.studio_cases import small_studio

EXAMPLES = int(os.environ.get("LGGD_EXAMPLES", "6"))
ANSWERED: list[int] = []  # the status of every answer
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
# Streams never end.
UNENDING = ("/api/events",)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    access = Access(port=0)
    with small_studio(tmp_path_factory.mktemp("studio"), access=access) as running:
        yield running
    print(json.dumps({"requests": len(ANSWERED), "server errors": sum(code >= 500 for code in ANSWERED)}))  # noqa: T201


# The document does not depend on the session.
DOCUMENT = build_app(cast(Session, None), Access()).openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path=list(UNENDING))


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_service(server, case) -> None:
    answer = case.call(base_url=server.url, timeout=30)
    ANSWERED.append(answer.status_code)
    case.validate_response(answer, checks=CHECKS)


def test_every_address_has_examples_and_errors(server) -> None:
    document = httpx.get(f"{server.url}api/openapi.json").json()
    assert document == DOCUMENT
    for path, methods in document["paths"].items():
        assert path.startswith("/api/")
        for method, described in methods.items():
            assert described["description"].endswith(".")
            assert {"200", "401", "403", "429"} <= set(described["responses"])
            errors = [code for code in described["responses"] if code != "200"]
            for code in errors:
                answer = described["responses"][code]["content"]["application/json"]["schema"]["$ref"]
                assert answer.endswith(("ErrorResponse", "ConflictResponse")), (method, path, code)
    for name in ("LabelsRequest", "ChangeResponse", "ErrorResponse", "ConflictResponse"):
        assert document["components"]["schemas"][name]["examples"]


def test_the_document_names_all_that_is_asked_for() -> None:
    paths = set(DOCUMENT["paths"])
    names = "health graph predictions nodes/{node} suggestions suspicious labels labels/{node} export events"
    assert {f"/api/{name}" for name in names.split()} <= paths
