"""Whose fault an error is: that of the host, which another try elsewhere may avoid, or that of the work itself."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Final

#: no space, no descriptors, a disk that fails: any work would have met them
HOST_ERRORS: Final = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS,
})  # fmt: skip


def is_of_host(error: BaseException) -> bool:
    """Whether the host is to blame; also for a folder for temporary files that somebody removed."""
    if not isinstance(error, OSError):
        return False
    return error.errno in HOST_ERRORS or (error.errno == errno.ENOENT and not os.path.isdir(tempfile.gettempdir()))
