"""Errors that end a command. Each names the thing, the value and what to do about it."""

from __future__ import annotations


class LoaderError(Exception):
    """A fault that ends the command with exit code 1; its text is the one line that the user sees."""

    exit_code = 1


class ConfigurationError(LoaderError):
    """A setting is missing or wrong; exit code 78 (EX_CONFIG of sysexits.h). The text says what to set."""

    exit_code = 78
