"""Many workers at once on one dataset."""

from __future__ import annotations

import random

WORKERS = 8
EVENTS = 4_000


def _drifting(number, chance):
    """An event whose fields come late and change their types: what one worker learns, another contradicts."""
    value = chance.choice([number, str(number), number + 0.5, number % 2 == 0, [number], {"at": number}])
    return {"kind": f"drift_{number % 3}", "number": number, "value": value, f"late_{number % 40}": number}


def _same(found, sent):
    """The value that was sent; an integer may stand in a double column, where it is exact."""
    if type(sent) is int and type(found) is float:
        return found == sent
    return type(found) is type(sent) and found == sent


def test_eight_workers_on_an_empty_database_agree_on_one_schema_and_lose_nothing(worker, database, topic):
    chance = random.Random(8)
    bodies = [_drifting(number, chance) for number in range(EVENTS)]
    topic.publish(bodies)
    workers = [worker(max_bundle_messages=100, window_seconds=0.2) for _ in range(WORKERS)]
    topic.until_settled(100)
    assert all(one.alive for one in workers)
    numbers = [
        number for table in range(3) for (number,) in database.rows(f'select number from "drift_{table}" order by 1')
    ]
    assert sorted(numbers) == list(range(EVENTS))
    assert database.letters() == 0
    # One schema: each version once, the newest names every column that there is.
    assert database.one("select count(*) = count(distinct version) from _dlt_version")
    for table in range(3):
        columns = {
            name
            for (name,) in database.rows(
                "select column_name from information_schema.columns where table_schema = 'events' and table_name = %s",
                (f"drift_{table}",),
            )
        }
        schema = database.one("select schema::jsonb from _dlt_version order by version desc limit 1")
        assert columns == set(schema["tables"][f"drift_{table}"]["columns"])
    # Each value is in the column of its own type.
    for table in range(3):
        names = [
            name
            for (name,) in database.rows(
                "select column_name from information_schema.columns where table_schema = 'events'"
                " and table_name = %s and (column_name = 'value' or column_name like 'value\\_\\_%%') order by 1",
                (f"drift_{table}",),
            )
        ]
        listed = ", ".join(f'"{name}"' for name in names)
        rows = {row[0]: row[1:] for row in database.rows(f'select number, {listed} from "drift_{table}"')}
        child = f"drift_{table}__value"
        lists = dict(
            database.rows(
                f'select r.number, count(*) from "{child}" c join "drift_{table}" r on r._dlt_id = c._dlt_parent_id'
                " group by 1"
            )
        )
        for body in bodies[table::3]:
            found = [value for value in rows[body["number"]] if value is not None]
            if isinstance(body["value"], list):
                assert (found, lists.get(body["number"])) == ([], 1)
            elif isinstance(body["value"], dict):
                assert found == [body["number"]]
            else:
                assert len(found) == 1, body
                assert _same(found[0], body["value"]), (body, found)


def test_a_hundred_bundles_of_one_misfit_kind_cause_one_learning(worker, database, topic, orders):
    one = worker(max_bundle_messages=20)
    topic.publish(orders(20))
    topic.until_count_settled(database, "order", 20)
    topic.publish(orders(2_000, start=20, late_column=1))
    topic.until_count_settled(database, "order", 2_020)
    assert sum("learned schema version" in line for line in one.lines) == 2
