"""Parses an expression: HCL's own spelling, and `and`, `or`, `not`, `in` inside a text.

payload.country == "FR" && payload.took_ms > 5
"payload.country in ['FR', 'DE'] and not startswith(topic, 'test.')"
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

from loader.bridge.condition.functions import FUNCTIONS
from loader.bridge.condition.nodes import ROOTS, Binary, Call, Choice, Constant, Index, Items, Node, Path, Unary
from loader.bridge.condition.pattern import study
from loader.bridge.config.finding import allowed
from loader.bridge.config.model import Place

MAX_DEPTH = 50
MAX_LENGTH = 100
"""Operators in a row, && and || apart: what is walked through and called deeper than that would end the stack."""

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*|//[^\n]*|/\*.*?\*/)+)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>==|!=|<=|>=|&&|\|\||[<>!+\-*/%?:.,()\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"and": "&&", "or": "||", "not": "!"}
_LITERALS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_BINDING = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "in": 3, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
}  # fmt: skip


class InvalidExpression(ValueError):
    """An expression that cannot be used; says what may stand there."""

    def __init__(self, text: str, place: Place) -> None:
        super().__init__(text)
        self.place = place


class _Token(NamedTuple):
    kind: str
    value: Any
    offset: int


def parse(text: str, place: Place) -> Node:
    """The expression as a tree. Raises InvalidExpression."""
    return _Parser(text, place).whole()


class _Parser:
    def __init__(self, text: str, place: Place) -> None:
        self.text = text
        self.place = place
        self.depth = 0
        self.at = 0
        self.tokens = self.split()

    def split(self) -> list[_Token]:
        tokens = []
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:
                hint = "; equality is ==" if self.text[at] == "=" else ""
                self.fail(f"unexpected {self.text[at]!r}{hint}", at)
            kind, word = str(found.lastgroup), found[0]
            if kind == "number":
                tokens.append(_Token("constant", float(word) if set(word) & set(".eE") else int(word), at))
            elif kind == "text":
                tokens.append(_Token("constant", _unescape(word[1:-1]), at))
            elif kind == "name" and (word in _WORDS or word == "in") and not (tokens and tokens[-1].value == "."):
                tokens.append(_Token("sign", _WORDS.get(word, word), at))
            elif kind != "space":
                tokens.append(_Token(kind, word, at))
            at = found.end()
        return [*tokens, _Token("end", "the end", len(self.text))]

    def fail(self, text: str, offset: int) -> NoReturn:
        before = self.text[:offset]
        line = self.place.line + before.count("\n")
        column = len(before) - before.rfind("\n") if "\n" in before else self.place.column + offset
        raise InvalidExpression(text, Place(self.place.file, line, column))

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def next(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sign(self, *signs: str) -> str | None:
        """The sign, if it is the next token and one of these; it is taken then."""
        if self.token.kind == "sign" and self.token.value in signs:
            return self.next().value
        return None

    def expect(self, sign: str) -> None:
        if self.sign(sign) is None:
            self.fail(f"unexpected {self.token.value!r}; expected {sign!r}", self.token.offset)

    def whole(self) -> Node:
        node = self.choice()
        if self.token.kind != "end":
            self.fail(f"unexpected {self.token.value!r}; expected an operator or the end", self.token.offset)
        return node

    def choice(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH}", self.token.offset)
        node = self.binary(1)
        if self.sign("?"):
            then = self.choice()
            self.expect(":")
            node = Choice(node, then, self.choice())
        self.depth -= 1
        return node

    def binary(self, least: int) -> Node:
        left = self.unary()
        length = 0
        while self.token.kind == "sign" and _BINDING.get(self.token.value, 0) >= least:
            operator = self.token.value
            if operator in ("&&", "||"):
                operands = [left]
                while self.sign(operator):
                    operands.append(self.binary(_BINDING[operator] + 1))
                left = _balanced(operator, operands)
                continue
            length += 1
            if length > MAX_LENGTH:
                self.fail(f"more than {MAX_LENGTH} operators in a row", self.token.offset)
            self.next()
            left = Binary(operator, left, self.binary(_BINDING[operator] + 1))
        return left

    def unary(self) -> Node:
        operator = self.sign("!", "-")
        if operator is None:
            return self.postfix()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH}", self.token.offset)
        # `not a == b` means what it says in words; `!a == b` binds as in HCL.
        words = self.text.startswith("not", self.tokens[self.at - 1].offset)
        operand = self.binary(3) if words else self.unary()
        self.depth -= 1
        if operator == "-" and isinstance(operand, Constant) and type(operand.value) in (int, float):
            return Constant(-operand.value)
        return Unary(operator, operand)

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            if self.sign("."):
                name = self.next()
                if name.kind != "name" and not isinstance(name.value, int):
                    self.fail(f"unexpected {name.value!r}; expected the name of a field", name.offset)
                node = self.below(node, Constant(name.value), name.offset)
            elif self.sign("["):
                offset = self.token.offset
                key = self.choice()
                self.expect("]")
                node = self.below(node, key, offset)
            else:
                return self.named(node)

    def below(self, node: Node, key: Node, offset: int) -> Node:
        if isinstance(node, Path) and isinstance(key, Constant):
            if isinstance(key.value, str) or type(key.value) is int:
                return Path(node.root, (*node.names, key.value), node.offset)
            self.fail("a field's name must be a text or a number", offset)
        return Index(node, key)

    def named(self, node: Node) -> Node:
        if isinstance(node, Path) and node.root == "lookup" and not node.names:
            self.fail("lookup needs a name: lookup.NAME[key]", node.offset)
        return node

    def primary(self) -> Node:
        token = self.next()
        if token.kind == "constant":
            return Constant(token.value)
        if token.kind == "name":
            if token.value in _LITERALS:
                return Constant(_LITERALS[token.value])
            if self.sign("("):
                return self.call(token)
            if token.value not in ROOTS:
                self.fail(f"unknown name {token.value!r}{allowed(token.value, ROOTS)}", token.offset)
            return Path(token.value, (), token.offset)
        if token.value == "(":
            node = self.choice()
            self.expect(")")
            return node
        if token.value == "[":
            return Items(self.arguments("]"))
        self.fail(f"unexpected {token.value!r}; expected a value", token.offset)

    def call(self, name: _Token) -> Node:
        function = FUNCTIONS.get(name.value)
        if function is None:
            self.fail(f"unknown function {name.value!r}{allowed(name.value, FUNCTIONS)}", name.offset)
        arguments = self.arguments(")")
        if not function.least <= len(arguments) <= function.most:
            self.fail(f"{name.value} is used as {function.usage}", name.offset)
        if name.value == "matches":
            self.pattern(arguments[1], name.offset)
        return Call(name.value, arguments, name.offset)

    def pattern(self, node: Node, offset: int) -> None:
        if not isinstance(node, Constant) or not isinstance(node.value, str):
            self.fail("not a regular expression: it must be a text", offset)
        try:
            refused = study(node.value).refused
        except re.error as error:
            self.fail(f"not a regular expression: {error}", offset)
        if refused is not None:
            self.fail(f"matches cannot take {node.value!r}: {refused}", offset)

    def arguments(self, end: str) -> tuple[Node, ...]:
        arguments: list[Node] = []
        while not self.sign(end):
            if arguments:
                self.expect(",")
                if self.sign(end):
                    break
            arguments.append(self.choice())
        return tuple(arguments)


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(one, text) if "\\" in text else text


def _balanced(operator: str, operands: list[Node]) -> Node:
    """`a && b && c && d` as `(a && b) && (c && d)`, which says the same: a chain of thousands is no deep tree then."""
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    return Binary(operator, _balanced(operator, operands[:middle]), _balanced(operator, operands[middle:]))
