"""What can keep the stack from running; each message tells the operator what to do."""

from runtime.errors import FanfoldError


class StackError(FanfoldError):
    """The stack cannot start, or cannot go on."""


class ServerNotFound(StackError):
    """A server is neither installed nor given by URL; the message names the packages that bring it."""


class DataInUse(StackError):
    """Another stack runs in the same data folder."""
