"""References to environment variables and secrets: kept as written, resolved when an endpoint starts, never printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from loader.bridge.config.model import Place
from loader.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Variable:
    """One `env("NAME")`, `secret("env:NAME")` or `secret("file:/path")`."""

    kind: Literal["env", "file"]
    target: str
    default: str | None = None
    secret: bool = False

    def __str__(self) -> str:
        if not self.secret:
            return f'env("{self.target}")' if self.default is None else f'env("{self.target}", "{self.default}")'
        return f'secret("{self.kind}:{self.target}")'


@dataclass(frozen=True, slots=True)
class Reference:
    """A text of which some parts stand elsewhere. Equal if it says the same, wherever it stands in the file."""

    parts: tuple[str | Variable, ...]
    place: Place = field(compare=False)
    file: bool = False
    """It is the path of a file to read."""

    @property
    def secret(self) -> bool:
        """Whether its value must not be shown."""
        return any(isinstance(part, Variable) and part.secret for part in self.parts)

    @property
    def targets(self) -> tuple[Variable, ...]:
        """The variables it needs."""
        return tuple(part for part in self.parts if isinstance(part, Variable))

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return str(self.parts[0])
        return '"' + "".join(f"${{{part}}}" if isinstance(part, Variable) else part for part in self.parts) + '"'

    def resolve(self, environ: Mapping[str, str]) -> str:
        """Its text. Raises ConfigurationError that names the place, the variable or file, and what to do."""
        text = "".join(part if isinstance(part, str) else self._read(part, environ) for part in self.parts)
        return beside(text, self.place) if self.file else text

    def secrets(self, environ: Mapping[str, str]) -> list[str]:
        """What of its text must not be shown: all of it, and each secret in it alone, for a password shows up without
        the address that it is written into. None of what cannot be resolved here."""
        found = []
        for part in self.targets:
            if part.secret:
                try:
                    found.append(self._read(part, environ))
                except ConfigurationError:
                    continue  # it belongs to what runs elsewhere, or else is told by who needs it
        return [*found, *([self.resolve(environ)] if found and not unset(self, environ) else [])]

    def _read(self, variable: Variable, environ: Mapping[str, str]) -> str:
        if variable.kind == "env":
            # Empty counts as unset: compose and Terraform write an empty variable for each value that is missing.
            text = environ.get(variable.target) or variable.default
            if text is None:
                raise ConfigurationError(f"{self.place}: {variable} is not set; set the variable {variable.target}")
            return text
        try:
            # Editors and `echo` end a file with a line break that is no part of the secret.
            return Path(variable.target).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise ConfigurationError(f"{self.place}: {variable} cannot be read: {reason}") from None


def beside(path: str, place: Place) -> str:
    """Where a file that the HCL file names is read: a relative path is looked for in the working directory, and then
    beside the HCL file."""
    other = Path(place.file).parent / path
    return str(other) if path not in ("", "-") and not Path(path).exists() and other.exists() else path


def resolve(value: Any, environ: Mapping[str, str] | None = None) -> Any:
    """`value` (an option, or all options of a block) with each Reference in it replaced by its text.

    Raises ConfigurationError, as `Reference.resolve` does."""
    environ = os.environ if environ is None else environ
    if isinstance(value, Reference):
        return value.resolve(environ)
    if isinstance(value, Mapping):
        return {name: resolve(each, environ) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(resolve(each, environ) for each in value)
    return value


def secrets(value: Any, environ: Mapping[str, str]) -> list[str]:
    """Every text in `value` that no line may show, as far as it is known here."""
    if isinstance(value, Reference):
        return value.secrets(environ)
    if isinstance(value, Mapping):
        return [each for one in value.values() for each in secrets(one, environ)]
    if isinstance(value, list | tuple):
        return [each for one in value for each in secrets(one, environ)]
    return []


def unset(value: Any, environ: Mapping[str, str]) -> list[Reference]:
    """References in `value` that cannot be resolved here."""
    if isinstance(value, Reference):
        try:
            value.resolve(environ)
        except ConfigurationError:
            return [value]
        return []
    if isinstance(value, Mapping):
        return [each for one in value.values() for each in unset(one, environ)]
    if isinstance(value, list | tuple):
        return [each for one in value for each in unset(one, environ)]
    return []
