"""What all tests share: the servers, and a database, a bucket and a Redis database of their own for each test."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from urllib.parse import urlsplit, urlunsplit

import boto3
import botocore.config
import psycopg
import pytest
import redis
from psycopg import sql

from runtime.settings import Settings, load_settings
from tests.servers import ObjectStore, Servers, running_servers

RESERVED_SECONDS = 1_800


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test is a failed one, unless it needs the big corpus."""
    report = yield
    if report.skipped and not hasattr(report, 'wasxfail') and item.get_closest_marker('corpus') is None:
        report.outcome = 'failed'
        report.longrepr = f'skipped ({report.longrepr}), but only tests marked `corpus` may skip'
    return report


@pytest.fixture(scope='session')
def servers() -> Iterator[Servers]:
    with running_servers() as found:
        yield found


@pytest.fixture(scope='session')
def postgres_url(servers: Servers) -> str:
    """A superuser's URL of a PostgreSQL server, to a database that exists."""
    return servers.postgres_url


@pytest.fixture(scope='session')
def redis_url(servers: Servers) -> str:
    """Redis database 0, shared by all; `fresh_redis_url` is a test's own."""
    return servers.redis_url


@pytest.fixture(scope='session')
def object_store(servers: Servers) -> ObjectStore:
    return servers.object_store


@pytest.fixture(scope='session')
def migrated_template(postgres_url: str) -> Iterator[str]:
    """The name of a database with the present schema, for others to be copied from."""
    import schema

    name = f'fanfold_template_{secrets.token_hex(4)}'
    _administer(postgres_url, sql.SQL('CREATE DATABASE {}').format(sql.Identifier(name)))
    try:
        schema.migrate(with_database(postgres_url, name))
        yield name
    finally:
        _drop_database(postgres_url, name)


@pytest.fixture
def database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    """A fresh database with the present schema."""
    name = f'fanfold_test_{secrets.token_hex(6)}'
    create = sql.SQL('CREATE DATABASE {} TEMPLATE {}')
    _administer(postgres_url, create.format(sql.Identifier(name), sql.Identifier(migrated_template)))
    try:
        yield with_database(postgres_url, name)
    finally:
        _drop_database(postgres_url, name)


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A fresh database with nothing in it."""
    name = f'fanfold_test_{secrets.token_hex(6)}'
    _administer(postgres_url, sql.SQL('CREATE DATABASE {}').format(sql.Identifier(name)))
    try:
        yield with_database(postgres_url, name)
    finally:
        _drop_database(postgres_url, name)


@pytest.fixture
def fresh_redis_url(redis_url: str) -> Iterator[str]:
    """A Redis database that nobody else uses meanwhile, empty."""
    with redis.Redis.from_url(redis_url) as shared:
        count = int(shared.config_get('databases')['databases'])
        owner = secrets.token_hex(8)
        number = next(
            number
            for number in range(1, count)
            if shared.set(f'fanfold-test-database-{number}', owner, nx=True, ex=RESERVED_SECONDS)
        )
        url = urlunsplit(urlsplit(redis_url)._replace(path=f'/{number}'))
        try:
            with redis.Redis.from_url(url) as own:
                own.flushdb()
                yield url
                own.flushdb()
        finally:
            shared.delete(f'fanfold-test-database-{number}')


@pytest.fixture
def bucket(object_store: ObjectStore) -> Iterator[str]:
    """The name of a fresh bucket."""
    name = f'fanfold-test-{secrets.token_hex(6)}'
    client = boto3.session.Session().client(
        's3',
        endpoint_url=object_store.endpoint_url,
        aws_access_key_id=object_store.access_key_id,
        aws_secret_access_key=object_store.secret_access_key,
        region_name='us-east-1',
        config=botocore.config.Config(
            s3={'addressing_style': 'path'},
            request_checksum_calculation='when_required',
            response_checksum_validation='when_required',
        ),
    )
    client.create_bucket(Bucket=name)
    try:
        yield name
        for page in client.get_paginator('list_objects_v2').paginate(Bucket=name):
            if keys := [{'Key': item['Key']} for item in page.get('Contents', [])]:
                client.delete_objects(Bucket=name, Delete={'Objects': keys})
        client.delete_bucket(Bucket=name)
    finally:
        client.close()


@pytest.fixture
def settings(database_url: str, fresh_redis_url: str, object_store: ObjectStore, bucket: str) -> Settings:
    """Settings of a whole service of the test's own."""
    return load_settings(
        database_url=database_url, redis_url=fresh_redis_url, s3_bucket=bucket, **object_store.settings
    )


def with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f'/{name}'))


def _administer(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _drop_database(url: str, name: str) -> None:
    _administer(url, sql.SQL('DROP DATABASE IF EXISTS {} WITH (FORCE)').format(sql.Identifier(name)))
