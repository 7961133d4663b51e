"""Reads HCL: text in, blocks out. Every error names file, line and column, and what may stand there.

python-hcl2 parses; its tree is walked here, for its own dictionaries keep neither places nor the order of blocks, and
of two equal attributes silently the last one.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader.bridge.config.finding import Finding, Findings, InvalidConfiguration
from loader.bridge.config.model import Place
from loader.bridge.config.reference import Reference, Variable
from loader.bridge.config.syntax import explain
from loader.bridge.config.tree import Attribute, Block, Expression, Label
from loader.errors import ConfigurationError

if TYPE_CHECKING:
    from lark import Token, Tree

MISSING = "the bridge needs python-hcl2 and confluent-kafka: pip install 'pubsub-postgres-loader[bridge]'"

_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_LITERALS = {"true": True, "false": False, "null": None}


def read_file(path: str | Path) -> Block:
    """The file as one block without kind. Raises InvalidConfiguration, or ConfigurationError if it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or f"not UTF-8 at byte {error.start}"  # type: ignore[union-attr]
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Block:
    """The text of `file` as one block without kind. Raises InvalidConfiguration with every fault found."""
    try:
        from hcl2 import parses_to_tree
        from lark.exceptions import UnexpectedInput
    except ImportError:
        raise ConfigurationError(MISSING) from None
    # The grammar wants a line break after the last block.
    source = text if text.endswith("\n") else text + "\n"
    try:
        tree = parses_to_tree(source)
    except UnexpectedInput as error:
        line, column, reason = explain(source, error)
        raise InvalidConfiguration([Finding("error", Place(file, line, column), reason)]) from None
    walker = _Walker(source, file)
    try:
        body = walker.body(tree.children[0])
    except RecursionError:
        text = "lists, maps or blocks are nested too deeply"
        raise InvalidConfiguration([Finding("error", Place(file, 1), text)]) from None
    walker.findings.check()
    return Block("", (), *body, Place(file, 1))


