"""Deployments for the crash tests: real processes, killed at will, looked over afterwards."""

import sys

import pytest

import schema
from tests.crash.deployment import QUICK, Deployment


@pytest.fixture
def deployment(settings, tmp_path, request):
    """Processes over the session's servers, each test with a corner of its own."""
    deployment = Deployment(env=QUICK | environment(settings), folder=tmp_path)
    yield deployment
    deployment.close()
    if request.node.stash.get(FAILED, False):
        sys.stderr.write('\n'.join(deployment.logs()))


def environment(settings):
    """The settings that say where the servers are, as variables."""
    return {
        'FANFOLD_DATABASE_URL': settings.database_url,
        'FANFOLD_REDIS_URL': settings.redis_url,
        'FANFOLD_S3_ENDPOINT_URL': settings.s3_endpoint_url,
        'FANFOLD_S3_ACCESS_KEY_ID': settings.s3_access_key_id,
        'FANFOLD_S3_SECRET_ACCESS_KEY': settings.s3_secret_access_key.get_secret_value(),
        'FANFOLD_S3_BUCKET': settings.s3_bucket,
    }


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == 'call' and report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def pool(database_url):
    with schema.open_pool(database_url, max_size=2, name='test') as pool:
        yield pool
