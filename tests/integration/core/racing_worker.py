"""One of several workers that start together: a process of its own. Arguments: URL, number, bundles, dataset, kind."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from loading_harness import Loading

TABLES = ("alpha", "beta", "gamma", "delta")
VALUES: tuple[Any, ...] = (1, 2**40, 2**63, 2**70, 1.5, "text", "00501", True, "2026-11-30T12:00:00Z", None)


def events(number: int, bundle: int, size: int = 100) -> list[tuple[str, dict[str, Any]]]:
    """(id, record) of a bundle; one in five is an event that the other workers load as well."""
    result = []
    for position in range(size):
        shared = position % 5 == 0
        identity = f"s{bundle}-{position}" if shared else f"w{number}-{bundle}-{position}"
        choose = random.Random(identity)
        record: dict[str, Any] = {"eventName": choose.choice(TABLES)}
        for key in choose.sample(["a", "b", "c", f"k{bundle}", "userId", "user_id"], 4):
            record[key] = choose.choice(VALUES)
        if choose.random() < 0.5:
            record["items"] = [choose.choice([{"v": choose.choice(VALUES)}, choose.choice(VALUES)]) for _ in range(3)]
        result.append((identity, record))
    return result


def main() -> None:
    """Load and say how it went, as JSON on stdout."""
    url, number, bundles, dataset, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    loading = Loading(url, dataset=dataset)
    print("ready", flush=True)
    sys.stdin.readline()
    sent = 0
    for bundle in range(bundles):
        if kind == "drifting":
            chosen = events(number, bundle)
        else:
            chosen = [(f"w{number}-{bundle}-{n}", {"eventName": "alpha", "fresh": n}) for n in range(20)]
        loading.load((json.dumps(record) for _, record in chosen), ids=[identity for identity, _ in chosen])
        sent += len(chosen)
    loading.close()
    errors = [f"{type(error).__name__}: {error}" for error in loading.patience.errors]
    print(json.dumps({"sent": sent, "acked": loading.acked.total(), "errors": errors, "held": len(loading.held)}))


if __name__ == "__main__":
    main()
