"""What can be said about an expression without a message: what it reads, and whether it depends on the message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from loader.bridge.condition.nodes import Binary, Call, Choice, Constant, Index, Items, Node, Path, Unary


def reads(node: Any, names: set[str]) -> bool:
    """Whether a node reads the payload; collects the names of its lookups."""
    if isinstance(node, Path):
        if node.root == "lookup":
            names.add(str(node.names[0]))
        return node.root == "payload"
    # Every node is visited, for its lookups: no short cut.
    return max([reads(each, names) for each in below(node)], default=False)


def depends(node: Node) -> bool:
    """Whether a node says another thing for another message."""
    return isinstance(node, Path) or any(depends(each) for each in below(node))


def patterns(node: Node) -> Iterator[str]:
    """The regular expressions in it."""
    match node:
        case Call("matches", (_, Constant(str(pattern)))):
            yield pattern
    for each in below(node):
        yield from patterns(each)


def below(node: Node) -> tuple[Node, ...]:
    """The nodes that a node is made of."""
    match node:
        case Index(base, key):
            return base, key
        case Call(_, arguments) | Items(arguments):
            return arguments
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Choice(condition, then, otherwise):
            return condition, then, otherwise
    return ()


def always(node: Node, truth: Callable[[Node], bool]) -> bool | None:
    """True or False if a condition comes to that whatever the message says (`a && false`), else None.

    `truth` works out a node that does not depend on the message."""
    if not depends(node):
        return truth(node)
    match node:
        case Binary("&&", left, right) if False in (always(left, truth), always(right, truth)):
            return False
        case Binary("||", left, right) if True in (always(left, truth), always(right, truth)):
            return True
        case Unary("!", operand):
            fixed = always(operand, truth)
            return None if fixed is None else not fixed
    return None
