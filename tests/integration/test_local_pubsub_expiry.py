"""The fault that ends leases at once, so that a test of a dead worker need not wait for 60 seconds."""

from __future__ import annotations


def test_expired_leases_are_delivered_again_at_once(pubsub):
    pubsub.publish([b"{}"] * 3)
    first = pubsub.pull()
    assert len(first) == 3
    assert pubsub.pull(wait=False) == []
    pubsub.faults.expire_leases()
    again = pubsub.pull()
    assert {message.message.message_id for message in again} == {message.message.message_id for message in first}
    pubsub.ack(again)
    assert pubsub.counts()["backlog"] == pubsub.counts()["leased"] == 0
