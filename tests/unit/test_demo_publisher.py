from __future__ import annotations

import threading

import grpc
import pytest

from loader.demo.events import Sample
from loader.demo.publisher import Publishing
from loader.demo.worker import environment
from loader.errors import LoaderError


class Refusal(grpc.RpcError, grpc.Call):
    def __init__(self, code):
        self._code = code

    def code(self):
        return self._code

    def details(self):
        return "refused by the test"

    def __getattr__(self, name):
        raise AttributeError(name)


# The abstract methods of a call that the publisher has no use for.
Refusal.__abstractmethods__ = frozenset()


class Service:
    """Answers each publish with the next of `answers`, then with success."""

    def __init__(self, answers=()):
        self.requests = []
        self.answers = list(answers)
        self.called = threading.Event()

    def publish(self, request):
        self.called.set()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.requests.append(request)


def messages(count):
    kinds = ["event", "repeat", "poison"]
    return iter([Sample(f"evt-{number}", b"{}", kinds[number % 3]) for number in range(count)])


def test_each_message_carries_its_event_id_and_is_counted_by_kind():
    service = Service()
    publishing = Publishing(service, "projects/p/topics/t", messages(7), 1e9)
    publishing.run()
    assert publishing.fault is None
    sent = [message for request in service.requests for message in request.messages]
    assert [message.attributes["event_id"] for message in sent] == [f"evt-{number}" for number in range(7)]
    published = publishing.published
    assert (published.messages, published.repeats, published.poison, published.bytes) == (7, 2, 2, 14)


def test_a_request_that_fails_in_passing_is_sent_again_and_counted_once():
    service = Service([Refusal(grpc.StatusCode.UNAVAILABLE)])
    publishing = Publishing(service, "projects/p/topics/t", messages(3), 1e9)
    publishing.run()
    assert publishing.fault is None
    assert publishing.published.messages == 3


def test_a_refusal_ends_the_publishing_with_what_was_confirmed():
    service = Service([None, Refusal(grpc.StatusCode.PERMISSION_DENIED)])
    publishing = Publishing(service, "projects/p/topics/t", messages(5), 20)  # one message a request
    publishing.run()
    assert isinstance(publishing.fault, LoaderError)
    assert "PERMISSION_DENIED" in str(publishing.fault)
    assert publishing.published.messages == 1


def test_publishing_stops_between_requests():
    service = Service()
    publishing = Publishing(service, "projects/p/topics/t", messages(1_000), 0.001)
    publishing.start()
    assert service.called.wait(10)
    publishing.stop()
    publishing.join(10)
    assert not publishing.is_alive()
    assert publishing.published.messages == 1


@pytest.mark.parametrize("name", ["LOADER_TABLE_PREFIX", "PGHOST", "DESTINATION_NAME", "WINDOW_SIZE_SECS"])
def test_the_shells_settings_do_not_reach_the_demos_worker(name):
    made = environment({"LOADER_DATASET": "demo"}, {name: "mine", "PATH": "/bin"})
    assert name not in made
    assert (made["PATH"], made["LOADER_DATASET"]) == ("/bin", "demo")
