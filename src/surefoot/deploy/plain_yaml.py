"""The part of YAML that deploy files use, read strictly and written so that others read it.

Block mappings and block lists by indentation, flow lists and mappings (also over several lines), null, true, false, numbers and
plain or quoted texts, comments. What is beyond that (anchors, tags, several documents, block texts, tabs) is refused by line.
"""

import json
import math
import re
from typing import Any

from surefoot.errors import InputError

NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?")
WORDS: dict[str, Any] = {
    "null": None, "Null": None, "NULL": None, "~": None, "": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan,
}  # fmt: skip
DEEPEST = 64


def read_yaml(text: str, where: str) -> Any:
    """Plain values of a YAML text; an InputError names the line that is not understood."""
    lines = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if "\t" in raw[: len(raw) - len(raw.lstrip())]:
            raise InputError(f"{where} line {number} is indented by a tab: YAML wants spaces")
        body = _uncommented(raw).rstrip()
        if not body.strip() or (number == 1 and body == "---"):
            continue
        if body.startswith(("---", "...", "%")):
            raise InputError(f"{where} line {number} begins a second document or a directive: give one plain document")
        lines.append((number, len(body) - len(body.lstrip()), body.strip()))
    reader = _Reader(_joined(lines, where), where)
    value = reader.block(lines[0][1], 0) if lines else None
    if reader.at < len(reader.lines):
        raise reader.wrong("is not indented as the lines before it")
    return value


def _uncommented(line: str) -> str:
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c == "#" and (i == 0 or line[i - 1] in " \t"):
            return line[:i]
    return line


def _joined(lines: list[tuple[int, int, str]], where: str) -> list[tuple[int, int, str]]:
    """Lines with flow lists and mappings that go on over several lines made into one line."""
    found: list[tuple[int, int, str]] = []
    depth = 0
    for number, indent, body in lines:
        if depth > 0:
            first = found.pop()
            found.append((first[0], first[1], f"{first[2]} {body}"))
        else:
            found.append((number, indent, body))
        depth += _opened(body)
        if depth < 0:
            raise InputError(f"{where} line {number} closes a bracket that was not opened")
    if depth > 0:
        raise InputError(f"{where} line {found[-1][0]} opens a bracket that is never closed")
    return found


def _opened(body: str) -> int:
    quote, depth = "", 0
    for c in body:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        else:
            depth += (c in "[{") - (c in "]}")
    return depth


