"""`loader check`: would `loader run` work here, and if not, what is to be done."""

from __future__ import annotations

import typer

from loader.commands.options import Config, Json


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("check")(check)


def check(config: Config = None, as_json: Json = False) -> None:
    """Test settings, subscription and database.

    Prints a table of findings with what to do about each; changes nothing. Exit code 0 when all is well or works with
    warnings, 1 when something does not work, 78 when a setting is wrong.

    With --json: {"ok": bool, "findings": [{"area", "subject", "status", "found", "advice"}]}, status being ok, warning,
    fault or configuration.

    Examples:

        loader check

        loader check --json | jq '.findings[] | select(.status != "ok")'
    """
    from loader.checks.finding import exit_code
    from loader.checks.survey import survey
    from loader.commands.options import read_settings
    from loader.commands.output import print_json, print_table, printable, terminal

    findings = survey(lambda: read_settings(config))
    code = exit_code(findings)
    if as_json:
        print_json({"ok": code == 0, "findings": [finding.as_dict() for finding in findings]})
    elif terminal():
        print_table(
            ["AREA", "SUBJECT", "STATUS", "FOUND"],
            [(f.area, f.subject, f.status, f.found) for f in findings],
        )
        # Beneath the table and each on a line of its own: a command folded into a narrow column cannot be copied.
        for finding in findings:
            if finding.advice:
                print(f"\nWHAT TO DO about {finding.area}, {finding.subject}:\n{printable(finding.advice)}")
    else:
        print_table(
            ["AREA", "SUBJECT", "STATUS", "FOUND", "WHAT TO DO"],
            [(f.area, f.subject, f.status, f.found, f.advice) for f in findings],
        )
    raise typer.Exit(code)
