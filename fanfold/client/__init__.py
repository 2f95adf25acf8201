"""The Python client of a Fanfold service: submit, follow, download.

`Client` is synchronous and safe to share between threads. What it returns are frozen values; what
it raises are the errors of `fanfold.client.errors`.
"""

from fanfold.client.answers import Batch, Count, FieldFault, Job, Part, Plan, Problem
from fanfold.client.client import Client
from fanfold.client.errors import (
    ClientError,
    JobNotCompleted,
    NotAnAddress,
    Refused,
    Unavailable,
    Unreachable,
    WaitedTooLong,
)

__all__ = [
    'Batch',
    'Client',
    'ClientError',
    'Count',
    'FieldFault',
    'Job',
    'JobNotCompleted',
    'NotAnAddress',
    'Part',
    'Plan',
    'Problem',
    'Refused',
    'Unavailable',
    'Unreachable',
    'WaitedTooLong',
]
