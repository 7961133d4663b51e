"""The in-memory Pub/Sub server: `python -m loader.local.pubsub_server --port N`, or PubsubServer in a test.

It offers what the commands use (see protocol.py for the methods). It forgets everything when it stops.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc

from loader.local import protocol
from loader.local.broker import Broker, steady_clock
from loader.local.faults import SERVICE as FAULTS
from loader.local.faults import FaultState
from loader.local.refusal import Refusal
from loader.local.services import Publisher, Subscriber
from loader.local.stream import Stream

MAX_BYTES = 2_000_000_000
THREADS = 256
"""Each open stream and each waiting Pull takes one; threads are made when they are needed."""
OPTIONS = [
    # Without this a second server on the same port would start and take half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 32 * 1024 * 1024),
    ("grpc.max_send_message_length", -1),
]


def _encode(response: Any) -> bytes:
    """Deliveries come encoded already."""
    encoded: bytes = response if type(response) is bytes else response.SerializeToString()
    return encoded


class PubsubServer:
    """A server on 127.0.0.1. `port` 0 takes a free one; `endpoint` is what PUBSUB_EMULATOR_HOST wants.

    Raises RuntimeError when the port is taken.
    """

    def __init__(self, port: int = 0, max_bytes: int = MAX_BYTES, clock: Callable[[], int] | None = None) -> None:
        self._broker = Broker(clock or steady_clock(), max_bytes)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="pubsub")
        self._server = grpc.server(self._pool, handlers=self._handlers(), options=OPTIONS)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.endpoint = f"127.0.0.1:{self.port}"

    @property
    def faults(self) -> FaultState:
        """Faults on demand and the server's counts."""
        return self._broker.faults

    def start(self) -> PubsubServer:
        """Begins to answer."""
        self._server.start()
        return self

    def stop(self, grace: float = 1.0) -> None:
        """Ends the streams, lets unary calls finish within `grace` seconds, and forgets everything."""
        self._broker.stop()
        self._server.stop(grace).wait()
        self._pool.shutdown()

    def __enter__(self) -> PubsubServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _handlers(self) -> list[grpc.GenericRpcHandler]:
        publisher, subscriber = Publisher(self._broker), Subscriber(self._broker)
        subscriber_methods = self._unary(subscriber, protocol.SUBSCRIBER_METHODS)
        subscriber_methods["StreamingPull"] = grpc.stream_stream_rpc_method_handler(
            self._streaming_pull,
            request_deserializer=protocol.StreamingPullRequest.FromString,
            response_serializer=_encode,
        )
        faults = {"Call": grpc.unary_unary_rpc_method_handler(self._fault)}
        return [
            grpc.method_handlers_generic_handler(
                protocol.PUBLISHER, self._unary(publisher, protocol.PUBLISHER_METHODS)
            ),
            grpc.method_handlers_generic_handler(protocol.SUBSCRIBER, subscriber_methods),
            grpc.method_handlers_generic_handler(FAULTS, faults),
        ]

    def _unary(self, service: Any, methods: dict[str, tuple[Any, Any]]) -> dict[str, grpc.RpcMethodHandler]:
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._guarded(name, getattr(service, name)),
                request_deserializer=request.FromString,
                response_serializer=_encode,
            )
            for name, (request, _) in methods.items()
        }

    def _guarded(self, name: str, method: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[..., Any]:
        faults = self.faults

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            code = faults.refusal(name)
            if code:
                context.abort(grpc.StatusCode[code], f"{name} refused by a fault")
            try:
                return method(request, context)
            except Refusal as refusal:
                context.abort(grpc.StatusCode[refusal.code], refusal.detail)

        return answer

    def _streaming_pull(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[bytes]:
        code = self.faults.refusal("StreamingPull")
        if code:
            context.abort(grpc.StatusCode[code], "StreamingPull refused by a fault")
        try:
            yield from Stream(self._broker, requests, context).responses()
        except Refusal as refusal:
            context.abort(grpc.StatusCode[refusal.code], refusal.detail)

    def _fault(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return self.faults.call(request)
        except (ValueError, TypeError, KeyError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # abort() does not return


def main(arguments: list[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. Prints one line with the endpoint once it answers."""
    parser = argparse.ArgumentParser(prog="python -m loader.local.pubsub_server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--max-bytes", type=int, default=MAX_BYTES, help="a publish beyond it is refused")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # Millions of messages are live and nothing here makes cycles: collecting would cost time and free nothing.
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    try:
        server = PubsubServer(options.port, options.max_bytes)
    except RuntimeError as error:
        sys.stderr.write(f"port {options.port} is taken: {error}\n")
        return 1
    with server:
        sys.stdout.write(f"listening on {server.endpoint}\n")
        sys.stdout.flush()
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
