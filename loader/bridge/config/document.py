"""The reference of blocks, stages, formats and functions as Markdown, made from their own declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loader.bridge.condition.functions import FUNCTIONS
from loader.bridge.condition.nodes import ROOTS
from loader.bridge.config import blocks
from loader.bridge.config.defaults import shown
from loader.bridge.config.endpoints import GUARANTEED, KINDS
from loader.bridge.stages.registry import kinds
from loader.bridge.stages.stage import Option


def markdown() -> str:
    """The whole reference."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The bridge's file"
    yield ""
    yield "Made from the declarations by `loader bridge reference`; a change belongs there."
    yield ""
    yield 'Texts may hold `${env("NAME")}`; values may be `env("NAME")`, `env("NAME", "default")`,'
    yield '`secret("env:NAME")` or `secret("file:/path")`. Durations are `250ms`, `30s`, `5m`, `1h`;'
    yield "sizes `16MiB`, `10MB`. A relative path of a file to read is looked for in the working directory, then beside"
    yield "the HCL file; a file to write is in the working directory. A secret's file has an absolute path."
    yield ""
    yield from _block("bridge { … }", "At most one.", blocks.BRIDGE)
    for kind, options in KINDS.items():
        yield from _block(f'endpoint "{kind}" "NAME" {{ … }}', "A named place.", options)
    yield "Properties of librdkafka that cannot be set: " + ", ".join(f"`{name}`" for name in GUARANTEED) + "."
    yield ""
    yield from _block('pipeline "NAME" { … }', "From one source through stages to sinks.", blocks.PIPELINE)
    yield from _block('mirror "NAME" { … }', "Both ways between two endpoints, one pipeline each.", blocks.MIRROR)
    yield from _block('replicate "NAME" { … }', "One source to several endpoints, one pipeline each.", blocks.REPLICATE)
    yield from _block('lookup "NAME" { … }', "Keyed state, with one block `http`, `sql` or `file`.", blocks.LOOKUP)
    for kind, options in blocks.LOOKUP_KINDS.items():
        yield from _block(f"{kind} {{ … }} in a lookup", "", options)
    for kind, options in blocks.FORMATS.items():
        if options:
            yield from _block(f'format "{kind}" {{ … }} in a pipeline', "", options)
    yield from _block('test "NAME" { … }', "Run by `loader bridge test`.", blocks.TEST)
    yield "# Stages"
    yield ""
    for name, stage in kinds().items():
        if name != "trail":
            yield from _block(f'stage "{name}" {{ … }}', stage.summary, stage.options)
    yield "# Expressions"
    yield ""
    yield 'Written as they are in HCL (`when = payload.country == "FR" && payload.took_ms > 5`), or as a text, which '
    yield "may also say `and`, `or`, `not`, `in`. Names: " + ", ".join(f"`{root}`" for root in ROOTS) + "; a lookup is "
    yield "read by `lookup.NAME[key].field`. What is not there is null. `==` converts nothing; `<` holds between two "
    yield "numbers or two texts only; a condition holds when it is true. Only what reads `payload` decodes it."
    yield ""
    yield "| Function | Meaning |"
    yield "|---|---|"
    for function in FUNCTIONS.values():
        yield f"| `{function.usage}` | {function.help} |"


def _block(title: str, summary: str, options: Iterable[Option]) -> Iterator[str]:
    yield f"## `{title}`"
    yield ""
    if summary:
        yield summary
        yield ""
    listed = list(_rows(options, ""))
    if listed:
        yield "| Option | Takes | Default | Meaning |"
        yield "|---|---|---|---|"
        yield from listed
        yield ""


def _rows(options: Iterable[Option], prefix: str) -> Iterator[str]:
    for option in options:
        default = "required" if option.required else shown(option.default) if option.default != "" else "–"
        takes = option.takes.removeprefix("one of ").replace("|", "\\|")
        help = option.help + (" Only by reference." if option.secret else "")
        yield f"| `{prefix}{option.name}` | {takes} | {default} | {help.replace('|', chr(92) + '|')} |"
        yield from _rows(option.inner, f"{prefix}{option.name}.")
