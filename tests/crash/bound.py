"""The command `fanfold`, bound to the process that started it: a killed test run leaves nothing behind."""

import signal

from fanfold.cli import main
from fanfold.stack.spawn import die_with_parent

if __name__ == '__main__':
    die_with_parent(signal.SIGKILL)
    main()
