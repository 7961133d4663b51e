"""What Pub/Sub does to a subscriber: broken and silent streams, duplicates, lost acks, expired leases, a restart."""

from __future__ import annotations


def test_streams_cut_again_and_again_with_duplicates_lose_and_double_nothing(
    worker, database, topic, orders, assert_loaded
):
    faults = topic.server.faults
    bodies = orders(6_000)
    one = worker()
    for start in range(0, 6_000, 1_000):
        faults.duplicate(200)
        topic.publish(bodies[start : start + 1_000])
        faults.cut_streams("UNAVAILABLE" if start % 2_000 else "INTERNAL")
        faults.refuse("StreamingPull", times=2)
        database.until_count("order", start + 500)
    database.until_count("order", 6_000)
    topic.until_settled()
    assert one.alive
    assert_loaded(database, bodies)


def test_acks_that_are_refused_or_lost_are_sent_again_and_double_nothing(
    worker, database, topic, orders, assert_loaded
):
    faults = topic.server.faults
    bodies = orders(900)
    one = worker()
    faults.refuse("Acknowledge", times=5)
    topic.publish(bodies[:300])
    topic.until_count_settled(database, "order", 300)
    faults.drop_acks()
    topic.publish(bodies[300:600])
    database.until_count("order", 600)
    # A stop ends when its acks are sent, and these are dropped: what comes again is known.
    assert one.stop()[0] == 0
    faults.clear()
    assert topic.counts()["leased"] == 300
    worker()
    faults.expire_leases()
    topic.publish(bodies[600:])
    topic.until_count_settled(database, "order", 900)
    assert_loaded(database, bodies)


def test_leases_that_run_out_while_a_bundle_is_stuck_double_nothing(worker, database, topic, orders, assert_loaded):
    first, more = orders(50), orders(400, start=50)
    one = worker()
    two = worker()
    topic.publish(first)
    topic.until_count_settled(database, "order", 50)
    with database.connect() as connection, connection.transaction():
        connection.execute('lock table events."order" in access exclusive mode')
        topic.publish(more)
        database.until_waiting("loader load")
        for _ in range(3):
            topic.expire_leases()
            topic.until_leased(300)
    topic.until_count_settled(database, "order", 450)
    assert one.alive
    assert two.alive
    assert_loaded(database, first + more)


def test_an_exactly_once_subscription_is_loaded_through_expired_leases(worker, database, topic, orders, assert_loaded):
    subscription = topic.subscribe("exactly-once", enable_exactly_once_delivery=True)
    first, more = orders(50), orders(400, start=50)
    one = worker(subscription=subscription)
    topic.publish(first)
    database.until_count("order", 50)
    with database.connect() as connection, connection.transaction():
        connection.execute('lock table events."order" in access exclusive mode')
        topic.publish(more)
        database.until_waiting("loader load")
        topic.expire_leases()
    topic.until_settled(subscription=subscription)
    assert one.alive
    assert_loaded(database, first + more)


def test_a_pubsub_server_that_starts_again_under_a_kept_database_loses_nothing(
    worker, database, start_topic, orders, assert_loaded
):
    bodies = orders(600)
    topic = start_topic()
    one = worker(topic=topic)
    topic.publish(bodies[:300])
    topic.until_count_settled(database, "order", 300)
    topic.restart()
    topic.publish(bodies[300:])
    topic.until_count_settled(database, "order", 600)
    assert one.alive
    assert_loaded(database, bodies)


def test_a_constant_identity_on_1000_bodies_keeps_one_row_and_999_letters(worker, database, topic, orders):
    topic.publish(orders(1_000), {"event_id": "always-the-same"})
    worker(event_id_attribute="event_id")
    topic.until_settled()
    assert database.count("order") == 1
    assert database.rows("select reason, count(*), count(distinct body) from _dead_letters group by 1") == [
        ("event id reused", 999, 999)
    ]
    [(kept,)] = database.rows('select number from "order"')
    letters = {number for (number,) in database.rows("select (body::jsonb->>'number')::int from _dead_letters")}
    assert letters | {kept} == set(range(1_000))
    assert len(letters) == 999