class _Reader:
    """Goes through the lines once."""

    def __init__(self, lines: list[tuple[int, int, str]], where: str):
        self.lines, self.where, self.at = lines, where, 0

    def wrong(self, what: str) -> InputError:
        number, _, body = self.lines[min(self.at, len(self.lines) - 1)]
        return InputError(f"{self.where} line {number} {what}: {body[:60]!r}")

    def block(self, indent: int, depth: int) -> Any:
        """The value whose lines begin at `indent`."""
        if depth > DEEPEST:
            raise self.wrong("is nested too deep")
        body = self.lines[self.at][2]
        if body == "-" or body.startswith("- "):
            return self._items(indent, depth)
        if _key(body) is None:
            self.at += 1
            return self.flow(body)
        return self._pairs(indent, depth)

    def _items(self, indent: int, depth: int) -> list[Any]:
        found = []
        while self.at < len(self.lines) and self.lines[self.at][1] == indent:
            number, _, body = self.lines[self.at]
            if body != "-" and not body.startswith("- "):
                break
            rest = body[1:].strip()
            if not rest:
                self.at += 1
                found.append(self._below(indent, depth))
                continue
            inner = indent + len(body) - len(body[1:].lstrip())
            if _key(rest) is not None or rest.startswith("- "):
                self.lines[self.at] = (number, inner, rest)
                found.append(self.block(inner, depth + 1))
            else:
                found.append(self.flow(rest))
                self.at += 1
        return found

    def _pairs(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.at < len(self.lines) and self.lines[self.at][1] == indent:
            parts = _key(self.lines[self.at][2])
            if parts is None:
                raise self.wrong("is not 'name: value'")
            name, rest = parts
            if name in found:
                raise self.wrong(f"gives {name!r} a second time")
            if rest:
                found[name] = self.flow(rest)
                self.at += 1
            else:
                self.at += 1
                found[name] = self._below(indent, depth)
        if self.at < len(self.lines) and self.lines[self.at][1] > indent:
            raise self.wrong("is indented for no reason")
        return found

    def _below(self, indent: int, depth: int) -> Any:
        """What stands indented under a name or a dash; a list may stand at the same indent as its name."""
        if self.at >= len(self.lines):
            return None
        _, inner, body = self.lines[self.at]
        if inner > indent or (inner == indent and (body == "-" or body.startswith("- "))):
            return self.block(inner, depth + 1)
        return None

    def flow(self, text: str) -> Any:
        """A value on one line."""
        if text[0] in "&*!|>%@`":
            raise self.wrong(f"uses {text[0]!r}, which is beyond what is read here")
        value, rest = self._value(text, 0)
        if rest.strip():
            raise self.wrong("goes on after its value")
        return value

    def _value(self, text: str, depth: int, inside: bool = False) -> tuple[Any, str]:
        text = text.lstrip()
        if depth > DEEPEST:
            raise self.wrong("is nested too deep")
        if text[:1] == "[":
            return self._list(text[1:], depth)
        if text[:1] == "{":
            return self._mapping(text[1:], depth)
        if text[:1] in ("'", '"'):
            return self._quoted(text)
        end = re.search(r"[,\]}]", text) if inside else None
        word, rest = (text[: end.start()], text[end.start() :]) if end else (text, "")
        if inside and re.search(r"[\[{]", word):
            raise self.wrong("lacks a ',' before a bracket")
        return _scalar(word.strip()), rest

    def _list(self, text: str, depth: int) -> tuple[list[Any], str]:
        found: list[Any] = []
        text = text.lstrip()
        while text and text[0] != "]":
            value, text = self._value(text, depth + 1, inside=True)
            found.append(value)
            text = self._separated(text, "]")
        return found, text[1:]

    def _mapping(self, text: str, depth: int) -> tuple[dict[str, Any], str]:
        found: dict[str, Any] = {}
        text = text.lstrip()
        while text and text[0] != "}":
            parts = re.match(r"\s*([^,:{}\[\]\"']+|\"[^\"]*\"|'[^']*')\s*:(?=[\s,}\[{]|$)", text)
            if parts is None:
                raise self.wrong("has a mapping that is not {name: value, ...}")
            name = parts.group(1).strip().strip("\"'")
            if name in found:
                raise self.wrong(f"gives {name!r} a second time")
            found[name], text = self._value(text[parts.end() :], depth + 1, inside=True)
            text = self._separated(text, "}")
        return found, text[1:]

    def _separated(self, text: str, end: str) -> str:
        text = text.lstrip()
        if text[:1] == ",":
            return text[1:].lstrip()
        if text[:1] != end:
            raise self.wrong(f"lacks a ',' or {end!r}")
        return text

    def _quoted(self, text: str) -> tuple[str, str]:
        if text[0] == '"':
            try:
                value, end = json.JSONDecoder().raw_decode(text)
            except ValueError:
                raise self.wrong("has a text in quotes that is not closed or not plain") from None
            return value, text[end:]
        parts = re.match(r"'((?:[^']|'')*)'", text)
        if parts is None:
            raise self.wrong("has a text in quotes that is not closed")
        return parts.group(1).replace("''", "'"), text[parts.end() :]


def _key(body: str) -> tuple[str, str] | None:
    """Name and value text of 'name: value', or None."""
    parts = re.match(
        r"(\"[^\"]*\"|'[^']*'|[^\s\[\]{},\"'#&*!|>%@`-][^:]*|-?[^\s\[\]{},:\"'#&*!|>%@`-][^:]*)\s*:(?:\s+(.*))?$", body
    )
    if parts is None:
        return None
    return parts.group(1).strip().strip("\"'"), (parts.group(2) or "").strip()


def _scalar(word: str) -> Any:
    if word in WORDS:
        return WORDS[word]
    if NUMBER.fullmatch(word):
        text = word.replace("_", "")
        return float(text) if re.search(r"[.eE]", text) else int(text)
    return word


def write_yaml(value: Any, indent: int = 0) -> str:
    """YAML text of plain values: mappings as blocks, lists of plain values on one line, floats exact."""
    pad = "  " * indent
    lines = []
    for name, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{pad}{name}:", write_yaml(item, indent + 1).rstrip("\n")]
        elif isinstance(item, list) and item and isinstance(item[0], list):
            lines += [f"{pad}{name}:", *(f"{pad}- {_flow(row)}" for row in item)]
        else:
            lines.append(f"{pad}{name}: {_flow(item)}")
    return "\n".join(lines) + "\n"


def _flow(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_flow, item))}]"
    if isinstance(item, dict):
        return "{" + ", ".join(f"{name}: {_flow(inner)}" for name, inner in item.items()) + "}"
    if item is None or isinstance(item, bool):
        return {None: "null", True: "true", False: "false"}[item]
    if isinstance(item, float):
        return repr(item)
    if isinstance(item, str):
        return (
            json.dumps(item)
            if _scalar(item) != item or re.search(r"[:#,\[\]{}\"'\s&*!|>%@`-]", item) or not item
            else item
        )
    return str(item)
