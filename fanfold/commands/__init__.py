"""One module a command; each holds a click command named `command`. `fanfold.cli` loads them by name, on demand."""
