"""The one settings object: read from `FANFOLD_…` variables in a process's main and passed down.

Every limit that a client can meet is named in the error it causes. `docs/settings.md` lists all of
them; a test holds that page against this module.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.errors import ConfigurationError

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
MIB = 1024 * 1024


def usable_cores() -> int:
    """Cores this process may use: its affinity mask, cut down by a cgroup v2 CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    try:
        quota, period = Path('/sys/fs/cgroup/cpu.max').read_text().split()
        if quota != 'max':
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return cores


class Settings(BaseSettings):
    """All settings with their defaults. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix='FANFOLD_', frozen=True, extra='ignore')

    database_url: str = Field('postgresql://fanfold@127.0.0.1:5432/fanfold', description='PostgreSQL 15 or newer')
    redis_url: str = Field('redis://127.0.0.1:6379/0', description='Redis or Valkey, with maxmemory-policy noeviction')
    s3_endpoint_url: str | None = Field(None, description='URL of the S3 service; unset for AWS')
    s3_public_endpoint_url: str | None = Field(
        None, description='URL of the S3 service as clients reach it, for presigned URLs; unset: s3_endpoint_url'
    )
    s3_bucket: str = Field('fanfold', description='bucket for inputs, parts and results')
    s3_region: str = Field('us-east-1', description='region of the bucket')
    s3_access_key_id: str | None = Field(None, description='access key; unset: as boto3 finds credentials')
    s3_secret_access_key: SecretStr | None = Field(None, description='secret key')
    s3_path_style: bool = Field(True, description='address buckets by path; false: by host name')

    max_body_bytes: Positive = Field(64 * MIB, description='largest request body')
    max_files: Positive = Field(1_000, description='most files in a job')
    max_documents: Positive = Field(10_000, description='most documents in a job')
    max_records: Positive = Field(100_000, description='most records in a job')
    max_unfinished_jobs: Positive = Field(1_000, description='most unfinished jobs; beyond it 429')
    default_deadline: Seconds = Field(3_600, description='time a job has, unless it asks for another')
    max_deadline: Seconds = Field(86_400, description='longest deadline a job may ask for')
    default_expires_in: Seconds = Field(86_400, description='how long an ended job is kept, unless it asks for another')
    max_expires_in: Seconds = Field(30 * 86_400, description='longest retention a job may ask for')

    part_attempts: Positive = Field(3, description='tries for a part that fails by its own fault')
    part_losses: Positive = Field(20, description='times a part may be lost to what happens around it')
    lease_seconds: Seconds = Field(15, description='lease of a part; renewed every fifth of it')
    grace_seconds: Seconds = Field(20, description='time a stopping worker gives its parts to finish')
    worker_threads: Positive = Field(
        default_factory=usable_cores, description='parts rendered at once by one worker; default: its cores'
    )
    child_memory_bytes: Positive = Field(2_048 * MIB, description='memory a rendering or merging process may use')
    child_cpu_seconds: Positive = Field(
        900, description='CPU time one document may take to render, or one part to merge; it begins anew with the next'
    )
    child_wall_seconds: Seconds = Field(
        1_200,
        description='wall time one document may take to render, or one part to merge; at most what the job has left',
    )
    window_workers: Positive = Field(4, description='workers that a long document is split for, with `parts: auto`')
    press_memory_bytes: Positive = Field(
        4_096 * MIB,
        description='memory that preparing a long document may use, and any of its windows with what is prepared',
    )
    press_seconds: Positive = Field(600, description='CPU time and wall time that preparing a long document may take')
    window_memory_bytes: Positive = Field(
        2_048 * MIB, description='memory that a window of a long document may use over what is prepared'
    )
    window_cpu_seconds: Positive = Field(
        900, description='CPU time that a window of a long document may take to be laid out, or painted'
    )
    window_wall_seconds: Seconds = Field(
        1_200, description='wall time that a window of a long document may take to be laid out, or painted'
    )
    presses: Positive = Field(2, description='long documents that a worker keeps prepared, beyond those in work')
    press_idle_seconds: Seconds = Field(
        120, description='how long a worker keeps a long document prepared that nobody asks for'
    )
    parked_memory_bytes: Positive = Field(
        2_048 * MIB,
        description='memory of their own that the windows of a worker may hold while they wait to be painted',
    )
    scratch_dir: Path | None = Field(None, description='folder for temporary files; unset: the system one')

    dispatch_window: Positive = Field(16, description='parts of one job that are dispatched at the same time')
    dispatch_total: Positive = Field(
        256,
        description='parts of all jobs that are dispatched at the same time; at least twice the threads of all workers',
    )
    dispatch_seconds: Seconds = Field(0.5, description='longest pause between two looks for due parts')
    resend_seconds: Seconds = Field(10, description='a part that nobody claimed is dispatched again after this')
    relay_seconds: Seconds = Field(0.5, description='longest pause between two looks for events')
    reconcile_seconds: Seconds = Field(2, description='pause between two rounds of the reconciler')
    sweep_seconds: Seconds = Field(300, description='pause between two rounds of the sweeper')
    orphan_grace_seconds: Seconds = Field(7_200, description='age at which an object without a job is removed')
    event_retention_seconds: Seconds = Field(86_400, description='how long sent events are kept')
    expired_retention_seconds: Seconds = Field(7 * 86_400, description='how long the rows of expired jobs are kept')

    log_format: str = Field('auto', description='console, json, or auto: console on a terminal')
    log_level: str = Field('info', description='debug, info, warning or error')

    @field_validator('log_format')
    @classmethod
    def _known_format(cls, value: str) -> str:
        if value not in {'auto', 'console', 'json'}:
            raise ValueError('must be one of: auto, console, json')
        return value

    @field_validator('log_level')
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.lower() not in {'debug', 'info', 'warning', 'error'}:
            raise ValueError('must be one of: debug, info, warning, error')
        return value.lower()

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment. Raises ConfigurationError naming the variable at fault."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        faults = '; '.join(
            f'FANFOLD_{str(item["loc"][0]).upper()}: {item["msg"]}' if item['loc'] else item['msg']
            for item in error.errors()
        )
        raise ConfigurationError(faults) from error
