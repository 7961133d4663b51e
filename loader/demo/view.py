"""The views of a running demo: a live one for a terminal, one line a second elsewhere."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from loader.commands.output import printable
from loader.demo import words
from loader.demo.demo import Wish
from loader.demo.progress import Dead, Progress
from loader.demo.publisher import Published

_CHANGES = 7
_LETTERS = 3


class PlainView:
    """Lines, one a second; changes and dead letters as they happen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0.0
        self._changes = 0
        self._letters = 0

    def say(self, text: str) -> None:
        """One step."""
        self._print(text)

    def begin(self, wish: Wish) -> None:
        """Says what will be seen."""
        self._print(f"Publishing {wish.rate:,.0f} messages a second for {wish.seconds:g} s.\n")

    def show(self, published: Published, progress: Progress, seconds: float) -> None:
        """News at once, figures each second."""
        for one in progress.changes[self._changes :]:
            self._print(f"       {words.change(one)}")
        self._changes = len(progress.changes)
        for letter in progress.dead[self._letters :]:
            self._print(f"       ! dead letter {_letter(letter)}")
        self._letters = len(progress.dead)
        if seconds - self._shown >= 1.0:
            self._shown = seconds
            ages = progress.all_ages()
            self._print(
                f"{seconds:4.0f} s  published {published.messages:,}  loaded {progress.loaded:,}"
                f"  age p50 {words.age(ages.quantile(0.5))}, p99 {words.age(ages.quantile(0.99))}"
            )

    def end(self) -> None:
        """An empty line before the results."""
        self._print("")

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class LiveView:
    """Redraws itself four times a second below the lines that were said."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._wish = Wish(1, 1)
        self._rates: dict[str, tuple[float, int, float]] = {}

    def say(self, text: str) -> None:
        """One step."""
        self._console.print(Text(text, style="" if text.startswith(" ") else "bold"))

    def begin(self, wish: Wish) -> None:
        """Starts to draw."""
        self._wish = wish
        self._console.print()
        # What stands there in the end says more than an empty place: it is not wiped out.
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()

    def show(self, published: Published, progress: Progress, seconds: float) -> None:
        """Draws."""
        if self._live is not None:
            self._live.update(self._draw(published, progress, seconds), refresh=True)

    def end(self) -> None:
        """Leaves the last picture standing."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._console.print()

    def _rate(self, name: str, count: int) -> str:
        """Of the last second or so, that is what a rate on a screen is taken for."""
        now = time.monotonic()
        since, before, rate = self._rates.get(name, (now, count, 0.0))
        if now - since >= 1.0:
            rate = (count - before) / (now - since)
            self._rates[name] = (now, count, rate)
        else:
            self._rates.setdefault(name, (now, count, 0.0))
        return f"{rate:,.0f}/s"

    def _draw(self, published: Published, progress: Progress, seconds: float) -> Group:
        parts: list[RenderableType] = [self._head(published, progress, seconds), Text(), self._tables(progress)]
        if progress.changes:
            parts += [Text(), Text("Schema changes (and the event that asked first)", style="bold")]
            earlier = len(progress.changes) - _CHANGES
            if earlier > 0:
                parts.append(Text(f"  … {earlier} before these", style="dim"))
            for one in progress.changes[-_CHANGES:]:
                style = "yellow" if one.variant else "green"
                parts.append(Text("  " + words.change(one), style=style, no_wrap=True, overflow="ellipsis"))
        if progress.dead:
            parts += [Text(), Text("Dead letters", style="bold")]
            for letter in progress.dead[-_LETTERS:]:
                parts.append(Text("  ! " + _letter(letter), style="red", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _head(self, published: Published, progress: Progress, seconds: float) -> Group:
        wish = self._wish
        done = published.messages >= wish.messages
        ages = progress.all_ages()
        line = Table.grid(padding=(0, 2))
        waiting = max(0, published.messages - progress.settled)
        state = "publishing" if seconds < wish.seconds and not done else ("draining" if waiting else "done")
        bar = ProgressBar(total=wish.messages, completed=published.messages, width=24)
        line.add_row(Text(f"{seconds:5.1f} s", style="bold"), bar, Text(state, style="bold cyan"))
        figures = Table.grid(padding=(0, 2))
        figures.add_row(
            f"published [b]{published.messages:,}[/]",
            f"loaded [b]{progress.loaded:,}[/]",
            f"duplicates [b]{progress.duplicates:,}[/]",
            f"dead letters [b]{progress.dead_letters:,}[/]",
            f"on the way [b]{waiting:,}[/]",
        )
        figure = Text.assemble(
            "publish to commit: p50 ",
            (words.age(ages.quantile(0.5)), "bold"),
            ", p99 ",
            (words.age(ages.quantile(0.99)), "bold"),
        )
        return Group(line, figures, figure)

    def _tables(self, progress: Progress) -> Padding:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("TABLE", no_wrap=True)
        for title in ("ROWS", "RATE", "AGE P50", "P99"):
            table.add_column(title, justify="right", no_wrap=True)
        for name in sorted(progress.rows, key=lambda name: name.split("__")):
            ages = progress.ages.get(name)
            table.add_row(
                Text(printable(words.short_name(name)), style="dim" if "__" in name else ""),
                f"{progress.rows[name]:,}",
                self._rate(name, progress.rows[name]),
                words.age(ages.quantile(0.5)) if ages else "",
                words.age(ages.quantile(0.99)) if ages else "",
            )
        return Padding(table, 0)


def _letter(letter: Dead) -> str:
    return printable(f"{letter.event_id}: {letter.detail}")
