"""docs/api.md, held against the code: its examples are run, its tables are compared."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from uuid import UUID

import httpx

from api.models import JobRequest
from api.options import Options
from api.problems import STATUS
from api.routes.jobs import CONTENT_PROBLEMS
from api.views import JobView
from tests.api.jobs import Jobs

PAGE = (Path(__file__).parents[2] / 'docs' / 'api.md').read_text()
PDF = b'%PDF-1.7 as good as any'


def first_cells(heading: str) -> list[str]:
    """The names in the first column of the first table under a heading."""
    _, _, below = PAGE.partition(f'{heading}\n')
    rows = re.findall(r'^\|(.*?)\|', below[below.index('\n|') :].split('\n\n')[0], re.MULTILINE)
    return [name for row in rows[2:] for name in re.findall(r'`(\w+)`', row)]


def test_examples_do_what_they_say(api: httpx.Client, jobs: Jobs, tmp_path: Path) -> None:
    blocks = re.findall(r'^```sh\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    before = ''
    for block in blocks:
        script = f'set -eu\n{before}{block}'
        ran = subprocess.run(['bash', '-c', script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f'{block}\n{ran.stdout}\n{ran.stderr}'
        before += ''.join(f'{line}\n' for line in block.splitlines() if re.match(r'[A-Z]+=', line))
        before = re.sub(r'^FANFOLD=.*', f'FANFOLD={str(api.base_url).rstrip("/")}', before, flags=re.MULTILINE)
        for job in api.get('/v1/jobs?status=queued').json()['jobs']:
            jobs.complete_submitted(UUID(job['id']), PDF)
    assert json.loads((tmp_path / 'job.json').read_text())['status'] in {'queued', 'completed'}
    assert (tmp_path / 'result.pdf').read_bytes() == (tmp_path / 'again.pdf').read_bytes() == PDF
    assert (tmp_path / 'start.pdf').read_bytes() == PDF[:5]
    assert len(api.get('/v1/jobs').json()['jobs']) == 4


def test_fields_of_a_job_are_all_listed() -> None:
    assert set(first_cells('## Submit a job')) == set(JobRequest.model_fields)


def test_options_are_all_listed() -> None:
    assert set(first_cells('### Options')) == set(Options.model_fields)


def test_members_of_a_job_are_all_listed() -> None:
    assert set(first_cells('## Follow it')) == set(JobView.model_fields) - {'id'}


def test_problems_are_all_listed_with_their_status() -> None:
    listed = re.findall(r'^\| (\d+) \| `([a-z-]+)` \|', PAGE, re.MULTILINE)
    assert {name: int(status) for status, name in listed} == {**dict.fromkeys(CONTENT_PROBLEMS, 422), **STATUS}
