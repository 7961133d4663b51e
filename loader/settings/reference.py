"""The settings as a reference for people: rows with name, type, value, default and meaning, and a Markdown table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from loader.settings.declaration import SECRETS, Settings
from loader.settings.sizes import format_size

BEGIN = "<!-- settings: begin (renewed by `loader settings --write README.md`) -->"
END = "<!-- settings: end -->"


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting. `value` and `default` are texts; empty when unset, `set` for a secret that has a value."""

    name: str
    value: str
    default: str
    secret: bool
    description: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def entries(settings: Settings | None = None) -> list[Entry]:
    """Every setting in the order of its declaration, with the values of `settings` or the defaults."""
    return [
        Entry(
            name=f"LOADER_{name.upper()}",
            value=_text(name, getattr(settings, name) if settings else field.default),
            default=_text(name, field.default),
            secret=name in SECRETS,
            description=_description(field),
        )
        for name, field in Settings.model_fields.items()
    ]


def markdown() -> str:
    """The reference as a Markdown table."""
    lines = ["| Setting | Default | Meaning |", "|---|---|---|"]
    for entry in entries():
        default = f"`{entry.default}`" if entry.default else "–"
        lines.append(f"| `{entry.name}` | {default} | {entry.description.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def renew(document: str) -> str:
    """The document with the table between its markers renewed. Raises ValueError if it has no markers."""
    head, begin, rest = document.partition(BEGIN)
    _old, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{markdown()}{END}{tail}"


def _description(field: FieldInfo) -> str:
    assert field.description, "every setting says why it is there"
    return field.description


def _text(name: str, value: object) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, SecretStr):
        return "set" if value.get_secret_value() else ""
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith("_bytes") and isinstance(value, int):
        return format_size(value).replace(" ", "")
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
