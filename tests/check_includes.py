#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes what: the folder table of docs/architecture.md, third-party headers, folder names, SPDX lines.

usage: check_includes.py [ROOT]       prints FILE:LINE: MESSAGE for each violation; exit 1 if there is one
       check_includes.py --self-test  checks that made-up violations are found
"""

import re
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

# Room -> the other rooms it may include. Its own headers are always allowed.
STEP = ["trace", "stats", "run", "io", "model", "kernels", "plan", "engine"]  # engine and below
ROOMS = {
    "trace": [],
    "stats": [],
    "run": [],
    "io": [],
    "ingest": ["trace", "io", "run"],
    "model": ["trace", "stats", "io"],
    "kernels": ["model", "trace", "stats", "run", "io"],
    "plan": ["trace", "model", "stats", "io"],
    "engine": ["trace", "model", "stats", "run"],
    "analysis": STEP + ["ingest"],
    "goodput": ["stats", "run", "io"],
    "scheduling": ["stats", "run", "io"],
    "report": STEP + ["ingest", "analysis", "goodput", "scheduling"],
}
ALL_ROOMS = list(ROOMS)
# Folders beside prism/ see every room; none sees another, but tests/ may be seen from any *_test.cpp.
PROGRAMS = ["cli", "python", "bench", "tests"]

# The exception types belong to every room: what reads bytes or runs work has to throw them.
FOR_EVERY_ROOM = ["prism/trace/error.hpp"]

# Header (a glob) -> files that may include it (globs, where * also crosses folders).
TESTS = ["*_test.cpp", "tests/*"]
THIRD_PARTY = {
    "CLI/*": ["cli/*.cpp"],
    "nlohmann/*": ["prism/report/*.cpp", "prism/plan/*.cpp", "cli/*.cpp", "tests/*.cpp"],
    "yaml-cpp/*": ["prism/ingest/*.cpp"],
    "toml++/*": ["prism/plan/*.cpp"],
    "sqlite3.h": ["prism/io/*.cpp"],
    "isa-l/*": ["prism/io/*.cpp"],
    "zlib.h": TESTS + ["bench/*.cpp"],
    "zstd*.h": ["prism/io/*.cpp"],
    "boost/math/*": ["prism/stats/*.cpp"] + TESTS,
    "boost/*": TESTS,
    "Random123/*": ["prism/stats/*.cpp", "bench/*.cpp"],
    "hwy/*": ["prism/engine/*.cpp"],
    "fmt/*": ["*.cpp"],
    "gtest/*": TESTS,
    "gmock/*": TESTS,
    "rapidcheck.h": TESTS,
    "rapidcheck/*": TESTS,
    "benchmark/*": ["bench/*.cpp"],
    "simdjson.h": ["bench/*.cpp"],
    "malloc.h": ["bench/*.cpp"],
}
IN_TEST_HEADERS = ["gtest/*", "gmock/*", "rapidcheck.h", "rapidcheck/*"]  # in .hpp too, but only below tests/
IN_ONE_FILE = ["CLI/*", "hwy/*"]  # slow to compile, or vectors stay in one place

# Not third party: the standard library (no dot in the name) and the operating system.
SYSTEM = ["sys/*", "fcntl.h", "unistd.h", "signal.h", "poll.h"]

FORBIDDEN_FOLDERS = ["utils", "util", "common", "core", "helpers", "misc"]
SPDX = "SPDX-License-Identifier: Apache-2.0"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def matches(path, globs):
    return any(fnmatch(path, glob) for glob in globs)


def below(rooms):
    """The rooms and everything that can be reached from them."""
    reached, todo = set(), list(rooms)
    while todo:
        room = todo.pop()
        if room not in reached:
            reached.add(room)
            todo += ROOMS[room]
    return reached


def check_own(file, header):
    """What is wrong with `file` including our own `header`, or None. Both are paths from the root."""
    parts = header.split("/")
    folder = file.split("/")[0]
    is_test = file.endswith("_test.cpp")
    if parts[0] != "prism":
        if parts[0] == folder or (parts[0] == "tests" and (is_test or folder == "bench")):
            return None
        return f"{folder}/ must not include {parts[0]}/"
    if len(parts) < 3 or parts[1] not in ROOMS:
        return f'"{header}" is in no room of the folder table'
    if folder in PROGRAMS or header in FOR_EVERY_ROOM:
        return None
    room = file.split("/")[1]
    if room not in ROOMS:
        return None  # said once, by check_file
    allowed = below([room, "ingest"]) if is_test else {room, *ROOMS[room]}
    if parts[1] in allowed:
        return None
    others = sorted(allowed - {room}, key=ALL_ROOMS.index)
    return f"{room} must not include {parts[1]} (it may include: {', '.join(others) or 'no other room'})"


def check_third_party(file, header):
    """What is wrong with `file` including `header`, which is not ours, or None."""
    if "." not in header or matches(header, SYSTEM):
        return None
    known = next((glob for glob in THIRD_PARTY if fnmatch(header, glob)), None)
    if known is None:
        return f"unknown header <{header}>: ours start at the root (prism/...), others need a line in THIRD_PARTY"
    if not file.endswith((".cpp", ".inc")) and not (file.startswith("tests/") and known in IN_TEST_HEADERS):
        return f"third-party header <{header}> in a header"
    if not matches(file, THIRD_PARTY[known]):
        return f"<{header}> may be included only in {', '.join(THIRD_PARTY[known])}"
    return None


def check_file(root, path, one_file):
    """Violations of one file as (line, message). `one_file` remembers who included what is allowed once."""
    file = path.relative_to(root).as_posix()
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if path.suffix not in (".cpp", ".hpp", ".inc"):
        yield 1, "C++ files are named .cpp, .hpp or .inc"
    if path.suffix != ".inc" and not any(SPDX in line for line in lines[:3]):
        yield 1, f"no line '// {SPDX}' at the top"
    if file.startswith("prism/") and file.split("/")[1] not in ROOMS:
        yield 1, "not in a room of the folder table"
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        header = found.group(1)
        is_own = header.split("/")[0] in ["prism", *PROGRAMS] and "/" in header
        problem = check_own(file, header) if is_own else check_third_party(file, header)
        if not problem:
            for glob in IN_ONE_FILE:
                if fnmatch(header, glob) and one_file.setdefault(glob, file) != file:
                    problem = f"<{header}> belongs in one file, and {one_file[glob]} includes it already"
        if problem:
            yield number, problem


def folders(root):
    """All folders below root that are ours to name."""
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            if path.name not in ("build", "out", "__pycache__", "node_modules"):
                yield path
                yield from folders(path)


def check(root):
    """(violations as text, number of files)."""
    violations, one_file, n_files = [], {}, 0
    for path in folders(root):
        if path.name in FORBIDDEN_FOLDERS:
            violations.append(f"{path.relative_to(root)}:1: a folder must not be named {path.name}: say what it holds")
    for folder in ["prism", *PROGRAMS]:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".inc", ".h", ".hh", ".hxx", ".cc", ".cxx", ".c") and path.is_file():
                n_files += 1
                for line, message in check_file(root, path, one_file):
                    violations.append(f"{path.relative_to(root)}:{line}: {message}")
    return violations, n_files


# Path -> (includes, how many violations there are).
MADE_UP = {
    "prism/trace/good.hpp": (["<vector>", "<sys/stat.h>", '"prism/trace/ids.hpp"'], 0),
    "prism/trace/upward.cpp": (['"prism/model/graph.hpp"', '"prism/io/file.hpp"'], 2),
    "prism/io/good.cpp": (['"prism/trace/error.hpp"', "<isa-l/igzip_lib.h>", "<zstd.h>", "<sqlite3.h>", "<fmt/format.h>"], 0),
    "prism/io/sideways.cpp": (['"prism/trace/ids.hpp"', '"prism/stats/random.hpp"', "<CLI/CLI.hpp>"], 3),
    "prism/model/good.cpp": (['"prism/trace/ids.hpp"', '"prism/stats/random.hpp"', '"prism/io/file.hpp"'], 0),
    "prism/model/reader.cpp": (['"prism/ingest/read.hpp"', '"prism/run/parallel.hpp"'], 2),
    "prism/model/made_test.cpp": (['"prism/ingest/read.hpp"', '"tests/text_graph.hpp"', "<gtest/gtest.h>",
                                   "<rapidcheck.h>", "<boost/graph/adjacency_list.hpp>"], 0),
    "prism/model/high_test.cpp": (['"prism/engine/simulate.hpp"'], 1),
    "prism/engine/good.cpp": (["<hwy/highway.h>", '"prism/run/parallel.hpp"'], 0),
    "prism/engine/bytes.cpp": (['"prism/io/file.hpp"', "<boost/math/distributions.hpp>", "<gtest/gtest.h>"], 3),
    "prism/analysis/good.cpp": (['"prism/engine/simulate.hpp"', '"prism/io/file.hpp"'], 0),
    "prism/analysis/wide.cpp": (['"prism/ingest/read.hpp"', '"prism/report/json.hpp"', '"cli/options.hpp"'], 2),
    "prism/report/good.cpp": (["<nlohmann/json.hpp>", '"prism/analysis/forecast.hpp"'], 0),
    "prism/report/heavy.hpp": (["<nlohmann/json.hpp>", "<fmt/core.h>", "<CLI/CLI.hpp>"], 3),
    "prism/report/short.cpp": (['"heavy.hpp"', "<spdlog/spdlog.h>", '"prism/nowhere/a.hpp"', '"prism/all.hpp"'], 4),
    "prism/ingest/good.cpp": (["<yaml-cpp/yaml.h>", '"prism/run/parallel.hpp"'], 0),
    "prism/new_room/a.cpp": ([], 1),
    "prism/trace/old.h": ([], 1),
    "cli/a_main.cpp": (["<CLI/CLI.hpp>", "<CLI/Validators.hpp>", '"prism/report/json.hpp"', '"cli/options.hpp"'], 0),
    "cli/second.cpp": (["<CLI/CLI.hpp>", '"bench/data.hpp"'], 2),
    "bench/bench_read.cpp": (["<benchmark/benchmark.h>", '"prism/ingest/read.hpp"'], 0),
    "tests/text_graph.hpp": (["<rapidcheck.h>", '"prism/model/graph.hpp"'], 0),
    "tests/heavy.hpp": (["<fmt/format.h>"], 1),
    "tests/helpers/a.cpp": ([], 1),
}


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for file, (includes, _) in MADE_UP.items():
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in [f"// {SPDX}", *(f"#include {i}" for i in includes)]))
        (root / "prism/stats").mkdir()
        (root / "prism/stats/bare.cpp").write_text("#include <vector>\n")
        (root / "build/core").mkdir(parents=True)  # not ours to name

        violations, n_files = check(root)
        expected = {file: count for file, (_, count) in MADE_UP.items()} | {"prism/stats/bare.cpp": 1}
        # The folder `helpers` is reported by its own path.
        expected["tests/helpers"] = expected.pop("tests/helpers/a.cpp")
        failures = [] if n_files == len(MADE_UP) + 1 else [f"{n_files} files seen"]
        for file, count in expected.items():
            got = [v for v in violations if v.startswith(file + ":")]
            if len(got) != count:
                failures.append(f"{file}: expected {count} violations, got {len(got)}: {got}")
        if len(violations) != sum(expected.values()):
            failures.append(f"expected {sum(expected.values())} violations in all, got {len(violations)}")
        # Every message names the line of the include.
        if "prism/trace/upward.cpp:2: trace must not include model (it may include: no other room)" not in violations:
            failures.append("line number or message of prism/trace/upward.cpp is off")
    print("\n".join(failures) if failures else f"ok: {len(violations)} made-up violations found")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    violations, n_files = check(root)
    if n_files == 0:
        violations.append(f"{root}:1: no C++ files found")
    print("\n".join(violations) if violations else f"ok: {n_files} files")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
