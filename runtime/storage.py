"""Object storage: named, immutable bytes in one S3 bucket, and the only module that imports boto3.

Objects are written once (`If-None-Match: *`) with an explicit SHA-256 that the server verifies; a
key that exists raises ObjectExists, and the caller decides what that means. Outages raise
StorageUnavailable; whether the caller waits or gives up is its own matter.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import boto3
import botocore.config
import botocore.exceptions

from runtime.errors import ObjectCorrupt, ObjectExists, ObjectMissing, StorageUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from runtime.settings import Settings

MIB: Final = 1024 * 1024
SINGLE_PUT_BYTES: Final = 64 * MIB  # larger objects go up in parts
UPLOAD_PART_BYTES: Final = 16 * MIB
CHUNK_BYTES: Final = 256 * 1024
PUT_TRIES: Final = 5
NETWORK_ERRORS: Final = (ConnectionError, TimeoutError, socket.gaierror, ssl.SSLError)
NETWORK_ERRNOS: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What the store knows about one object; `metadata` keys are lower case."""

    key: str
    size: int
    modified: datetime | None = None
    etag: str = ''
    metadata: dict[str, str] = field(default_factory=dict)


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


@contextmanager
def _storage_errors(key: str) -> Iterator[None]:
    """Map boto3's errors to ours: 404 missing, 412 exists, everything else an outage. Not the local disk's."""
    try:
        yield
    except botocore.exceptions.ClientError as error:
        status = error.response.get('ResponseMetadata', {}).get('HTTPStatusCode', 0)
        code = error.response.get('Error', {}).get('Code', '')
        if code == 'NoSuchBucket':
            raise StorageUnavailable(f'FANFOLD_S3_BUCKET: {error}') from error
        if status == 404:
            raise ObjectMissing(key) from error
        if status == 412:
            raise ObjectExists(key) from error
        raise StorageUnavailable(f'{key}: {error}') from error
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.HTTPClientError) as error:
        raise StorageUnavailable(f'{key}: {error}') from error
    except OSError as error:
        if isinstance(error, NETWORK_ERRORS) or error.errno in NETWORK_ERRNOS:
            raise StorageUnavailable(f'{key}: {error}') from error
        raise


def _conflict(error: StorageUnavailable) -> bool:
    cause = error.__cause__
    return isinstance(cause, botocore.exceptions.ClientError) and (
        cause.response.get('ResponseMetadata', {}).get('HTTPStatusCode') == 409
    )


