#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that README.md and docs/*.md show, and compares what they print with what is shown there.

usage: docs_test.py PRISM       PRISM is the built binary
       docs_test.py --self-test

Checked are fenced blocks whose info string begins with `console` and whose first line begins with `$ prism `, unless
the info string also holds the word `norun`. In them, each line that begins with `$ ` is a command (one that ends in a
backslash goes on in the next line), and what follows up to the next is all it prints, on standard output and standard
error. A line `...` stands for any number of lines, `...` inside a line for any text; spaces at the end do not count.

Commands run in a copy of examples/ and the documents, with PRISM as `prism`, so that what they write lands nowhere.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 120
FENCE = re.compile(r"^(`{3,}|~{3,})\s*(.*)$")


class Command(NamedTuple):
    line: int  # of the document
    text: str
    printed: list


def commands(document):
    """All commands of the document's checked blocks."""
    found, fence, info, block = [], None, "", []
    for number, line in enumerate(document.splitlines(), 1):
        match = FENCE.match(line)
        if fence is None:
            if match:
                fence, info, block = match.group(1), match.group(2).split(), []
        elif match and match.group(1).startswith(fence) and not match.group(2):
            fence = None
            if info[:1] == ["console"] and "norun" not in info and block and block[0][1].startswith("$ prism "):
                found += commands_of_block(block)
        else:
            block.append((number, line))
    return found


def commands_of_block(block):
    found, continues = [], False
    for number, line in block:
        if continues:
            found[-1] = found[-1]._replace(text=found[-1].text + "\n" + line)
        elif line.startswith("$ "):
            found.append(Command(number, line[2:], []))
        else:
            found[-1].printed.append(line)
            continue
        continues = line.endswith("\\")
    return found


def line_pattern(line):
    return ".*".join(re.escape(part) for part in line.rstrip().split("..."))


def matches(shown, printed):
    """Whether the printed lines are those shown, with what "..." stands for."""
    pattern = "".join("(?:.*\n)*" if line.strip() == "..." else line_pattern(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed)) is not None


def run(command, folder, prism):
    """(exit code, printed lines)"""
    environment = os.environ | {"PATH": f"{prism.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", command.text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
    return done.returncode, done.stdout.splitlines()


def check(root, prism):
    """(problems, number of commands)"""
    problems, n_commands = [], 0
    documents = [path for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))] if path.exists()]
    for document in documents:
        name = document.relative_to(root)
        found = commands(document.read_text(encoding="utf-8"))
        n_commands += len(found)
        if not found and document.name == "README.md":
            problems.append(f"{name}:1: no command is shown: a console block that begins with `$ prism `")
        with tempfile.TemporaryDirectory() as folder:  # files that commands write do not land in the repository
            for entry in root.iterdir():
                if entry.name == "examples":
                    shutil.copytree(entry, Path(folder) / entry.name)
                elif entry.suffix == ".md" or entry.name == "docs":
                    os.symlink(entry, Path(folder) / entry.name)
            for command in found:
                code, printed = run(command, folder, prism)
                if not matches(command.printed, printed):
                    shown = "\n".join(f"  shown    {line}" for line in command.printed)
                    real = "\n".join(f"  printed  {line}" for line in printed)
                    problems.append(f"{name}:{command.line}: `{command.text}` (exit {code}) prints something else:\n"
                                    f"{shown}\n{real}")
    return problems, n_commands


SELF_TEST = """
```
$ prism not console
```
```console norun
$ prism skipped
```
````console title
$ prism one
first
```
...
last ... 3 %
$ prism two | \\
  cat
````
~~~console
$ ls
~~~
"""


def self_test():
    expected = [Command(9, "prism one", ["first", "```", "...", "last ... 3 %"]), Command(14, "prism two | \\\n  cat", [])]
    failures = [] if commands(SELF_TEST) == expected else [f"commands: {commands(SELF_TEST)}"]
    for shown, printed, same in (
        (["a", "b"], ["a", "b"], True), (["a", "b"], ["a"], False), (["a"], ["a", "b"], False), ([], [], True),
        ([], ["a"], False), (["a", "..."], ["a"], True), (["a", "...", "z"], ["a", "b", "c", "z"], True),
        (["a", "...", "z"], ["a", "b", "c"], False), (["..."], [], True), (["p95 ... s"], ["p95   2.1 s"], True),
        (["p95 ... s"], ["p95", "2.1 s"], False), (["a.c"], ["abc"], False), (["a"], ["a  "], True),
        (["  ...", "b"], ["x", "b"], True),
    ):
        if matches(shown, printed) != same:
            failures.append(f"matches({shown}, {printed}) is {not same}")
    print("\n".join(failures) if failures else "ok")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    prism = Path(arguments[0]).resolve()
    if prism.name != "prism":
        print(f"{prism}: the documents call it prism", file=sys.stderr)
        return 2
    problems, n_commands = check(ROOT, prism)
    print("\n".join(problems) if problems else f"ok: {n_commands} commands")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
