"""The views of a running demo: a live one for a terminal, one line a second elsewhere."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from loader.commands.output import printable
from loader.demo import words
from loader.demo.demo import Wish
from loader.demo.progress import Dead, Progress
from loader.demo.publisher import Published

_CHANGES = 12
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

    def show(self, published: Published, progress: Progress, seconds: float, publishing: bool) -> None:
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
                f"{seconds:4.0f} s  published {published.total:,}  loaded {progress.loaded:,}"
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

    def show(self, published: Published, progress: Progress, seconds: float, publishing: bool) -> None:
        """Draws."""
        if self._live is not None:
            self._live.update(self._draw(published, progress, seconds, publishing), refresh=True)

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
        return f"{rate:,.0f}"

    def _draw(self, published: Published, progress: Progress, seconds: float, publishing: bool) -> Group:
        parts: list[RenderableType] = [
            self._head(published, progress, seconds, publishing),
            Text(),
            self._tables(progress),
        ]
        letters = progress.dead[-_LETTERS:]
        # Title and empty line above the changes, and a last line for the cursor.
        room = self._console.height - 7 - len(progress.events) - (2 + len(letters) if letters else 0) - 3
        shown = progress.changes[-max(3, min(room, _CHANGES)) :]
        if shown:
            title = f"Schema changes: {len(progress.changes)}, and the event that first asked for each"
            parts += [Text(), Text(title, style="bold")]
            for one in shown:
                parts.append(_line("  " + words.change(one), "yellow" if one.variant else "green"))
        if letters:
            parts += [Text(), Text("Dead letters", style="bold")]
            for letter in letters:
                parts.append(_line("  ! " + _letter(letter), "red"))
        return Group(*parts)

    def _head(self, published: Published, progress: Progress, seconds: float, publishing: bool) -> Group:
        wish = self._wish
        ages = progress.all_ages()
        line = Table.grid(padding=(0, 2))
        waiting = progress.waiting(published)
        state = "publishing" if publishing else ("loading the rest" if waiting else "all settled")
        bar = ProgressBar(total=wish.messages, completed=published.messages, width=24)
        line.add_row(Text(f"{seconds:5.1f} s", style="bold"), bar, Text(state, style="bold cyan"))
        figures = Table.grid(padding=(0, 2))
        figures.add_row(
            f"published [b]{published.total:,}[/]",
            f"loaded [b]{progress.loaded:,}[/]",
            f"duplicates [b]{progress.duplicates:,}[/]",
            f"dead letters [b]{len(progress.dead):,}[/]",
            f"on the way [b]{waiting:,}[/]",
        )
        figure = Text.assemble(
            "publish to commit: p50 ",
            (words.age(ages.quantile(0.5)), "bold"),
            ", p99 ",
            (words.age(ages.quantile(0.99)), "bold"),
        )
        return Group(line, figures, figure)

    def _tables(self, progress: Progress) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("TABLE", no_wrap=True)
        for title in ("ROWS", "ROWS/S", "CHILD ROWS", "AGE P50", "P99"):
            table.add_column(title, justify="right", no_wrap=True)
        for name in sorted(progress.events):
            ages = progress.ages.get(name)
            # Child tables come one by one in the end: here the picture must fit on 24 lines.
            below = sum(rows for table, rows in progress.rows.items() if table.startswith(f"{name}__"))
            table.add_row(
                Text(printable(name), style="cyan"),
                f"{progress.rows.get(name, 0):,}",
                self._rate(name, progress.rows.get(name, 0)),
                f"{below:,}" if below else "",
                words.age(ages.quantile(0.5)) if ages else "",
                words.age(ages.quantile(0.99)) if ages else "",
            )
        return table


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _letter(letter: Dead) -> str:
    return printable(f"{letter.event_id}: {letter.detail}")
