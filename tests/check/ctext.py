# SPDX-License-Identifier: Apache-2.0
"""C text for the style rules: blanking of comments and strings, and finding of functions and declarations.

No parser: the house style is regular enough (clang-format decides the layout) for lines and braces to do.
"""
import re


def blank(text: str, keep_comments: bool = False) -> str:
    """Replaces the content of strings, characters and comments by blanks; lines and columns stay."""
    out = []
    i = 0
    while i < len(text):
        two = text[i:i + 2]
        if two in ("/*", "//"):
            end = text.find("*/", i + 2) + 2 if two == "/*" else text.find("\n", i)
            if end <= 1:
                end = len(text)
            part = text[i:end]
            out.append(part if keep_comments else re.sub(r"[^\n]", " ", part))
            i = end
        elif text[i] in "\"'":
            quote = text[i]
            j = i + 1
            while j < len(text) and text[j] != quote and text[j] != "\n":
                j += 2 if text[j] == "\\" else 1
            out.append(quote + " " * (min(j, len(text)) - i - 1))
            if j < len(text):
                out.append(text[j])
            i = j + 1
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def includes(text: str):
    """Yields (line number, bracket '<' or '\"', spelled name) of each include."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match[1], match[2]


def functions(text: str):
    """Yields (name, first line, last line) of each function definition (opening brace in column 0)."""
    lines = blank(text).splitlines()
    for i, line in enumerate(lines):
        if line != "{":
            continue
        head = i - 1
        while head > 0 and lines[head - 1].strip() and not lines[head - 1].rstrip().endswith((";", "}", ":")) \
                and not lines[head - 1].startswith("#"):
            head -= 1
        match = re.search(r"(\w+)\(", " ".join(lines[head:i]))
        if not match:
            continue
        end = next((j for j in range(i, len(lines)) if lines[j] == "}"), len(lines) - 1)
        yield match[1], head + 1, end + 1


def declarations(text: str):
    """Yields (name, line, whole text, documented) of each function declared at file scope of a header.

    Documented: a /** comment ends directly above it, or above the run of declarations (no blank line between)
    that it belongs to.
    """
    lines = text.splitlines()
    bare = blank(text).splitlines()
    depth = 0
    covered = False
    i = 0
    while i < len(lines):
        line = bare[i]
        if not lines[i].strip():
            covered = False
        elif not line.strip():  # inside or at the end of a comment
            if lines[i].strip().startswith("/**"):
                covered = True
            elif lines[i].strip().startswith("/*"):
                covered = False
        elif depth == 0 and not line.startswith(("#", "}", "{", " ")) and re.match(r"[\w ].*\b\w+\(", line) \
                and not line.startswith(("typedef", "static", "_Static_assert")):
            start = i
            statement = line
            while not statement.rstrip().endswith((";", "{")) and i + 1 < len(lines):
                i += 1
                statement += " " + bare[i].strip()
            name = re.search(r"(\w+)\(", statement)
            if statement.rstrip().endswith(";") and name:
                yield name[1], start + 1, statement, covered
            depth += bare[i].count("{") - bare[i].count("}")
            i += 1
            continue
        depth += line.count("{") - line.count("}")
        i += 1
