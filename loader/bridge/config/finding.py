"""What is wrong or doubtful in a configuration, with its place; all of it is told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from loader.bridge.config.model import Place
from loader.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark. An error keeps the file from being run; a warning is doubtful, a note good to know."""

    severity: Literal["error", "warning", "note"]
    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.text}"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By place, each once: a block that stands for several pipelines is looked at for each of them."""
    return sorted(dict.fromkeys(findings), key=lambda finding: (finding.place.line, finding.place.column))


class InvalidConfiguration(ConfigurationError):
    """The file cannot be run (exit code 78). Its text names every error."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = in_order(findings)
        errors = [finding for finding in self.findings if finding.severity == "error"]
        super().__init__("; ".join(f"{finding.place}: {finding.text}" for finding in errors))


class Findings:
    """Collects findings while a file is read."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def error(self, place: Place, text: str) -> None:
        """Note what keeps the file from being run."""
        self.all.append(Finding("error", place, text))

    def warn(self, place: Place, text: str) -> None:
        """Note what is doubtful."""
        self.all.append(Finding("warning", place, text))

    def note(self, place: Place, text: str) -> None:
        """Note what is good to know."""
        self.all.append(Finding("note", place, text))

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(finding.severity == "error" for finding in self.all)

    def check(self) -> None:
        """Raises InvalidConfiguration if there is an error."""
        if self.failed:
            raise InvalidConfiguration(self.all)


def allowed(name: str, names: Iterable[str]) -> str:
    """` (did you mean X?); allowed: A, B, C`, for an error about a name that is none of `names`."""
    known = sorted(names)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{guess} (allowed: {', '.join(known)})" if known else f"{guess} (there is none)"
