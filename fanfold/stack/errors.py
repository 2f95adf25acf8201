from pathlib import Path


class StackError(Exception):
    pass


class ServerNotFound(StackError):
    pass