class Storage:
    """The bucket. Thread-safe; one per process."""

    def __init__(self, settings: Settings) -> None:
        self.bucket = settings.s3_bucket
        self._client = self._connect(settings, settings.s3_endpoint_url)
        public = settings.s3_public_endpoint_url
        self._public_client = self._connect(settings, public) if public else self._client

    @staticmethod
    def _connect(settings: Settings, endpoint: str | None) -> S3Client:
        secret = settings.s3_secret_access_key
        config = botocore.config.Config(
            region_name=settings.s3_region,
            signature_version='s3v4',
            connect_timeout=3,
            read_timeout=10,
            max_pool_connections=32,
            retries={'mode': 'standard', 'total_max_attempts': 2},
            # Newer boto3 adds CRC32 to every request, which some stores refuse; we send SHA-256 ourselves.
            request_checksum_calculation='when_required',
            response_checksum_validation='when_required',
            s3={'addressing_style': 'path' if settings.s3_path_style else 'virtual'},
        )
        client: S3Client = boto3.session.Session().client(
            's3',
            endpoint_url=endpoint,
            aws_access_key_id=settings.s3_access_key_id,
            aws_secret_access_key=secret.get_secret_value() if secret else None,
            config=config,
        )
        return client

    def ensure_bucket(self, *, retention_days: int) -> None:
        """Create the bucket where it is missing, with the back-stop life-cycle rules where the store has them."""
        with _storage_errors(self.bucket):
            try:
                self._client.head_bucket(Bucket=self.bucket)
            except botocore.exceptions.ClientError:
                self._client.create_bucket(Bucket=self.bucket)
        rules: Any = {
            'Rules': [
                {
                    'ID': 'fanfold-backstop',
                    'Status': 'Enabled',
                    'Filter': {'Prefix': 'jobs/'},
                    'Expiration': {'Days': retention_days},
                    'AbortIncompleteMultipartUpload': {'DaysAfterInitiation': 1},
                }
            ]
        }
        try:
            self._client.put_bucket_lifecycle_configuration(Bucket=self.bucket, LifecycleConfiguration=rules)
        except botocore.exceptions.ClientError:
            return  # a store without life-cycle rules: the sweeper alone cleans up

    def ping(self) -> None:
        """Raises StorageUnavailable unless the bucket can be reached."""
        with _storage_errors(self.bucket):
            try:
                self._client.head_bucket(Bucket=self.bucket)
            except botocore.exceptions.ClientError as error:
                raise StorageUnavailable(f'FANFOLD_S3_BUCKET {self.bucket!r}: {error}') from error

    def put_new(
        self, key: str, path: Path, *, sha256: str, content_type: str, metadata: dict[str, str] | None = None
    ) -> None:
        """Write a file under a key that does not exist yet. Raises ObjectExists, StorageUnavailable."""
        for attempt in range(PUT_TRIES):
            try:
                if path.stat().st_size > SINGLE_PUT_BYTES:
                    return self._put_in_parts(key, path, content_type, metadata or {})
                return self._put_at_once(key, path, sha256, content_type, metadata or {})
            except StorageUnavailable as error:
                # 409: another conditional write to the key is under way; the standard answer is to put again.
                if not _conflict(error) or attempt == PUT_TRIES - 1:
                    raise
            except ObjectMissing as error:
                # 404: the upload was aborted by somebody else, as the sweeper does with old ones.
                if attempt == PUT_TRIES - 1:
                    raise StorageUnavailable(f'{key}: upload vanished') from error
        raise AssertionError('unreachable')

    def _put_at_once(self, key: str, path: Path, sha256: str, content_type: str, metadata: dict[str, str]) -> None:
        with _storage_errors(key), path.open('rb') as body:
            self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                Metadata={**metadata, 'sha256': sha256},
                ChecksumSHA256=base64.b64encode(bytes.fromhex(sha256)).decode(),
                IfNoneMatch='*',
            )

    def _put_in_parts(self, key: str, path: Path, content_type: str, metadata: dict[str, str]) -> None:
        with _storage_errors(key):
            upload_id = self._client.create_multipart_upload(
                Bucket=self.bucket,
                Key=key,
                ContentType=content_type,
                Metadata={**metadata, 'sha256': sha256_of(path)},
                ChecksumAlgorithm='SHA256',
            )['UploadId']
            try:
                parts = self._send_parts(key, path, upload_id)
                self._client.complete_multipart_upload(
                    Bucket=self.bucket, Key=key, UploadId=upload_id, MultipartUpload={'Parts': parts}, IfNoneMatch='*'
                )
            except BaseException:
                self._abort(key, upload_id)
                raise

    def _send_parts(self, key: str, path: Path, upload_id: str) -> list[Any]:
        parts: list[Any] = []
        with path.open('rb') as file:
            while chunk := file.read(UPLOAD_PART_BYTES):
                checksum = base64.b64encode(hashlib.sha256(chunk).digest()).decode()
                number = len(parts) + 1
                answer = self._client.upload_part(
                    Bucket=self.bucket,
                    Key=key,
                    UploadId=upload_id,
                    PartNumber=number,
                    Body=chunk,
                    ChecksumSHA256=checksum,
                )
                parts.append({'PartNumber': number, 'ETag': answer['ETag'], 'ChecksumSHA256': checksum})
        return parts

    def _abort(self, key: str, upload_id: str) -> None:
        try:
            self._client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
            return  # the sweeper aborts what is left

    def head(self, key: str) -> StoredObject:
        """Raises ObjectMissing, StorageUnavailable."""
        with _storage_errors(key):
            answer = self._client.head_object(Bucket=self.bucket, Key=key)
        return StoredObject(
            key=key,
            size=answer['ContentLength'],
            modified=answer['LastModified'],
            etag=answer['ETag'],
            metadata={name.lower(): value for name, value in answer['Metadata'].items()},
        )

    def fetch(self, key: str, path: Path, *, sha256: str) -> None:
        """Download into `path`. Raises ObjectMissing, ObjectCorrupt (and leaves no file), StorageUnavailable.

        OSError is the local disk's.
        """
        with _storage_errors(key):
            body = self._client.get_object(Bucket=self.bucket, Key=key)['Body']
            with path.open('wb') as file:
                shutil.copyfileobj(body, file, CHUNK_BYTES)
        if sha256_of(path) != sha256:
            path.unlink()
            raise ObjectCorrupt(f'{key}: SHA-256 differs from the recorded one')

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Stream bytes start … end (inclusive); the request is made before this returns. Raises ObjectMissing."""
        bounds: dict[str, Any] = {}
        if start or end is not None:
            bounds['Range'] = f'bytes={start}-{"" if end is None else end}'
        with _storage_errors(key):
            body: IO[bytes] = self._client.get_object(Bucket=self.bucket, Key=key, **bounds)['Body']  # type: ignore[assignment]
        return _chunks(key, body)

    def presigned_url(self, key: str, *, seconds: int, filename: str, head: bool = False) -> str:
        """A URL that downloads the object, or asks about it, without credentials, for at most `seconds`."""
        return self._public_client.generate_presigned_url(
            'head_object' if head else 'get_object',
            Params={
                'Bucket': self.bucket,
                'Key': key,
                'ResponseContentDisposition': f'attachment; filename="{filename}"',
                'ResponseContentType': 'application/pdf',
            },
            ExpiresIn=seconds,
        )

    def keys(self, prefix: str, *, after: str = '', limit: int = 1_000) -> list[StoredObject]:
        """At most `limit` (≤ 1,000) objects in key order, behind the key `after`."""
        with _storage_errors(prefix):
            answer = self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, StartAfter=after, MaxKeys=limit)
        return [
            StoredObject(key=item['Key'], size=item['Size'], modified=item['LastModified'], etag=item.get('ETag', ''))
            for item in answer.get('Contents', [])
        ]

    def delete(self, keys: list[str]) -> None:
        """Delete objects; a key that does not exist is no error."""
        for start in range(0, len(keys), 1_000):
            batch: Any = [{'Key': key} for key in keys[start : start + 1_000]]
            with _storage_errors(keys[start]):
                self._client.delete_objects(Bucket=self.bucket, Delete={'Objects': batch, 'Quiet': True})

    def abort_stale_uploads(self, *, before: datetime) -> int:
        """Abort multipart uploads under `jobs/` begun before then; how many."""
        with _storage_errors('jobs/'):
            uploads = self._client.list_multipart_uploads(Bucket=self.bucket, Prefix='jobs/').get('Uploads', [])
        stale = [item for item in uploads if item['Initiated'] < before]
        for item in stale:
            self._abort(item['Key'], item['UploadId'])
        return len(stale)


def _chunks(key: str, body: IO[bytes]) -> Iterator[bytes]:
    try:
        with _storage_errors(key):
            while chunk := body.read(CHUNK_BYTES):
                yield chunk
    finally:
        body.close()
