"""Where the channel goes."""

from __future__ import annotations

import google.auth
import google.auth.exceptions
import pytest

from loader.errors import ConfigurationError
from loader.pull import channel
from loader.pull import protocol as pb


@pytest.mark.parametrize("value", ["localhost", "http://localhost:8085", "localhost:", ":8085", "localhost:port"])
def test_an_emulator_that_is_no_host_and_port_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", value)
    with pytest.raises(ConfigurationError, match=r"PUBSUB_EMULATOR_HOST is .*host:port"):
        channel.open_channel()


def test_an_empty_emulator_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", " ")
    assert channel.emulator() is None


def test_missing_credentials_are_a_configuration_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(scopes: list[str]) -> None:
        raise google.auth.exceptions.DefaultCredentialsError("none")

    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(google.auth, "default", nothing)
    with pytest.raises(ConfigurationError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        channel.open_channel()


def test_every_call_of_the_stub_has_a_method_and_a_path() -> None:
    with channel.open_channel("127.0.0.1:1") as opened:
        stub = channel.Stub(opened)
        for name, (path, request, _) in channel._CALLS.items():
            assert path.rpartition("/")[2].lower() == name.replace("_", "")
            with pytest.raises(channel.grpc.RpcError) as raised:
                getattr(stub, name)(request(), timeout=5)
            assert channel.fault(raised.value)[0] is channel.grpc.StatusCode.UNAVAILABLE


def test_an_error_without_a_status_is_unknown() -> None:
    assert channel.fault(channel.grpc.RpcError("odd"))[0] is channel.grpc.StatusCode.UNKNOWN
    assert pb.PubsubMessage.DESCRIPTOR.full_name == "google.pubsub.v1.PubsubMessage"
