"""Scratch folders go with their process, also when it is killed."""

import subprocess
import sys

from runtime.scratch import ScratchFolder

HOLD = """
import sys
from pathlib import Path
from runtime.scratch import ScratchFolder
folder = ScratchFolder(Path(sys.argv[1]), prefix='worker-')
(folder.path / 'part.pdf').write_bytes(b'%PDF-')
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_nothing_for_long(tmp_path):
    with subprocess.Popen(
        [sys.executable, '-c', HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        left = process.stdout.readline().strip()
        beside = ScratchFolder(tmp_path, prefix='worker-')
        assert left in map(str, tmp_path.glob('worker-*/')), 'the folder of a living process stays'
        process.kill()
    after = ScratchFolder(tmp_path, prefix='worker-')
    assert set(tmp_path.glob('worker-*/')) == {beside.path, after.path}
    beside.remove()
    after.remove()
    assert not list(tmp_path.glob('worker-*/'))
