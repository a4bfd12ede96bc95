"""PRISM's method in vectorised NumPy against the prism program: same graph, same law, same minute.

The step graph is one replica of the pipeline in bench/pipeline_graph.hpp (63,233 nodes, plain pools of 1,000 values). The
NumPy engine goes through the nodes in topological order with one float64 vector of all samples per node: maximum over the
predecessors' finish times, plus pool[integers]; a finish time is freed after its last reader. One thread. Rates are per
second of CPU time, since others may use the machine: prism's comes from bench_propagate, which sweeps this very graph. The
law is compared between step times of the NumPy engine and of `prism forecast` on the folder that both read.

    numpy_engine.py [--build FOLDER] [--prism PROGRAM] [--samples N] [--repeats R] [--small]

Exit code 1 if the two laws differ (two-sample Kolmogorov-Smirnov distance above its 99.9 % limit).
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KS_95 = 1.358  # two-sample limits times sqrt((n + m) / (n m))
KS_999 = 1.949


def find_program(given, places, what):
    for place in [given] if given else places:
        if pathlib.Path(place).is_file():
            return str(place)
    sys.exit(f"numpy_engine: no {what}; build with ./run bench, or name it")


def read_graph(folder):
    """Predecessor lists and pools by node, in the file's order, which is topological; durations in seconds."""
    def rows(name):
        with open(folder / name, newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)

    values = {}
    for row in rows("pools.csv"):
        values.setdefault(row["pool"], []).append(float(row["duration_s"]))
    pools = {name: np.array(v) for name, v in values.items()}
    number = {}
    pool_of = []
    for row in rows("nodes.csv"):
        number[row["node"]] = len(number)
        pool_of.append(pools.get(row["pool"]))
    before = [[] for _ in number]
    for row in rows("edges.csv"):
        first, second = number[row["before"]], number[row["after"]]
        if first >= second:
            sys.exit("numpy_engine: nodes.csv is not in topological order")
        before[second].append(first)
    return before, pool_of


def readers_of(before):
    """How many nodes read each node's finish time."""
    counts = [0] * len(before)
    for predecessors in before:
        for p in predecessors:
            counts[p] += 1
    return counts


def simulate(before, pool_of, readers, samples, seed):
    """Step times of `samples` samples."""
    rng = np.random.default_rng(seed)
    left = list(readers)
    finish = [None] * len(before)
    step = np.zeros(samples)
    for node, predecessors in enumerate(before):
        if predecessors:
            start = finish[predecessors[0]]
            for p in predecessors[1:]:
                start = np.maximum(start, finish[p])
        else:
            start = 0.0
        pool = pool_of[node]
        end = start if pool is None else start + pool[rng.integers(0, len(pool), samples)]
        for p in predecessors:
            left[p] -= 1
            if left[p] == 0:
                finish[p] = None
        if readers[node]:
            finish[node] = end
        else:
            step = np.maximum(step, end)
    return step


def ks_distance(a, b):
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    return np.abs(np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)).max()


def prism_rate(bench):
    """Node-samples per second of CPU time with one thread, exact pools, the processor's best instruction set."""
    command = [bench, "--benchmark_filter=propagate/64ranks/random/.*/1thread", "--benchmark_format=json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    failed = [b["error_message"] for b in report["benchmarks"] if b.get("error_occurred")]
    if failed:
        sys.exit(f"numpy_engine: bench_propagate: {failed[0]}")
    return report["benchmarks"][0]["items_per_second"]


def prism_step_times(program, folder, samples, seed):
    command = [program, "forecast", str(folder), "--sampling", "iid", "--samples", str(samples), "--threads", "1",
               "--seed", str(seed), "--csv"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return np.array([float(row["step_time_s"]) for row in csv.DictReader(listed.splitlines())])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "bench",
                        help="build folder with benchmarks (default: build/bench)")
    parser.add_argument("--prism", help="the prism program (default: of that folder, or of build/release)")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3, help="of both engines in turn; medians are printed")
    parser.add_argument("--small", action="store_true",
                        help="a smoke test: the laws of a graph of 2 stages, 2 microbatches, 2 layers; no rates of prism")
    options = parser.parse_args()
    prism = find_program(options.prism, [options.build / "cli/prism", ROOT / "build/release/cli/prism"], "prism program")
    writer = find_program(None, [options.build / "bench/write_pipeline_graph"], "write_pipeline_graph")
    bench = find_program(None, [options.build / "bench/bench_propagate"], "bench_propagate")

    with tempfile.TemporaryDirectory(prefix="prism_numpy_") as scratch:
        folder = pathlib.Path(scratch) / "graph"
        subprocess.run([writer, str(folder)] + (["2", "2", "2"] if options.small else []), check=True)
        before, pool_of = read_graph(folder)
        readers = readers_of(before)
        drawn = sum(pool is not None for pool in pool_of)
        edges = sum(map(len, before))
        print(f"graph: {len(before)} nodes, {edges} edges, {drawn} drawn; {options.samples} samples, one thread")

        numpy_rates, prism_rates, numpy_times, prism_times = [], [], [], []
        for repeat in range(options.repeats):
            begin = time.process_time()
            numpy_times.append(simulate(before, pool_of, readers, options.samples, repeat))
            numpy_rates.append(drawn * options.samples / (time.process_time() - begin))
            prism_times.append(prism_step_times(prism, folder, options.samples, repeat + 1))
            if not options.small:
                prism_rates.append(prism_rate(bench))

    rate = np.median(numpy_rates)
    print(f"NumPy: {rate:.3g} node-samples/s  ({1e9 / rate:.2f} ns each, median of {options.repeats})")
    if prism_rates:
        fast = np.median(prism_rates)
        print(f"prism: {fast:.3g} node-samples/s  ({1e9 / fast:.2f} ns each, median of {options.repeats})")
        print(f"ratio: {fast / rate:.1f}")

    a, b = np.concatenate(numpy_times), np.concatenate(prism_times)
    distance = ks_distance(a, b)
    scale = np.sqrt((len(a) + len(b)) / (len(a) * len(b)))
    print(f"step time: mean {a.mean():.6f} s and {b.mean():.6f} s, p95 {np.quantile(a, 0.95):.6f} s and "
          f"{np.quantile(b, 0.95):.6f} s")
    print(f"KS distance {distance:.4f}; limits {KS_95 * scale:.4f} (95 %), {KS_999 * scale:.4f} (99.9 %)")
    if distance > KS_999 * scale:
        print("the laws differ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
