"""Objects are written once, checked by SHA-256, and an outage is told apart from an absence."""

import hashlib
import secrets
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from runtime import storage as storage_module
from runtime.errors import ObjectCorrupt, ObjectExists, ObjectMissing, StorageUnavailable
from runtime.settings import load_settings
from runtime.storage import Storage, sha256_of


@pytest.fixture
def storage(bucket_settings):
    return Storage(bucket_settings)


@pytest.fixture
def bucket_settings(object_store, bucket):
    return load_settings(
        s3_endpoint_url=object_store.endpoint_url,
        s3_access_key_id=object_store.access_key_id,
        s3_secret_access_key=object_store.secret_access_key,
        s3_bucket=bucket,
    )


@pytest.fixture
def put(storage, tmp_path):
    def put(key, content, **more):
        path = tmp_path / hashlib.sha256(content).hexdigest()
        path.write_bytes(content)
        storage.put_new(key, path, sha256=sha256_of(path), content_type='application/pdf', **more)

    return put


def test_a_key_is_written_once(put, storage):
    put('jobs/a/parts/0', b'first', metadata={'input-hash': 'abc'})
    with pytest.raises(ObjectExists):
        put('jobs/a/parts/0', b'second')
    assert b''.join(storage.open('jobs/a/parts/0')) == b'first'
    assert storage.head('jobs/a/parts/0').metadata['input-hash'] == 'abc'


def test_of_many_writers_exactly_one_wins(put, storage):
    def attempt(number):
        try:
            put('jobs/a/parts/1', b'writer %d' % number)
        except ObjectExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1


def test_the_server_refuses_bytes_that_do_not_match_their_checksum(storage, tmp_path):
    path = tmp_path / 'body'
    path.write_bytes(b'these bytes')
    wrong = hashlib.sha256(b'other bytes').hexdigest()
    with pytest.raises(StorageUnavailable):
        storage.put_new('jobs/a/parts/2', path, sha256=wrong, content_type='application/pdf')
    with pytest.raises(ObjectMissing):
        storage.head('jobs/a/parts/2')


def test_fetch_refuses_other_bytes_than_recorded_and_leaves_no_file(put, storage, tmp_path):
    put('jobs/a/parts/3', b'content')
    with pytest.raises(ObjectCorrupt):
        storage.fetch('jobs/a/parts/3', tmp_path / 'got', sha256='0' * 64)
    assert not (tmp_path / 'got').exists()


def test_a_range_is_streamed(put, storage):
    put('jobs/a/result', bytes(range(256)))
    assert b''.join(storage.open('jobs/a/result', start=10, end=19)) == bytes(range(10, 20))


def test_a_large_object_goes_up_in_parts_and_is_written_once(put, storage, monkeypatch):
    monkeypatch.setattr(storage_module, 'SINGLE_PUT_BYTES', 1024)
    monkeypatch.setattr(storage_module, 'UPLOAD_PART_BYTES', 5 * storage_module.MIB)
    content = b'0123456789abcdef' * (11 * storage_module.MIB // 16)
    put('jobs/a/large', content)
    assert b''.join(storage.open('jobs/a/large')) == content
    with pytest.raises(ObjectExists):
        put('jobs/a/large', content)
    assert storage.abort_stale_uploads(before=datetime.now(UTC) + timedelta(days=1)) == 0


def test_keys_are_listed_in_pages(put, storage):
    for number in range(5):
        put(f'jobs/b/{number}', b'x')
    first = storage.keys('jobs/b/', limit=3)
    rest = storage.keys('jobs/b/', after=first[-1].key)
    assert [item.key for item in [*first, *rest]] == [f'jobs/b/{number}' for number in range(5)]


def test_deleting_what_is_not_there_is_no_error(put, storage):
    put('jobs/c/0', b'x')
    storage.delete(['jobs/c/0', 'jobs/c/1'])
    assert storage.keys('jobs/c/') == []


def test_a_presigned_url_downloads_without_credentials_and_with_a_name(put, storage):
    put('jobs/d/result', b'%PDF-')
    answer = httpx.get(storage.presigned_url('jobs/d/result', seconds=60, filename='a.pdf'))
    assert answer.content == b'%PDF-'
    assert answer.headers['content-disposition'] == 'attachment; filename="a.pdf"'


def test_a_store_that_is_away_is_an_outage_not_an_absence(bucket_settings):
    away = Storage(bucket_settings.model_copy(update={'s3_endpoint_url': 'http://127.0.0.1:9'}))
    with pytest.raises(StorageUnavailable):
        away.head('jobs/a')
    with pytest.raises(StorageUnavailable):
        away.ping()


def test_a_missing_bucket_names_its_setting(bucket_settings):
    name = f'no-such-bucket-{secrets.token_hex(4)}'
    other = Storage(bucket_settings.model_copy(update={'s3_bucket': name}))
    with pytest.raises(StorageUnavailable, match='FANFOLD_S3_BUCKET'):
        other.ping()
    other.ensure_bucket(retention_days=37)
    other.ping()
    other.ensure_bucket(retention_days=37)
    other._client.delete_bucket(Bucket=name)


def test_a_full_disk_is_not_an_outage_of_the_store(put, storage):
    put('jobs/e', b'x')
    sha256 = hashlib.sha256(b'x').hexdigest()
    with pytest.raises(OSError, match='No space left'):
        storage.fetch('jobs/e', Path('/dev/full'), sha256=sha256)
    with pytest.raises(FileNotFoundError):
        storage.fetch('jobs/e', Path('/no/such/folder/file'), sha256=sha256)


@pytest.mark.parametrize('error', [ConnectionResetError(), TimeoutError(), socket.gaierror(), ssl.SSLError()])
def test_a_network_that_fails_is_an_outage_of_the_store(storage, error):
    with pytest.raises(StorageUnavailable), storage_module._storage_errors('jobs/f'):
        raise error
