"""The description of the API, held against what it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from api.models import JobRequest


@pytest.fixture
def described(api: httpx.Client) -> dict[str, Any]:
    document: dict[str, Any] = api.get('/openapi.json').json()
    return document


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if '$ref' in value:
            yield value['$ref']
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    schemas = described['components']['schemas']
    for reference in references(described):
        prefix, _, name = reference.rpartition('/')
        assert prefix == '#/components/schemas'
        assert name in schemas


def test_every_route_is_described_with_its_problems(described: dict[str, Any]) -> None:
    operations = {
        (method.upper(), path): operation
        for path, methods in described['paths'].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {
        ('POST', '/v1/jobs'),
        ('GET', '/v1/jobs'),
        ('GET', '/v1/jobs/{job_id}'),
        ('DELETE', '/v1/jobs/{job_id}'),
        ('GET', '/v1/jobs/{job_id}/parts'),
        ('GET', '/v1/jobs/{job_id}/parts/{index}/result'),
        ('GET', '/v1/jobs/{job_id}/events'),
        ('GET', '/v1/jobs/{job_id}/result'),
        ('POST', '/v1/jobs/{job_id}/cancel'),
        ('POST', '/v1/jobs/{job_id}/retry'),
        ('GET', '/healthz'),
        ('GET', '/readyz'),
        ('GET', '/metrics'),
    }
    for (_, path), operation in operations.items():
        assert operation['summary']
        if '{job_id}' in path:
            assert 'application/problem+json' in operation['responses']['404']['content']
        for status, response in operation['responses'].items():
            if status >= '400':
                assert list(response['content']) == ['application/problem+json']
    submit = operations['POST', '/v1/jobs']
    assert set(submit['responses']) == {'202', '413', '415', '422', '429', '500', '503'}
    assert set(submit['requestBody']['content']) == {'application/json', 'multipart/form-data'}
    result = operations['GET', '/v1/jobs/{job_id}/result']
    assert {'200', '206', '304', '307', '409', '410', '416'} <= set(result['responses'])


def test_request_is_described_by_its_model(described: dict[str, Any]) -> None:
    request = described['components']['schemas']['JobRequest']
    assert set(request['properties']) == set(JobRequest.model_fields)
    assert request['additionalProperties'] is False


def test_parameters_have_their_usual_names(described: dict[str, Any]) -> None:
    result = described['paths']['/v1/jobs/{job_id}/result']['get']
    assert [item['name'] for item in result['parameters']] == [
        'job_id', 'redirect', 'Range', 'If-Range', 'If-None-Match',
    ]  # fmt: skip


def test_description_is_readable(api: httpx.Client) -> None:
    assert api.get('/docs').status_code == 200
