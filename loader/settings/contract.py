"""The schema contract: what happens when an event asks for a new table, a new column or another type.

The words are dlt's (https://dlthub.com/docs/general-usage/schema-contracts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

ContractMode = Literal["evolve", "freeze", "discard_row", "discard_value"]
MODES: tuple[str, ...] = get_args(ContractMode)
ENTITIES = ("tables", "columns", "data_type")


@dataclass(frozen=True, slots=True)
class SchemaContract:
    """One mode for each kind of change; `evolve` everywhere unless the user says otherwise."""

    tables: ContractMode = "evolve"
    columns: ContractMode = "evolve"
    data_type: ContractMode = "evolve"

    @property
    def evolves_all(self) -> bool:
        """True if nothing is ever refused, so that the contract need not be asked."""
        return self.tables == self.columns == self.data_type == "evolve"

    def as_dict(self) -> dict[str, ContractMode]:
        """dlt's own form of the contract."""
        return {"tables": self.tables, "columns": self.columns, "data_type": self.data_type}

    def __str__(self) -> str:
        if self.tables == self.columns == self.data_type:
            return self.tables
        return ",".join(f"{entity}={mode}" for entity, mode in self.as_dict().items())


def parse_contract(value: object) -> SchemaContract:
    """A contract from `freeze` (all three), `columns=freeze,data_type=discard_value`, or the same as a mapping.

    What is not named evolves. Raises ValueError naming the word that is not understood."""
    if isinstance(value, SchemaContract):
        return value
    if isinstance(value, dict):
        pairs = [(str(entity), str(mode)) for entity, mode in value.items()]
    elif isinstance(value, str):
        text = value.strip()
        if "=" not in text:
            return SchemaContract(*[_mode(text)] * 3)
        pairs = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            entity, equals, mode = part.partition("=")
            if not equals:
                raise ValueError(f"{part!r} is not of the form entity=mode")
            pairs.append((entity.strip(), mode.strip()))
    else:
        raise ValueError("must be a text such as columns=freeze,data_type=discard_value")
    modes: dict[str, ContractMode] = {}
    for entity, mode in pairs:
        if entity not in ENTITIES:
            raise ValueError(f"{entity!r} is none of {', '.join(ENTITIES)}")
        if entity in modes:
            raise ValueError(f"{entity!r} is named twice")
        modes[entity] = _mode(mode)
    return SchemaContract(**modes)


def _mode(word: str) -> ContractMode:
    if word not in MODES:
        raise ValueError(f"{word!r} is none of {', '.join(MODES)}")
    return word  # type: ignore[return-value]
