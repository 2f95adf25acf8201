"""Jobs as they are sent, and what is found of them once they are prepared."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from api.intake import Prepared
from api.problems import ApiProblem

HTML = '<!doctype html><p>Hello'
JSON = 'application/json'


def multipart(job: Any, files: dict[str, bytes], boundary: str = 'xx') -> tuple[bytes, str]:
    parts = [(f'name="files"; filename="{name}"', content) for name, content in files.items()]
    if job is not None:
        parts.insert(0, ('name="job"', json.dumps(job).encode()))
    body = b''.join(
        f'--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n'.encode() + content + b'\r\n'
        for disposition, content in parts
    )
    return body + f'--{boundary}--\r\n'.encode(), f'multipart/form-data; boundary={boundary}'


def members(prepared: Prepared) -> dict[str, bytes]:
    with zipfile.ZipFile(prepared.archive.path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def problem_of(submit: Callable[..., Prepared], *args: Any, **kwargs: Any) -> dict[str, Any]:
    with pytest.raises(ApiProblem) as caught:
        submit(*args, **kwargs)
    problem = caught.value.problem
    return {'name': problem.name, 'detail': problem.detail, **problem.extra}
