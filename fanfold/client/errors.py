"""What the client raises.

runtime.errors.FanfoldError
└── ClientError
    ├── Unreachable       nothing answers at that address            (also Retryable)
    ├── NotAnAddress      what is given as the address is not an HTTP URL (also ConfigurationError)
    ├── Unavailable       it answers that it cannot serve now        (also Retryable)
    ├── Refused           the request is at fault; carries a Problem (also Permanent)
    ├── JobNotCompleted   the job failed, was cancelled or expired; carries the Job
    ├── WaitedTooLong     the job is not finished after the time given
    ├── NotSendable       what should be submitted cannot be: a file that is missing, too large, …
    └── DownloadBroken    the bytes received are not the whole result
"""

from __future__ import annotations

from fanfold.client.answers import Job, Problem
from runtime.errors import ConfigurationError, FanfoldError, Permanent, Retryable


class ClientError(FanfoldError):
    """Root of what the client raises."""


class Unreachable(ClientError, Retryable):
    """Nothing answers, or what answers is not Fanfold."""


class NotAnAddress(ClientError, ConfigurationError):
    """The message has what was given."""


class Unavailable(ClientError, Retryable):
    """The service answered 429 or 5xx until the client's patience was spent."""

    def __init__(self, problem: Problem) -> None:
        super().__init__('\n'.join(problem.lines()))
        self.problem = problem


class Refused(ClientError, Permanent):
    """The service answered 4xx."""

    def __init__(self, problem: Problem) -> None:
        super().__init__('\n'.join(problem.lines()))
        self.problem = problem


class JobNotCompleted(ClientError):
    """A job that was waited for, or asked for its result, has none."""

    def __init__(self, job: Job) -> None:
        reason = '\n'.join(['', *(f'  {line}' for line in job.failure.lines())]) if job.failure else ''
        super().__init__(f'job {job.id} {"has" if job.status in {"failed", "expired"} else "is"} {job.status}{reason}')
        self.job = job


class WaitedTooLong(ClientError):
    """The job goes on; only the wait ended."""

    def __init__(self, job: Job, seconds: float) -> None:
        super().__init__(f'job {job.id} is still {job.status} after {seconds:g} s')
        self.job = job


class NotSendable(ClientError):
    """The message names the file and the reason."""


class DownloadBroken(ClientError, Retryable):
    """The message says what was received and what was promised."""