class _Walker:
    def __init__(self, source: str, file: str) -> None:
        self.source = source
        self.file = file
        self.findings = Findings()

    def place(self, node: Any) -> Place:
        # Tokens carry their position themselves, trees in `meta`.
        at = getattr(node, "meta", node)
        return Place(self.file, at.line, at.column)

    def body(self, tree: Tree) -> tuple[dict[str, Attribute], tuple[Block, ...]]:
        attributes: dict[str, Attribute] = {}
        blocks = []
        for node in _trees(tree):
            if node.data == "block":
                blocks.append(self.block(node))
            elif node.data == "attribute":
                name_node, value_node = _trees(node)
                name = _text(name_node)
                place = self.place(node)
                if name in attributes:
                    first = attributes[name].place.line
                    self.findings.error(place, f"{name} is set twice; it was set in line {first} already")
                    continue
                attributes[name] = Attribute(name, self.value(value_node), place, self.place(value_node))
        return attributes, tuple(blocks)

    def block(self, tree: Tree) -> Block:
        head = [node for node in _trees(tree) if node.data != "new_line_or_comment"]
        body = head.pop()
        kind, *labels = head
        texts = []
        for label in labels:
            text = self.value(label) if label.data == "string" else _text(label)
            if not isinstance(text, str):
                self.findings.error(self.place(label), "a label must be a plain text, without ${…}")
                text = _text(label)
            texts.append(Label(text, self.place(label)))
        attributes, blocks = self.body(body)
        return Block(_text(kind), tuple(texts), attributes, blocks, self.place(tree))

    def value(self, tree: Tree) -> Any:
        """The value of a node: plain where it is plain, else a Reference or an Expression."""
        match tree.data:
            case "expr_term":
                inner = [node for node in _trees(tree) if node.data != "new_line_or_comment"]
                # (…): parentheses stand as tokens beside the term.
                return self.value(inner[0]) if len(inner) == 1 else self.expression(tree)
            case "int_lit":
                return int(_text(tree))
            case "float_lit":
                return float(_text(tree))
            case "literal_value":
                return _LITERALS[_text(tree)]
            case "string":
                return self.string(tree)
            case "heredoc_template" | "heredoc_template_trim":
                return self.heredoc(tree)
            case "tuple":
                return [self.value(node) for node in _trees(tree) if node.data != "new_line_or_comment"]
            case "object":
                return self.mapping(tree)
            case "function_call":
                return self.call(tree)
            case "unary_op":
                operand = self.value(_trees(tree)[-1])
                if str(tree.children[0]) == "-" and type(operand) in (int, float):
                    return -operand
                return self.expression(tree)
            case _:
                return self.expression(tree)

    def expression(self, tree: Tree) -> Expression:
        # The tree of an operation reaches over the line break that ends it.
        text = self.source[tree.meta.start_pos : tree.meta.end_pos]
        return Expression(text.rstrip(), self.place(tree))

    def mapping(self, tree: Tree) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for node in _trees(tree):
            if node.data != "object_elem":
                continue
            key_node, value_node = [each for each in _trees(node) if each.data != "new_line_or_comment"]
            inner = _trees(_trees(key_node)[0])
            key = self.value(inner[0]) if inner and inner[0].data == "string" else _text(key_node)
            if not isinstance(key, str):
                self.findings.error(self.place(key_node), "a key must be a plain text, without ${…}")
            elif key in values:
                self.findings.error(self.place(key_node), f"the key {key!r} stands twice in this map")
            else:
                values[key] = self.value(value_node)
        return values

    def string(self, tree: Tree) -> str | Reference:
        parts: list[str | Variable] = []
        for node in _trees(tree):
            part = node.children[0]
            if getattr(part, "data", None) == "interpolation":
                inner = self.value(next(each for each in _trees(part) if each.data != "new_line_or_comment"))
                if isinstance(inner, Reference):
                    parts += inner.parts
                elif isinstance(inner, str):
                    parts.append(inner)
                else:
                    self.findings.error(self.place(part), '${…} in a text may hold env("NAME") or secret("env:NAME")')
            elif getattr(part, "type", "") in ("ESCAPED_INTERPOLATION", "ESCAPED_DIRECTIVE"):
                parts.append(str(part)[1:])
            elif getattr(part, "type", "") == "STRING_CHARS":
                parts.append(self.unescape(part))
            else:
                self.findings.error(self.place(node), "%{…} is not used here; write %%{ for the characters themselves")
        return self.joined(parts, tree)

    def joined(self, parts: list[str | Variable], tree: Tree) -> str | Reference:
        if any(isinstance(part, Variable) for part in parts):
            return Reference(tuple(part for part in parts if part != ""), self.place(tree))
        return "".join(str(part) for part in parts)

    def unescape(self, token: Token) -> str:
        def one(found: re.Match[str]) -> str:
            text = found[0]
            if text[1] in "uU" and len(text) > 2:
                number = int(text[2:], 16)
                if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF:
                    return chr(number)
            elif text[1] in _ESCAPES:
                return _ESCAPES[text[1]]
            known = r"\n, \r, \t, \", \\, \uNNNN, \UNNNNNNNN"
            self.findings.error(self.place(token), f"{text} is no escape; allowed: {known} (a backslash is \\\\)")
            return text

        return _ESCAPE.sub(one, str(token))

    def heredoc(self, tree: Tree) -> str | Reference:
        first, rest = str(tree.children[0]).split("\n", 1)
        end = first.lstrip("<-").strip()
        lines = rest.rstrip().split("\n")[:-1] if rest.rstrip().endswith(end) else rest.split("\n")
        text = "".join(line + "\n" for line in lines)
        if first.startswith("<<-"):
            text = textwrap.dedent(text)
        parts: list[str | Variable] = []
        at = 0
        for found in re.finditer(
            r"(?<!\$)\$\{\s*(env|secret)\(\s*(\"[^\"]*\")(?:\s*,\s*(\"[^\"]*\"))?\s*\)\s*\}", text
        ):
            parts.append(text[at : found.start()].replace("$${", "${"))
            arguments = [json.loads(each) for each in found.groups()[1:] if each is not None]
            parts += self.reference(found[1], arguments, tree).parts
            at = found.end()
        rest = text[at:]
        if re.search(r"(?<!\$)\$\{", rest):
            self.findings.error(self.place(tree), '${…} in a text may hold env("NAME") or secret("env:NAME")')
        parts.append(rest.replace("$${", "${"))
        return self.joined(parts, tree)

    def call(self, tree: Tree) -> Any:
        name_node, *rest = _trees(tree)
        name = _text(name_node)
        if name not in ("env", "secret"):
            return self.expression(tree)
        nodes = _trees(rest[0]) if rest else []
        arguments = [self.value(node) for node in nodes if node.data != "new_line_or_comment"]
        if all(isinstance(each, str) for each in arguments):
            return self.reference(name, arguments, tree)
        self.findings.error(self.place(tree), f'{name}() takes plain texts, as in {name}("NAME")')
        return Reference((), self.place(tree))

    def reference(self, name: str, arguments: list[str], tree: Tree) -> Reference:
        place = self.place(tree)
        if name == "env":
            if len(arguments) in (1, 2) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", arguments[0]):
                default = arguments[1] if len(arguments) == 2 else None
                return Reference((Variable("env", arguments[0], default),), place)
            self.findings.error(place, 'env() takes a variable\'s name: env("NAME") or env("NAME", "default")')
            return Reference((), place)
        kind, colon, target = (arguments[0] if len(arguments) == 1 else "").partition(":")
        if colon and target and kind == "env":
            return Reference((Variable("env", target, secret=True),), place)
        if colon and target.startswith("/") and kind == "file":
            return Reference((Variable("file", target, secret=True),), place)
        # The argument is not repeated: it may be the secret itself.
        self.findings.error(place, 'secret() takes "env:NAME" or "file:/path"')
        return Reference((), place)


def _trees(tree: Tree) -> list[Any]:
    return [child for child in tree.children if hasattr(child, "data")]


def _text(tree: Tree) -> str:
    """The characters of a node's tokens, without white space around."""
    return "".join(str(token) for token in tree.scan_values(lambda _: True)).strip().strip('"')
