"""Every error Fanfold raises on purpose, and the problem types it tells clients.

    FanfoldError
    ├── ConfigurationError        an operator's mistake; the message names the setting
    ├── Retryable                 the surroundings failed; the same work may succeed later
    │   ├── StorageUnavailable
    │   └── BrokerUnavailable
    ├── Permanent                 trying again cannot help
    │   ├── Refusal               the job's own content is at fault; carries a Problem
    │   └── ConflictingCompletion a part was already completed with another input hash
    ├── UnknownJob                no job has that id
    ├── UnknownPart               no part has that key
    ├── JobEnded                  a running job was expected
    ├── ObjectMissing             no object under that key
    ├── ObjectExists              a conditional put met an object under its key
    └── ObjectCorrupt             bytes that do not match their recorded checksum

For a worker only Retryable and Permanent matter. The API maps a Problem to
`application/problem+json` (RFC 9457); a failed job carries the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

PROBLEM_PREFIX: Final = 'urn:fanfold:'

#: name → title. A problem's `type` is PROBLEM_PREFIX + name and never changes its meaning.
PROBLEM_TITLES: Final = {
    # what a request can be refused for
    'invalid-request': 'The request is not valid',
    'invalid-json': 'The body is not valid JSON',
    'unknown-field': 'The request has a field that does not exist',
    'unsupported-media-type': 'The body is of a media type that this service does not take',
    'body-too-large': 'The body is larger than this service accepts',
    'too-many-files': 'The job has more files than this service accepts',
    'too-many-documents': 'The job has more documents than this service accepts',
    'too-many-records': 'The job has more records than this service accepts',
    'queue-full': 'Too many unfinished jobs',
    'idempotency-key-reused': 'The idempotency key belongs to another request',
    'not-found': 'There is nothing here',
    'method-not-allowed': 'This resource does not support that method',
    'not-ready': 'The result is not ready',
    'conflict': "The job's state does not allow this",
    'expired': 'The job has expired',
    'range-not-satisfiable': 'The range lies outside the result',
    'unavailable': 'A service that Fanfold depends on is away',
    'internal-error': 'An error on our side',
    # what a job's content can be refused for, at submission or while rendering
    'file-name-invalid': 'A file name leads outside the job',
    'file-missing': 'A file that the job names is not among its files',
    'invalid-encoding': 'A file is not valid UTF-8',
    'not-html': 'The body is empty or not HTML',
    'pdf-invalid': 'A PDF cannot be read',
    'records-invalid': 'The records cannot be read',
    'template-syntax': 'The template has a syntax error',
    'template-error': 'The template failed on a record',
    'record-field-missing': 'A record lacks a field that the template uses',
    'nothing-to-print': 'The job has nothing to print',
    'render-error': 'WeasyPrint could not render a document',
    # what can happen to a job
    'memory-limit': 'A part needed more memory than it may use',
    'cpu-limit': 'A part needed more CPU time than it may use',
    'wall-limit': 'A part took longer than it may',
    'child-died': 'A rendering process was killed',
    'lost-too-often': 'A part was lost too often',
    'storage-unavailable': 'The object storage was away for too long',
    'zygote-unavailable': 'Rendering processes could not be started',
    'host-failed': 'A host lacked what it takes to work on a part',
    'deadline-exceeded': 'The job did not finish before its deadline',
    'input-missing': 'What the job was submitted with is gone',
    'merge-error': 'The painted parts could not be merged',
    'part-object-damaged': 'A painted part stayed missing or damaged',
    'page-count-mismatch': 'The merged PDF does not have the pages of its parts',
    'advance-failed': 'The job could not be moved to its next step',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why something did not work, as clients see it.

    `name` is a key of PROBLEM_TITLES; `extra` holds members such as `document`, `record`, `line`,
    `part`, `field`, `valid` (all optional, JSON values).
    """

    name: str
    detail: str
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in PROBLEM_TITLES:
            raise ValueError(f'unknown problem {self.name!r}')

    def to_json(self) -> dict[str, Any]:
        return {
            'type': PROBLEM_PREFIX + self.name,
            'title': PROBLEM_TITLES[self.name],
            'detail': self.detail,
            **self.extra,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Problem:
        extra = {key: item for key, item in value.items() if key not in {'type', 'title', 'detail'}}
        return cls(
            name=str(value['type']).removeprefix(PROBLEM_PREFIX),
            detail=str(value['detail']),
            extra=extra,
        )


class FanfoldError(Exception):
    """Root of all errors raised on purpose."""


class ConfigurationError(FanfoldError):
    """A setting is missing or wrong; the message names it."""


class Retryable(FanfoldError):
    """The surroundings failed, not the work."""


class StorageUnavailable(Retryable):
    """The object storage did not answer, or answered with a server error."""


class BrokerUnavailable(Retryable):
    """Redis did not answer."""


class Permanent(FanfoldError):
    """The same work would fail again."""


class Refusal(Permanent):
    """The content of a job is at fault."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class ConflictingCompletion(Permanent):
    """A part was already completed, from another input."""


class UnknownJob(FanfoldError):
    """No job has that id, or it is another tenant's."""


class UnknownPart(FanfoldError):
    """No part has that key."""


class JobEnded(FanfoldError):
    """The job is no longer running, so it takes no further batch."""


class ObjectMissing(FanfoldError):
    """There is no object under that key."""


class ObjectExists(FanfoldError):
    """A conditional put met an object that is already there."""


class ObjectCorrupt(FanfoldError):
    """The bytes of an object do not match the checksum recorded for it."""
