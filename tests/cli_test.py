#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of the program, on examples/ and on small inputs made here.

usage: cli_test.py PRISM [unittest arguments]      PRISM is the built binary
"""

import contextlib
import csv
import functools
import gzip
import io
import json
import math
import os
import pty
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = "examples/pipeline-16gpu"
TRACE = ROOT / EXAMPLE / "trace.csv.gz"
STEPS = [*range(101, 113), *range(501, 513)]
MODELS = ["hierarchical", "step-block", "regime", "iid", "iid-mixed"]
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
PRISM = ""  # set by main
TIMEOUT_S = 120

DONE, CHECK_FAILED, USAGE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3, 130


def prism(*arguments, stdin=b"", env=None):
    """Runs the program in the repository's root with standard output and error in pipes."""
    run = subprocess.run([PRISM, *map(str, arguments)], input=stdin, capture_output=True, cwd=ROOT, timeout=TIMEOUT_S,
                         env={**os.environ, **(env or {})})
    return run.returncode, run.stdout.decode(), run.stderr.decode()


@functools.cache
def known(*arguments):
    """Standard output of a run that succeeds in silence; each is run once."""
    code, out, err = prism(*arguments)
    assert code == DONE and err == "", f"{arguments}: {code}, {err}"
    return out


def document(*arguments):
    return json.loads(known(*arguments, "--json"))


def table(*arguments):
    return list(csv.DictReader(io.StringIO(known(*arguments, "--csv"))))


def without_inputs(result):
    """A document or its text, without what says where it came from."""
    result = json.loads(result) if isinstance(result, str) else dict(result)
    del result["inputs"]
    return result


def quantile(values, p):
    """The interpolated sample quantile of most statistics programs (R's type 7)."""
    values = sorted(values)
    place = p * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="prism-cli-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def assert_fails(self, code, *arguments, says=(), stdin=b""):
        """The run ends with `code`, prints nothing but a message, and that has all of `says`."""
        got, out, err = prism(*arguments, stdin=stdin)
        self.assertEqual((got, out), (code, ""), err)
        self.assertTrue(err.startswith("prism: "), err)
        for part in says:
            self.assertIn(part, err)
        if code == BAD_INPUT:
            self.assertIn("\n  fix: ", err)


class Text(CliTest):
    RUNS = {
        ("inspect", EXAMPLE): ["16 GPUs (dp 4 x pp 4)", "24 profiled steps (101 to 512)", "posting edge",
                               "layernorm-grads-all-reduce 0 of stage 3", "forward-compute stage 0 rank 0", "clocks"],
        ("replay", EXAMPLE): ["observed", "replayed", "error", "mean", " 512 "],
        ("validate", EXAMPLE): [*MODELS, "bootstrap", "alternating", "blocks", "chosen: ", "a = 0."],
        ("forecast", EXAMPLE): ["1,000 samples", "sampling model hierarchical", "seed 1", "p95", "guarantee",
                                "needs 59 profiled steps, there are 24", "steps 501..512"],
        ("model", "show", EXAMPLE): ["16 GPUs", "260 pools", "recording"],
    }

    def test_every_command_prints_its_result(self):
        for run, parts in self.RUNS.items():
            with self.subTest(run):
                out = known(*run)
                for part in parts:
                    self.assertIn(part, out)
                self.assertTrue(out.endswith("\n"))

    def test_no_colours_and_no_progress_in_a_pipe(self):
        for run in self.RUNS:  # known() has seen to an empty standard error
            with self.subTest(run):
                self.assertNotRegex(known(*run), r"[\x00-\x09\x0b-\x1f\x7f]")

    def test_says_the_numbers_of_json(self):
        result = document("forecast", EXAMPLE)["step_time_s"]
        lines = {line.split()[0]: line.split()[1] for line in known("forecast", EXAMPLE).splitlines() if line.strip()}
        for quantile_ in result["quantiles"]:
            shown = lines[f"p{100 * quantile_['p']:g}"]
            self.assertAlmostEqual(float(shown), quantile_["value"], delta=0.0006)
        self.assertAlmostEqual(float(lines["mean"]), result["mean"], delta=0.0006)


class Json(CliTest):
    def assert_document(self, result, command):
        self.assertEqual(result["schema"], f"prism.{command}/1")
        self.assertRegex(result["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual([entry["path"] for entry in result["inputs"]], [f"{EXAMPLE}/trace.csv.gz"])
        self.assertRegex(result["inputs"][0]["digest"], r"^[0-9a-f]{16}$")
        self.assertIsInstance(result["warnings"], list)
        self.assertEqual(result["dropped"], [])

    def assert_keys(self, result, keys):
        self.assertEqual(set(result), {"schema", "version", "inputs", "warnings", "dropped"} | set(keys.split()))

    def test_inspect(self):
        result = document("inspect", EXAMPLE)
        self.assert_document(result, "inspect")
        self.assert_keys(result, "ranks steps ops mesh graph inferred_edges barriers stage_waits pools clock_offsets_s")
        self.assertEqual((result["ranks"], result["steps"], result["ops"]), (16, STEPS, 744))
        self.assertEqual(result["mesh"], {"tp": 1, "cp": 1, "ep": 1, "dp": 4, "pp": 4, "world_size": 16,
                                          "rank_order": "tp-cp-ep-dp-pp"})
        self.assertEqual(result["graph"], {"nodes": 364, "edges": 583, "ranks": 16, "traced_ranks": 16, "replicas": 4})
        self.assertEqual(len(result["inferred_edges"]), 36)
        self.assertEqual(result["barriers"], ["layernorm-grads-all-reduce 0 of stage 3"])
        self.assertEqual(result["stage_waits"], [])
        self.assertEqual(sorted(offset["rank"] for offset in result["clock_offsets_s"]), list(range(16)))
        self.assertTrue(all(abs(offset["offset_s"]) < 1e-4 for offset in result["clock_offsets_s"]))
        pools = {pool["key"]: pool for pool in result["pools"]}
        self.assertEqual(len(pools), len(result["pools"]))
        for pool in pools.values():
            self.assertEqual(set(pool), set("key category count mean_s per_step_s cv p95_s best_law law_ks".split()))
            self.assertIn(pool["category"], ["compute", "collective", "point-to-point", "local", "launch delay"])
        pool = pools["forward-compute stage 1 rank 6"]
        self.assertEqual((pool["category"], pool["count"]), ("compute", 24 * 8))
        # Straight from the trace.
        with gzip.open(TRACE, "rt") as trace:
            values = [float(row["duration"]) for row in csv.DictReader(trace)
                      if row["optype"] == "forward-compute" and row["rank"] == "6"]
        mean = sum(values) / len(values)
        self.assertAlmostEqual(pool["mean_s"], mean, places=8)
        sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        self.assertAlmostEqual(pool["cv"], sd / mean, delta=2e-4)
        self.assertAlmostEqual(pool["p95_s"], quantile(values, 0.95), places=8)

    def test_replay(self):
        result = document("replay", EXAMPLE)
        self.assert_document(result, "replay")
        self.assert_keys(result, "launch_delays mean_observed_s mean_replayed_s discrepancy graph inferred_edges barriers "
                                 "stage_waits steps")
        self.assertEqual([step["step"] for step in result["steps"]], STEPS)
        for step in result["steps"]:
            self.assertEqual(set(step), {"step", "observed_s", "replayed_s", "error"})
            self.assertAlmostEqual(step["error"], step["replayed_s"] / step["observed_s"] - 1, places=12)
            self.assertLess(abs(step["error"]), 1e-4)
        for name in ("observed", "replayed"):
            mean = sum(step[f"{name}_s"] for step in result["steps"]) / len(STEPS)
            self.assertAlmostEqual(result[f"mean_{name}_s"], mean, places=9)
        self.assertAlmostEqual(result["discrepancy"],
                               abs(result["mean_replayed_s"] / result["mean_observed_s"] - 1), places=12)
        # Straight from the trace: last end minus first start.
        ends = dict.fromkeys(STEPS, 0.0)
        with gzip.open(TRACE, "rt") as trace:
            for row in csv.DictReader(trace):
                step = int(row["step"])
                ends[step] = max(ends[step], float(row["start_ts"]) + float(row["duration"]))
        for step in result["steps"]:
            self.assertAlmostEqual(step["observed_s"], ends[step["step"]], delta=2e-5)

    def test_launch_delays(self):
        errors = {}
        for mode in ("clean", "none", "raw", "off"):
            steps = document("replay", EXAMPLE, "--launch-delays", mode)["steps"]
            errors[mode] = [step["error"] for step in steps]
        self.assertLess(max(map(abs, errors["raw"])), 1e-5)
        self.assertLess(max(map(abs, errors["clean"])), 1e-4)
        self.assertLess(max(errors["none"]), -0.005)  # delays are a part of every step
        self.assertLess(max(errors["off"]), -0.005)
        self.assertLessEqual(sum(errors["off"]), sum(errors["none"]))  # fewer edges
        self.assertEqual(known("replay", EXAMPLE, "--json"),
                         known("replay", EXAMPLE, "--json", "--launch-delays", "clean"))
        off = document("replay", EXAMPLE, "--launch-delays", "off")
        self.assertEqual((off["inferred_edges"], off["barriers"]), ([], []))

    def test_validate(self):
        for target in ("observed", "replayed"):
            with self.subTest(target):
                result = document("validate", EXAMPLE, "--target", target)
                self.assert_document(result, "validate")
                self.assert_keys(result, "seed target chosen steps models baseline a coupling components findings "
                                         "inferred_edges barriers stage_waits")
                self.assertEqual((result["seed"], result["steps"]), (1, STEPS))
                self.assertEqual({(m["name"], m["folds"]) for m in result["models"]},
                                 {(name, folds) for name in MODELS for folds in ("alternating", "blocks")})
                self.assertEqual([(m["name"], m["folds"], m["crps_ratio"]) for m in result["baseline"]],
                                 [("bootstrap", "alternating", 1), ("bootstrap", "blocks", 1)])
                for m in result["models"] + result["baseline"]:
                    self.assertEqual(set(m), set("name folds p50_error p50_error_range p95_error p95_error_range ks "
                                                 "ks_noise crps_ratio".split()))
                    self.assertEqual(len(m["p95_error_range"]), 2)
                    self.assertLessEqual(m["p95_error_range"][0], m["p95_error"])
                    self.assertGreaterEqual(m["p95_error_range"][1], m["p95_error"])
                    self.assertAlmostEqual(m["ks_noise"], 1.35 / math.sqrt(24))
                self.assertEqual(result["chosen"], "hierarchical")
                chosen = [m for m in result["models"] if m["name"] == result["chosen"]]
                self.assertTrue(all(m["ks"] < m["ks_noise"] for m in chosen))
                self.assertTrue(0.7 < result["a"] < 1)
                self.assertTrue(0 < result["coupling"] <= 1)
                self.assertEqual(len(result["components"]), 8)
                for component in result["components"]:
                    self.assertEqual(set(component), set("class rank_sd step_sd cell_sd residual_sd f_step f_rank "
                                                         "f_cell f_step_limit f_rank_limit f_cell_limit".split()))
        self.assertNotEqual(known("validate", EXAMPLE, "--target", "replayed", "--json"),
                            known("validate", EXAMPLE, "--target", "observed", "--json"))
        self.assertEqual(known("validate", EXAMPLE, "--json"),
                         known("validate", EXAMPLE, "--target", "observed", "--json"))

    FORECAST_KEYS = ("seed step_time_s guarantee reason anchor samples model graph windows spread spread_samples "
                     "ranks_on_path")

    def test_forecast(self):
        result = document("forecast", EXAMPLE)
        self.assert_document(result, "forecast")
        self.assert_keys(result, self.FORECAST_KEYS)
        self.assertEqual((result["seed"], result["samples"], result["model"]), (1, 1000, "hierarchical"))
        self.assertEqual(result["graph"], {"nodes": 364, "edges": 583, "ranks": 16, "traced_ranks": 16, "replicas": 4})
        self.assertIsNone(result["guarantee"])
        self.assertEqual(result["reason"], "needs 59 profiled steps, there are 24")
        self.assertEqual([(w["first_step"], w["last_step"], w["steps"]) for w in result["windows"]],
                         [(101, 112, 12), (501, 512, 12)])
        times = result["step_time_s"]
        self.assertEqual(set(times), {"mean", "std", "cv", "min", "max", "quantiles"})
        self.assertAlmostEqual(times["cv"], times["std"] / times["mean"])
        self.assertEqual([q["p"] for q in times["quantiles"]], QUANTILES)
        before = times["min"]
        for q in times["quantiles"]:
            self.assertEqual(set(q), {"p", "value", "low", "high", "input_low", "input_high"})
            self.assertTrue(q["low"] <= q["value"] <= q["high"], q)
            self.assertLess(q["input_low"], q["input_high"])
            self.assertGreater(q["value"], before)
            before = q["value"]
        self.assertLessEqual(before, times["max"])

    def test_forecast_summarises_its_samples(self):
        result = document("forecast", EXAMPLE)["step_time_s"]
        samples = [float(row["step_time_s"]) for row in table("forecast", EXAMPLE)]
        mean = sum(samples) / len(samples)
        self.assertAlmostEqual(result["mean"], mean, places=12)
        self.assertAlmostEqual(result["std"], math.sqrt(sum((s - mean) ** 2 for s in samples) / 999), places=9)
        self.assertEqual((result["min"], result["max"]), (min(samples), max(samples)))
        for q in result["quantiles"]:
            self.assertAlmostEqual(q["value"], quantile(samples, q["p"]), places=12)

    def test_timing_is_there_only_when_asked_for(self):
        timed = document("forecast", EXAMPLE, "--timing")
        self.assert_keys(timed, self.FORECAST_KEYS + " elapsed_s node_samples_per_s")
        self.assertGreater(timed.pop("elapsed_s"), 0)
        self.assertGreater(timed.pop("node_samples_per_s"), 0)
        self.assertEqual(timed, document("forecast", EXAMPLE))

    def test_too_few_samples_for_an_interval(self):
        quantiles = document("forecast", EXAMPLE, "--samples", "2")["step_time_s"]["quantiles"]
        self.assertEqual([q["p"] for q in quantiles], QUANTILES)
        self.assertEqual((quantiles[2]["low"], quantiles[2]["high"]), (None, None))
        self.assertIn("? .. ?", known("forecast", EXAMPLE, "--samples", "2"))

    def test_model_show(self):
        result = document("model", "show", EXAMPLE)
        self.assert_document(result, "model.show")
        self.assert_keys(result, "mesh graph classes pool_values steps inferred_edges barriers stage_waits "
                                 "has_recording")
        self.assertEqual((result["steps"], result["has_recording"]), (STEPS, True))


class Csv(CliTest):
    def test_inspect(self):
        rows = table("inspect", EXAMPLE)
        pools = document("inspect", EXAMPLE)["pools"]
        self.assertEqual(list(rows[0]), "key category count mean_s per_step_s cv p95_s best_law law_ks".split())
        self.assertEqual(rows, [{name: str(value) if isinstance(value, (str, int)) else row[name]
                                 for name, value in pool.items()} for row, pool in zip(rows, pools, strict=True)])
        for row, pool in zip(rows, pools):
            for name in ("mean_s", "cv", "p95_s", "law_ks"):
                self.assertEqual(float(row[name]), pool[name])

    def test_replay(self):
        rows = table("replay", EXAMPLE)
        steps = document("replay", EXAMPLE)["steps"]
        self.assertEqual([{name: float(value) for name, value in row.items()} for row in rows], steps)
        self.assertEqual(list(rows[0]), ["step", "observed_s", "replayed_s", "error"])

    def test_validate(self):
        rows = table("validate", EXAMPLE)
        result = document("validate", EXAMPLE)
        names = "name folds p50_error p95_error p95_error_low p95_error_high ks ks_noise crps_ratio".split()
        self.assertEqual(list(rows[0]), names)
        for row, m in zip(rows, result["models"] + result["baseline"], strict=True):
            self.assertEqual((row["name"], row["folds"]), (m["name"], m["folds"]))
            self.assertEqual([float(row["p95_error_low"]), float(row["p95_error_high"])], m["p95_error_range"])
            for name in ("p50_error", "p95_error", "ks", "ks_noise", "crps_ratio"):
                self.assertEqual(float(row[name]), m[name])

    def test_forecast(self):
        rows = table("forecast", EXAMPLE, "--samples", "300")
        self.assertEqual(list(rows[0]), ["sample", "step_time_s"])
        self.assertEqual([int(row["sample"]) for row in rows], list(range(300)))
        # More samples go on where fewer stop.
        self.assertEqual(rows, table("forecast", EXAMPLE)[:300])

    def test_excludes_json(self):
        self.assert_fails(USAGE, "replay", EXAMPLE, "--json", "--csv", says=["--json", "--csv"])


class OutputFile(CliTest):
    def test_holds_what_standard_output_would(self):
        for command in (["inspect", EXAMPLE], ["replay", EXAMPLE], ["validate", EXAMPLE], ["forecast", EXAMPLE],
                        ["model", "show", EXAMPLE]):
            for form in ([], ["--json"], ["--csv"]):
                if command[0] == "model" and form == ["--csv"]:
                    continue
                with self.subTest((*command, *form)):
                    file = self.folder / "result"
                    file.write_text("old")
                    self.assertEqual(prism(*command, *form, "-o", file), (DONE, "", ""))
                    self.assertEqual(file.read_bytes().decode(), known(*command, *form))
                    self.assertEqual([path.name for path in self.folder.iterdir()], ["result"])

    def test_dash_is_standard_output(self):
        self.assertEqual(known("replay", EXAMPLE, "-o", "-"), known("replay", EXAMPLE))

    def test_unwritable_place(self):
        file = self.folder / "file"
        file.write_text("old")
        folder = self.folder / "folder"
        folder.mkdir()
        for place in (self.folder / "absent" / "result", folder, file / "result", "/dev/full"):
            with self.subTest(place):
                code, out, err = prism("replay", EXAMPLE, "-o", place)
                self.assertNotIn(code, (DONE, CHECK_FAILED, INTERRUPTED))
                self.assertEqual(out, "")
                self.assertIn(str(place), err)
                self.assertIn("cannot be written", err)
        code, out, err = prism("model", "save", EXAMPLE, "-o", self.folder / "absent" / "m.prism")
        self.assertNotIn(code, (DONE, CHECK_FAILED, INTERRUPTED))
        self.assertEqual(out, "")
        self.assertIn("m.prism", err)
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*")), ["file", "folder"])
        self.assertEqual(file.read_text(), "old")

    def test_bad_input_leaves_the_old_file(self):
        file = self.folder / "result"
        file.write_text("old")
        self.assert_fails(BAD_INPUT, "replay", self.folder / "absent.csv", "-o", file)
        self.assertEqual((file.read_text(), len(list(self.folder.iterdir()))), ("old", 1))

    def test_full_standard_output(self):
        with open("/dev/full", "wb") as full:
            run = subprocess.run([PRISM, "replay", EXAMPLE], stdout=full, stderr=subprocess.PIPE, cwd=ROOT,
                                 timeout=TIMEOUT_S)
        self.assertNotIn(run.returncode, (DONE, CHECK_FAILED))
        self.assertIn(b"standard output", run.stderr)


class Export(CliTest):
    def export(self, *arguments):
        """The result document, and the traces by rank."""
        folder = self.folder / f"traces-{len(list(self.folder.iterdir()))}"
        result = document("export", EXAMPLE, "--kineto", "-o", folder, *arguments)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted(result["files"]))
        traces = {}
        for path in folder.iterdir():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            trace = json.loads(data)
            traces[trace["distributedInfo"]["rank"]] = trace
        return result, traces

    def test_one_strict_file_per_rank(self):
        result, traces = self.export()
        self.assertEqual(result["schema"], "prism.export/1")
        self.assertEqual((result["model"], result["seed"]), ("hierarchical", 1))
        self.assertEqual(sorted(traces), list(range(16)))
        for trace in traces.values():
            self.assertEqual(trace["distributedInfo"]["world_size"], 16)
            kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
            self.assertGreater(len(kernels), 20)

    def test_step_times_are_those_of_the_replay(self):
        result, traces = self.export("--step", "101:103", "--gzip")
        replayed = {step["step"]: step["replayed_s"] for step in document("replay", EXAMPLE)["steps"]}
        self.assertEqual([step["step"] for step in result["steps"]], [101, 102, 103])
        total = 0
        for step in result["steps"]:
            self.assertAlmostEqual(step["step_time_s"], replayed[step["step"]], delta=1e-9)
            total += step["step_time_s"]
        ends = [event["ts"] + event["dur"] for trace in traces.values() for event in trace["traceEvents"]
                if event.get("cat") == "kernel"]
        marks = [event["ts"] + event["dur"] for trace in traces.values() for event in trace["traceEvents"]
                 if event.get("cat") == "kernel" and event["args"]["correlation"] == 0]
        self.assertEqual(len(set(marks)), 1)
        self.assertAlmostEqual((max(ends) - marks[0]) / 1e6, total, delta=1e-8)

    def test_equal_seeds_equal_bytes(self):
        one, two = self.folder / "one", self.folder / "two"
        for folder in (one, two):
            known("export", EXAMPLE, "--kineto", "-o", folder, "--sample", "3", "--seed", "9")
        for path in one.iterdir():
            self.assertEqual(path.read_bytes(), (two / path.name).read_bytes())

    def test_never_mixes_with_other_files(self):
        (self.folder / "full").mkdir()
        (self.folder / "full" / "rank0.json").write_text("old")
        self.assert_fails(USAGE, "export", EXAMPLE, "--kineto", "-o", self.folder / "full", says=["full", "new folder"])
        self.assertEqual((self.folder / "full" / "rank0.json").read_text(), "old")

    def test_step_that_is_not_there(self):
        self.assert_fails(BAD_INPUT, "export", EXAMPLE, "--kineto", "-o", self.folder / "new", "--step", "7",
                          says=["no profiled step 7", "101 to 512"])
        self.assertFalse((self.folder / "new").exists())


class Usage(CliTest):
    def test_no_command(self):
        self.assert_fails(USAGE, says=["subcommand", "--help"])

    def test_unknown_command_suggests_the_nearest(self):
        for wrong, right in (("forcast", "forecast"), ("repaly", "replay"), ("inpect", "inspect"),
                             ("valdate", "validate"), ("modle", "model")):
            self.assert_fails(USAGE, wrong, EXAMPLE, says=[f"unknown command '{wrong}'", f"did you mean '{right}'?"])
        code, _, err = prism("xyzzy-plugh", EXAMPLE)
        self.assertEqual(code, USAGE)
        self.assertNotIn("did you mean", err)

    def test_several_inputs_are_traces_of_one_job(self):
        traces = [f"examples/fsdp-4gpu/rank{rank}.json.gz" for rank in range(4)]
        code, out, err = prism("replay", *traces, "--json")
        self.assertEqual(code, DONE, err)
        folder = document("replay", "examples/fsdp-4gpu")
        self.assertEqual(json.loads(out)["steps"], folder["steps"])
        self.assert_fails(BAD_INPUT, "replay", traces[0], traces[0], says=["rank 0"])
        self.assert_fails(BAD_INPUT, "replay", EXAMPLE, EXAMPLE, says=["is a directory"])

    def test_communication_patterns_come_from_a_file(self):
        patterns = self.folder / "patterns.txt"
        trace = "examples/fsdp-4gpu/rank0.json.gz"
        patterns.write_text("# all of it\n*backward*\n")
        pools = document("inspect", trace, "--communication", patterns)["pools"]
        self.assertEqual({p["category"] for p in pools if p["key"].startswith("backward")}, set())
        patterns.write_text("*nccl* = gossip\n")
        self.assert_fails(BAD_INPUT, "inspect", trace, "--communication", patterns, says=["patterns.txt:1", "gossip"])

    def test_a_trace_that_ends_before_its_gpu_work_says_where(self):
        cut = self.folder / "cut.json"
        cut.write_text(gzip.decompress((ROOT / "examples/fsdp-4gpu/rank0.json.gz").read_bytes()).decode()[:60_000])
        self.assert_fails(BAD_INPUT, "replay", cut, says=["cut.json at byte 60000", "ends early"])

    def test_wrong_arguments(self):
        for arguments, says in (
            (["forecast"], "INPUT"),
            (["forecast", EXAMPLE, "--sample", "5"], "--sample"),
            (["replay", EXAMPLE, "--samples", "5"], "--samples"),
            (["forecast", EXAMPLE, "--samples"], "--samples"),
            (["forecast", EXAMPLE, "--samples", "1"], "--samples"),
            (["forecast", EXAMPLE, "--samples", "1.5"], "--samples"),
            (["forecast", EXAMPLE, "--samples", "100000001"], "--samples"),
            (["forecast", EXAMPLE, "--seed", "-1"], "--seed"),
            (["forecast", EXAMPLE, "--seed", "4294967296"], "--seed"),
            (["forecast", EXAMPLE, "--threads", "0"], "--threads"),
            (["forecast", EXAMPLE, "--sampling", "recorded"], "hierarchical,step-block,regime,iid,iid-mixed"),
            (["replay", EXAMPLE, "--launch-delays", "some"], "clean,none,raw,off"),
            (["validate", EXAMPLE, "--target", "some"], "observed,replayed"),
            (["export", EXAMPLE, "--kineto"], "--output"),
            (["export", EXAMPLE, "-o", "unused"], "--kineto"),
            (["export", EXAMPLE, "--kineto", "-o", "unused", "--step", "1", "--sample", "1"], "--step"),
            (["export", EXAMPLE, "--kineto", "-o", "unused", "--sample", "0:1000"], "at most 1000"),
            (["model", "save", EXAMPLE], "--output"),
            (["model"], "subcommand"),
        ):
            with self.subTest(arguments):
                self.assert_fails(USAGE, *arguments, says=[says, "--help"])

    def test_precision_that_is_none(self):
        for text in ("0", "0%", "-1%", "100%", "1", "half", "%", "nan", "inf%", ""):
            with self.subTest(text):
                self.assert_fails(USAGE, "forecast", EXAMPLE, f"--precision={text}", says=["--precision"])

    OPTIONS = {
        ("inspect",): "--json --csv -o --output --steps --threads --fail-if --strict --rank --communication",
        ("replay",): "--json --csv -o --output --steps --threads --fail-if --strict --rank --communication --launch-delays",
        ("validate",): "--json --csv -o --output --steps --threads --fail-if --samples --seed --target",
        ("forecast",): "--json --csv -o --output --steps --threads --fail-if --samples --seed --sampling --precision "
                       "--timing",
        ("export",): "--json -o --output --kineto --step --sample --sampling --seed --gzip",
        ("model",): "save show",
        ("model", "save"): "-o --output --steps --anonymise",
        ("model", "show"): "--json -o --output",
        (): "inspect replay validate forecast export model --version",
    }

    def test_help_names_every_option(self):
        for command, options in self.OPTIONS.items():
            with self.subTest(command):
                text = known(*command, "--help")
                words = text.replace(",", " ").split()
                for option in ("--help", *options.split()):
                    self.assertIn(option, words)
                if command not in ((), ("model",)):
                    self.assertIn("INPUT", words)
                self.assertEqual(text, known(*command, "-h"))

    def test_help_says_exit_codes(self):
        for code in (0, 1, 2, 3, 4, 130):
            self.assertRegex(known("--help").split("Exit codes:")[1], rf"\b{code} \w")

    def test_version(self):
        self.assertRegex(known("--version"), r"^prism \d+\.\d+\.\d+\n$")
        self.assertEqual(document("replay", EXAMPLE)["version"], known("--version").split()[1])


class BadInput(CliTest):
    def test_missing_file(self):
        for command in (["inspect"], ["replay"], ["validate"], ["forecast"], ["model", "show"]):
            with self.subTest(command):
                self.assert_fails(BAD_INPUT, *command, "no/such/file.csv", says=["no/such/file.csv", "does not exist"])
        self.assert_fails(BAD_INPUT, "model", "save", "no/such/file.csv", "-o", self.folder / "m.prism",
                          says=["no/such/file.csv"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_unknown_format(self):
        self.assert_fails(BAD_INPUT, "replay", "LICENSE", says=["LICENSE", "format not recognised"])

    def test_damaged_model(self):
        model = self.folder / "m.prism"
        prism("model", "save", EXAMPLE, "-o", model)
        model.write_bytes(model.read_bytes()[:20000])
        self.assert_fails(BAD_INPUT, "forecast", model, says=["m.prism"])

    def test_too_few_steps(self):
        self.assert_fails(BAD_INPUT, "forecast", EXAMPLE, "--steps", "101", says=["one profiled step", "prism replay"])
        self.assert_fails(BAD_INPUT, "validate", EXAMPLE, "--steps", "101:103", says=["at least 4", "there are 3"])
        warnings = document("forecast", EXAMPLE, "--steps", "101:107")["warnings"]
        self.assertTrue(any("only 7 profiled steps" in warning for warning in warnings), warnings)


class FailIf(CliTest):
    NAMES = {
        "inspect": {"dropped": (-1, 1), "steps": (23, 25)},
        "replay": {"discrepancy": (-1, 1), "worst_error": (-1, 1)},
        "validate": {"ks_excess": (-1, 0), "p95_error": (-1, 1), "misfit": (-1, 1)},
        "forecast": {"mean": (1.9, 2.3), "cv": (0, 1), "p5": (1.9, 2.3), "p25": (1.9, 2.3), "p50": (1.9, 2.3),
                     "p75": (1.9, 2.3), "p95": (1.9, 2.3), "p99": (1.9, 2.3)},
    }

    def test_both_ways(self):
        for command, names in self.NAMES.items():
            out = known(command, EXAMPLE)
            above = [f"--fail-if={name}>{low}" for name, (low, _) in names.items()]
            below = [f"--fail-if={name}<{high}" for name, (_, high) in names.items()]
            for conditions in (above, below):
                with self.subTest(conditions):
                    code, printed, err = prism(command, EXAMPLE, *conditions)
                    self.assertEqual((code, printed), (CHECK_FAILED, out))
                    for condition in conditions:  # each is said, with the value
                        self.assertIn(f"check failed: {condition.removeprefix('--fail-if=')} (", err)
            holds_not = [f"--fail-if={name}<{low}" for name, (low, _) in names.items()]
            holds_not += [f"--fail-if={name}>{high}" for name, (_, high) in names.items()]
            with self.subTest(holds_not):
                self.assertEqual(prism(command, EXAMPLE, *holds_not), (DONE, out, ""))
                self.assertEqual(prism(command, EXAMPLE, holds_not[0], above[0])[0], CHECK_FAILED)

    def test_means_the_reported_value(self):
        p95 = next(q["value"] for q in document("forecast", EXAMPLE)["step_time_s"]["quantiles"] if q["p"] == 0.95)
        self.assertEqual(prism("forecast", EXAMPLE, f"--fail-if=p95>{p95 * 0.999999}")[0], CHECK_FAILED)
        self.assertEqual(prism("forecast", EXAMPLE, f"--fail-if=p95>{p95 * 1.000001}")[0], DONE)

    def test_unknown_name_lists_the_known_ones(self):
        for command, names in self.NAMES.items():
            for wrong in ("p96", ""):
                code, _, err = prism(command, EXAMPLE, f"--fail-if={wrong}>1")
                self.assertEqual(code, USAGE)
                for name in names:
                    self.assertIn(name, err)

    def test_condition_that_is_none(self):
        for condition in ("p95", "p95>", "p95>fast", "p95=2", ">", "p95>1>2"):
            with self.subTest(condition):
                code, _, err = prism("forecast", EXAMPLE, "--samples=50", f"--fail-if={condition}")
                self.assertEqual(code, USAGE)
                self.assertIn("expected NAME>NUMBER or NAME<NUMBER", err)


class Interrupt(CliTest):
    def run_until_progress(self, *arguments):
        """Runs with standard error on a terminal, interrupts at the first sign of progress."""
        try:
            terminal, other_end = pty.openpty()
        except OSError as error:
            self.skipTest(f"NOT TESTED: no pseudo-terminal here ({error})")
        self.addCleanup(os.close, terminal)
        run = subprocess.Popen([PRISM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=other_end, cwd=ROOT)
        os.close(other_end)
        shown = b""
        try:
            while b" left" not in shown:
                ready, _, _ = select.select([terminal], [], [], TIMEOUT_S)
                self.assertTrue(ready, "no progress is shown")
                shown += os.read(terminal, 4096)
            run.send_signal(signal.SIGINT)
            out, _ = run.communicate(timeout=TIMEOUT_S)
            while select.select([terminal], [], [], 0)[0]:
                try:
                    shown += os.read(terminal, 4096)
                except OSError:  # the other end is closed
                    break
        finally:
            run.kill()
            run.wait()
        return run.returncode, out, shown.decode()

    def test_long_forecast(self):
        file = self.folder / "result"
        code, out, shown = self.run_until_progress("forecast", EXAMPLE, "--samples", "50000000", "-o", file)
        self.assertEqual((code, out), (INTERRUPTED, b""))
        self.assertRegex(shown, r"\d+ %, about \d+ s left")
        self.assertIn("prism: interrupted", shown)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_long_validation(self):
        code, out, shown = self.run_until_progress("validate", EXAMPLE, "--samples", "5000000", "--threads", "1")
        self.assertEqual((code, out), (INTERRUPTED, b""))
        self.assertIn("prism: interrupted", shown)


class RaggedInput(CliTest):
    """A row is missing: one step is left out, and every command says so."""

    def setUp(self):
        super().setUp()
        self.trace = self.folder / "trace.csv"
        lines = gzip.decompress(TRACE.read_bytes()).decode().splitlines(keepends=True)
        del lines[next(i for i, line in enumerate(lines) if line.startswith("1,2,9,105,forward-compute"))]
        self.trace.write_text("".join(lines))

    def test_every_command_says_what_was_left_out(self):
        for command in (["inspect"], ["replay"], ["validate", "--samples", "100"], ["forecast", "--samples", "100"],
                        ["model", "show"]):
            with self.subTest(command):
                code, out, err = prism(*command, self.trace, "--json")
                self.assertEqual((code, err), (DONE, ""))
                result = json.loads(out)
                (entry,) = result["dropped"]
                self.assertEqual((entry["severity"], entry["count"]), ("data loss", 1))
                self.assertIn("step left out", entry["reason"])
                self.assertIn("105", entry["places"][0])
                self.assertIn("data loss: step left out", prism(*command, self.trace)[1])
        steps = json.loads(prism("inspect", self.trace, "--json")[1])["steps"]
        self.assertEqual(steps, [step for step in STEPS if step != 105])

    def test_can_fail_a_script(self):
        self.assertEqual(prism("inspect", self.trace, "--fail-if=dropped>0")[0], CHECK_FAILED)
        self.assertEqual(prism("inspect", EXAMPLE, "--fail-if=dropped>0")[0], DONE)

    def test_is_kept_in_a_saved_model(self):
        file = self.folder / "job.prism"
        self.assertEqual(prism("model", "save", self.trace, "-o", file)[0], DONE)
        self.assertEqual(json.loads(prism("forecast", file, "--json")[1]),
                         json.loads(prism("forecast", self.trace, "--json")[1]))


class Reproducible(CliTest):
    def test_threads_and_repeats(self):
        for command in (["inspect", EXAMPLE], ["replay", EXAMPLE], ["validate", EXAMPLE, "--samples", "300"],
                        ["forecast", EXAMPLE]):
            expected = known(*command, "--json")
            for threads in (["--threads", "1"], ["--threads", "2"], ["--threads", "3"], []):
                with self.subTest((*command, *threads)):
                    self.assertEqual(prism(*command, "--json", *threads), (DONE, expected, ""))
        for sampling in MODELS[1:]:
            run = ["forecast", EXAMPLE, "--samples", "500", "--sampling", sampling, "--csv", "--threads"]
            self.assertEqual(prism(*run, 1), prism(*run, 3))

    def test_seeds(self):
        values = [[row["step_time_s"] for row in table("forecast", EXAMPLE, "--samples", "100", "--seed", seed)]
                  for seed in ("0", "1", "2", "4294967295")]
        for i, first in enumerate(values):
            for second in values[:i]:
                # The law is discrete, so single values may coincide, but most do not.
                self.assertLess(sum(a == b for a, b in zip(first, second)), 10)
        self.assertEqual(document("forecast", EXAMPLE, "--samples", "100", "--seed", "2")["seed"], 2)
        a, b = (document("validate", EXAMPLE, "--samples", "100", "--seed", seed) for seed in ("1", "2"))
        self.assertNotEqual([m["ks"] for m in a["models"]], [m["ks"] for m in b["models"]])
        self.assertEqual(a["components"], b["components"])


class Sampling(CliTest):
    def test_each_model(self):
        means = {}
        for name in MODELS:
            result = document("forecast", EXAMPLE, "--sampling", name)
            self.assertEqual(result["model"], name)
            means[name] = result["step_time_s"]["mean"]
        self.assertEqual(len(set(means.values())), len(MODELS))
        self.assertEqual(known("forecast", EXAMPLE, "--json"),
                         known("forecast", EXAMPLE, "--json", "--sampling", "hierarchical"))
        observed = document("replay", EXAMPLE)["mean_observed_s"]
        for name, mean in means.items():
            self.assertAlmostEqual(mean / observed, 1, delta=0.02, msg=name)

    def p95_half_width(self, result):
        q = next(q for q in result["step_time_s"]["quantiles"] if q["p"] == 0.95)
        return (q["high"] - q["low"]) / 2 / q["value"]

    def test_precision(self):
        fine = document("forecast", EXAMPLE, "--precision", "0.1%")
        self.assertGreater(fine["samples"], 1000)
        self.assertLessEqual(self.p95_half_width(fine), 0.001)
        self.assertGreater(self.p95_half_width(document("forecast", EXAMPLE)), 0.001)
        self.assertEqual(known("forecast", EXAMPLE, "--json", "--precision", "0.1%"),
                         known("forecast", EXAMPLE, "--json", "--precision", "0.001"))
        # The samples are those of a run with as many asked for, and none are added where none are needed.
        self.assertEqual(fine, document("forecast", EXAMPLE, "--samples", fine["samples"]))
        self.assertEqual(document("forecast", EXAMPLE, "--precision", "5%"), document("forecast", EXAMPLE))

    def test_precision_out_of_reach_is_said(self):
        result = document("forecast", EXAMPLE, "--precision", "0.0001%", "--samples", "500000")
        self.assertEqual(result["samples"], 1000000)
        self.assertTrue(any("was not reached with 1000000 samples" in warning for warning in result["warnings"]))


class SameBits(unittest.TestCase):
    def test_whatever_instructions_the_math_library_uses(self):
        """exp and log differ in their last bit with and without fused multiply-add; results must not."""
        plain = prism("forecast", EXAMPLE, "--csv", "--samples", "3000")
        without = prism("forecast", EXAMPLE, "--csv", "--samples", "3000",
                        env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2"})
        self.assertEqual(plain, without)


class StepRange(CliTest):
    def test_ranges(self):
        for text, kept in (("103:106", STEPS[2:6]), (":104", STEPS[:4]), ("505:", STEPS[16:]), ("110:503", STEPS[9:15]),
                           ("107", [107]), ("0:99999999", STEPS), (":", STEPS)):
            with self.subTest(text):
                for command in ("inspect", "replay"):
                    steps = document(command, EXAMPLE, "--steps", text)["steps"]
                    self.assertEqual([step if command == "inspect" else step["step"] for step in steps], kept)
        self.assertEqual(document("validate", EXAMPLE, "--steps", "103:112", "--samples", "100")["steps"], list(range(103, 113)))
        windows = document("forecast", EXAMPLE, "--steps", ":112", "--samples", "100")["windows"]
        self.assertEqual([(w["first_step"], w["last_step"]) for w in windows], [(101, 112)])
        self.assertEqual(known("replay", EXAMPLE, "--json", "--steps", ":"), known("replay", EXAMPLE, "--json"))

    def test_bad_ranges(self):
        for text in ("", "a", "5:1", "-1:5", "1:2:3", "1-5", "1.5:2", "99999999999:"):
            with self.subTest(text):
                self.assert_fails(USAGE, "replay", EXAMPLE, "--steps", text, says=["--steps", "FIRST:LAST"])

    def test_range_without_steps(self):
        self.assert_fails(BAD_INPUT, "replay", EXAMPLE, "--steps", "200:300",
                          says=["no row in steps 200 to 300", "prism inspect"])


class StandardInput(CliTest):
    def test_plain_and_compressed(self):
        packed = TRACE.read_bytes()
        expected = without_inputs(document("replay", EXAMPLE))
        digest = document("replay", EXAMPLE)["inputs"][0]["digest"]
        for content in (packed, gzip.decompress(packed)):
            code, out, err = prism("replay", "-", "--json", stdin=content)
            self.assertEqual((code, err), (DONE, ""))
            self.assertEqual(without_inputs(out), expected)
            self.assertEqual(json.loads(out)["inputs"], [{"path": "standard input", "digest": digest}])

    def test_behind_a_pipe(self):
        with subprocess.Popen(["gunzip", "-c", TRACE], stdout=subprocess.PIPE) as unpack:
            run = subprocess.run([PRISM, "forecast", "-", "--json"], stdin=unpack.stdout, capture_output=True, cwd=ROOT,
                                 timeout=TIMEOUT_S)
        self.assertEqual((run.returncode, run.stderr), (DONE, b""))
        self.assertEqual(without_inputs(run.stdout.decode()), without_inputs(document("forecast", EXAMPLE)))

    def test_a_pipe_by_name(self):
        """A pipe's first bytes are gone once read, so it cannot be sniffed like a file."""
        with subprocess.Popen(["cat", TRACE], stdout=subprocess.PIPE) as source:
            run = subprocess.run([PRISM, "replay", "/dev/stdin", "--json"], stdin=source.stdout, capture_output=True,
                                 cwd=ROOT, timeout=TIMEOUT_S)
        self.assertEqual((run.returncode, run.stderr), (DONE, b""))
        self.assertEqual(json.loads(run.stdout)["steps"], document("replay", EXAMPLE)["steps"])

    def test_takes_no_metadata_from_the_working_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "meta.yaml").write_text("tp_size: 64\n")
            run = subprocess.run([PRISM, "inspect", "-", "--json"], input=TRACE.read_bytes(), capture_output=True,
                                 cwd=folder, timeout=TIMEOUT_S)
        self.assertEqual(run.returncode, DONE, run.stderr)
        self.assertEqual(json.loads(run.stdout)["mesh"]["tp"], 1)

    def test_empty_or_cut(self):
        self.assert_fails(BAD_INPUT, "replay", "-", says=["standard input", "empty"])
        self.assert_fails(BAD_INPUT, "replay", "-", stdin=TRACE.read_bytes()[:5000], says=["standard input", "gzip"])


class SavedModel(CliTest):
    RUNS = (["inspect"], ["replay"], ["validate"], ["forecast"], ["model", "show"])

    def save(self, source, name="job.prism", *options):
        file = self.folder / name
        code, out, err = prism("model", "save", source, "-o", file, *options)
        self.assertEqual((code, err), (DONE, ""))
        self.assertTrue(out.startswith(f"saved {file}\n"))
        self.assertEqual(out.split("\n", 1)[1], prism("model", "show", file)[1])
        return file

    def assert_same_results(self, file, source, runs=RUNS):
        for run in runs:
            with self.subTest(run):
                code, out, err = prism(*run, file, "--json")
                self.assertEqual((code, err), (DONE, ""))
                self.assertEqual(without_inputs(out), without_inputs(document(*run, source)))

    def test_gives_the_results_of_the_trace(self):
        file = self.save(EXAMPLE)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["job.prism"])
        self.assert_same_results(file, EXAMPLE)
        inputs = json.loads(prism("replay", file, "--json")[1])["inputs"]
        self.assertEqual(inputs, document("replay", EXAMPLE)["inputs"])
        for mode in ("none", "raw", "off"):
            self.assertEqual(prism("replay", file, "--launch-delays", mode, "--csv")[1],
                             known("replay", EXAMPLE, "--launch-delays", mode, "--csv"))
        self.assertEqual(prism("validate", file, "--target", "replayed", "--csv")[1],
                         known("validate", EXAMPLE, "--target", "replayed", "--csv"))
        self.assertEqual(prism("forecast", file)[1], known("forecast", EXAMPLE))

    def test_equal_inputs_give_equal_files(self):
        first = self.save(EXAMPLE, "a.prism")
        second = self.save(EXAMPLE, "b.prism")
        self.assertEqual(first.read_bytes(), second.read_bytes())
        again = self.save(first, "c.prism")
        self.assertEqual(first.read_bytes(), again.read_bytes())

    def test_of_a_part_of_the_steps(self):
        file = self.save(EXAMPLE, "part.prism", "--steps", ":112")
        self.assertEqual(json.loads(prism("inspect", file, "--json")[1])["steps"], STEPS[:12])
        self.assertEqual(prism("forecast", file, "--csv")[1], known("forecast", EXAMPLE, "--steps", ":112", "--csv"))

    def test_steps_of_a_saved_model(self):
        file = self.save(EXAMPLE)
        steps = json.loads(prism("replay", file, "--json", "--steps", "103:106")[1])["steps"]
        self.assertEqual([step["step"] for step in steps], [103, 104, 105, 106])
        self.assert_fails(BAD_INPUT, "replay", file, "--steps", "200:300", says=["no profiled step in 200 to 300"])

    def test_reports_as_json(self):
        file = self.folder / "job.prism"
        code, out, err = prism("model", "save", EXAMPLE, "-o", file, "--json")
        self.assertEqual((code, err), (DONE, ""))
        self.assertEqual(json.loads(out), {**document("model", "show", EXAMPLE), "schema": "prism.model.save/1"})

    def test_replaces_an_old_file(self):
        file = self.folder / "job.prism"
        file.write_text("something else")
        self.save(EXAMPLE)
        self.assert_same_results(file, EXAMPLE, [["replay"]])

    def test_anonymised(self):
        place = self.folder / "zebra-cluster"
        place.mkdir()
        shutil.copy(TRACE, place / "zebra-trace.csv.gz")
        meta = (ROOT / EXAMPLE / "meta.yaml").read_text()
        (place / "meta.yaml").write_text(meta.replace("pipeline-16gpu", "zebra-run"))
        named = self.save(place, "named.prism").read_bytes()
        for name in (b"zebra-cluster", b"zebra-trace", b"zebra-run"):
            self.assertIn(name, named)
        file = self.save(place, "hidden.prism", "--anonymise")
        for name in (b"zebra", self.folder.name.encode(), b".csv", b"/tmp"):
            self.assertNotIn(name, file.read_bytes())
        self.assert_same_results(file, EXAMPLE, [["replay"], ["validate"], ["forecast"], ["inspect"]])
        inputs = json.loads(prism("replay", file, "--json")[1])["inputs"]
        self.assertEqual(inputs, [{"path": "anonymised", "digest": ""}])


def write_graph(folder, nodes, edges, pools, mesh=()):
    """A user's own graph: rows as text without their headers."""
    folder.mkdir()
    (folder / "nodes.csv").write_text("\n".join(["node,pool,rank,group_size,category", *nodes, ""]))
    (folder / "edges.csv").write_text("\n".join(["before,after", *edges, ""]))
    (folder / "pools.csv").write_text("\n".join(["pool,duration_s", *pools, ""]))
    if mesh:
        (folder / "mesh.csv").write_text("\n".join(["axis,size", *mesh, ""]))


class Replicas(CliTest):
    def test_as_many_as_traced_changes_nothing(self):
        self.assertEqual(known("forecast", EXAMPLE, "--replicas", 4), known("forecast", EXAMPLE))

    def test_more_replicas_take_longer_and_are_said(self):
        result = document("forecast", EXAMPLE, "--replicas", 16, "--spatial-cv", "3%", "--samples", 500)
        self.assertEqual(result["graph"], {"nodes": 364, "edges": 583, "ranks": 64, "traced_ranks": 16, "replicas": 16})
        self.assertEqual([entry["reason"] for entry in result["dropped"]],
                         ["16 of 64 ranks traced: the other 48 are copies that draw their own profiled steps",
                          "compute of copied ranks differs by 3 %, as given"])
        self.assertIn("each traced replica stands for 4 of them", result["warnings"][0])
        plain = document("forecast", EXAMPLE)["step_time_s"]
        self.assertGreater(result["step_time_s"]["mean"], plain["mean"])
        self.assertIsNone(result["guarantee"])
        self.assertIn("a job of 64 ranks", result["reason"])
        text = known("forecast", EXAMPLE, "--replicas", 16, "--spatial-cv", "3%", "--samples", 500)
        for part in ["64 GPUs (dp 16 x pp 4), 16 traced", "16 replicas x 4 ranks",
                     "info: 16 of 64 ranks traced: the other 48 are copies that draw their own profiled steps\n"]:
            self.assertIn(part, text)

    def test_inspect(self):
        result = document("inspect", EXAMPLE, "--replicas", 8)
        self.assertEqual((result["ranks"], result["ops"]), (32, 2 * 744))
        self.assertEqual(result["pools"], document("inspect", EXAMPLE)["pools"])

    def test_own_graph(self):
        result = document("forecast", "examples/own-graph", "--replicas", 24, "--samples", 300)
        self.assertEqual(result["graph"]["replicas"], 24)
        self.assertEqual([entry["reason"] for entry in result["dropped"]],
                         ["24 replicas of the graph instead of 8"])

    def part_of_a_job(self):
        """The example as a trace of 16 of 32 ranks whose parameter gathers hold waiting for the others."""
        file = self.folder / "part.prism"
        self.assertEqual(prism("model", "save", EXAMPLE, "-o", file)[0], DONE)
        with contextlib.closing(sqlite3.connect(file)) as saved, saved:
            saved.execute("UPDATE meta SET value = '32' WHERE key = 'world_ranks'")
            saved.execute("UPDATE duration_class SET category = 'waiting for untraced ranks' WHERE key LIKE 'params%'")
        return file

    def test_all_ranks_of_the_job_unless_told(self):
        file = self.part_of_a_job()
        code, out, err = prism("forecast", file, "--json", "--samples", 300)
        self.assertEqual((code, err), (DONE, ""))
        result = json.loads(out)
        self.assertEqual((result["graph"]["ranks"], result["graph"]["replicas"]), (32, 8))
        reasons = {entry["reason"]: entry["count"] for entry in result["dropped"]}
        self.assertIn("16 of 32 ranks traced: the other 16 are copies that draw their own profiled steps", reasons)
        self.assertEqual(reasons["wait for ranks that were not traced: now comes out of the simulation"], 4)
        self.assertEqual(result["reason"], "needs 59 profiled steps, there are 24")  # it is the observed job
        as_traced = json.loads(prism("forecast", file, "--json", "--samples", 300, "--replicas", 4)[1])
        self.assertEqual(as_traced["graph"]["replicas"], 4)
        self.assertEqual(as_traced["dropped"], [])
        self.assertEqual(json.loads(prism("inspect", file, "--json")[1])["ranks"], 16)

    def test_mistakes(self):
        self.assert_fails(USAGE, "forecast", EXAMPLE, "--replicas", 0)
        self.assert_fails(USAGE, "forecast", EXAMPLE, "--spatial-cv", "3%", says=["--replicas"])
        self.assert_fails(USAGE, "forecast", EXAMPLE, "--spatial-cv", "-3%", "--replicas", 8, says=["--spatial-cv"])
        self.assert_fails(USAGE, "forecast", EXAMPLE, "--spatial-cv", "300%", "--replicas", 8, says=["below 100 %"])


class Anchor(CliTest):
    def log(self, times, name="train.log"):
        file = self.folder / name
        file.write_text("".join(
            f" iteration {i:8}/ 500 | elapsed time per iteration (ms): {t * 1000:.3f} | lm loss: 7.9E+00 |\n"
            for i, t in enumerate(times, 1)))
        return file

    def test_seconds(self):
        plain = document("forecast", EXAMPLE)
        self.assertIsNone(plain["anchor"])
        result = document("forecast", EXAMPLE, "--anchor", "1.8")
        observed = quantile([step["observed_s"] for step in document("replay", EXAMPLE)["steps"]], 0.5)
        factor = result["anchor"].pop("factor")
        self.assertAlmostEqual(factor, 1.8 / observed, places=9)
        self.assertEqual(result["anchor"], {"source": "1.8", "steps": 0, "uses_log_variation": False})
        for name in ("mean", "std", "min", "max"):
            self.assertAlmostEqual(result["step_time_s"][name], factor * plain["step_time_s"][name], places=9)
        self.assertFalse([w for w in result["warnings"] if "profiled steps run slower" in w])
        self.assertIn("needs a log", result["reason"])
        self.assertEqual(document("forecast", EXAMPLE, "--anchor", "1800ms")["step_time_s"], result["step_time_s"])

    def test_log(self):
        times = [9, 2.5, *(1.7 + 0.01 * (i * 7 % 11) for i in range(80)), 30]
        file = self.log(times)
        code, out, err = prism("forecast", EXAMPLE, "--anchor", file, "--json")
        self.assertEqual((code, err), (DONE, ""))
        result = json.loads(out)
        self.assertEqual((result["anchor"]["source"], result["anchor"]["steps"]), (str(file), 80))
        self.assertTrue(result["anchor"]["uses_log_variation"])
        self.assertEqual([(entry["reason"], entry["count"]) for entry in result["dropped"]],
                         [("logged step left out: warm-up", 2),
                          ("logged step left out: over 1.5 times the median (checkpoint, evaluation, hiccup)", 1)])
        steady = times[2:-1]
        mean = sum(steady) / len(steady)
        cv = math.sqrt(sum((t - mean) ** 2 for t in steady) / (len(steady) - 1)) / mean
        self.assertAlmostEqual(result["step_time_s"]["cv"], cv, delta=0.1 * cv)
        self.assertAlmostEqual(result["step_time_s"]["quantiles"][2]["value"], quantile(steady, 0.5), delta=0.01)
        self.assertEqual(result["guarantee"]["bound_s"], 1.8)  # of 80 times, the largest but one; each of 11 comes 7 times
        text = prism("forecast", EXAMPLE, "--anchor", file)[1]
        self.assertIn(f"anchor: {file}, 80 unprofiled steps; profiled steps are taken times", text)
        self.assertIn("with the spread of the log", text)

    def test_mistakes(self):
        self.assert_fails(BAD_INPUT, "forecast", EXAMPLE, "--anchor", self.folder / "none.log", says=["does not exist"])
        self.assert_fails(BAD_INPUT, "forecast", EXAMPLE, "--anchor", "0", says=["more than 0"])
        other = self.folder / "other.txt"
        other.write_text("nothing\nhere\n")
        self.assert_fails(BAD_INPUT, "forecast", EXAMPLE, "--anchor", other, says=["no step time found"])
        self.assert_fails(BAD_INPUT, "forecast", "examples/own-graph", "--anchor", "1", says=["nothing to anchor"])


class OwnGraph(CliTest):
    def graph(self, **parts):
        """load -> (walk, swim) -> meet over 3 replicas; walk takes 1 or 2 s, swim 1.5 s."""
        folder = self.folder / "graph"
        write_graph(folder, **{
            "nodes": ["load,loading,0,,local", "walk,walking,0,,compute", "swim,swimming,1,,compute",
                      "meet,meeting,0,all,collective"],
            "edges": ["load,walk", "load,swim", "walk,meet", "swim,meet"],
            "pools": ["loading,0.5", "walking,1", "walking,2", "swimming,1.5", "meeting,0.25"],
            "mesh": ["dp,3"], **parts})
        return folder

    def test_host_and_queue_categories_need_no_profiled_steps(self):
        folder = self.graph(nodes=["load,loading,0,,host-work", "walk,walking,0,,compute", "swim,swimming,1,,queue-lag",
                                   "meet,meeting,0,all,collective"])
        pools = document("inspect", folder)["pools"]
        self.assertEqual({pool["category"] for pool in pools}, {"host work", "compute", "queue lag", "collective"})
        self.assertEqual(document("forecast", folder)["step_time_s"]["max"], 2.75)

    def test_forecast(self):
        folder = self.graph()
        result = document("forecast", folder, "--samples", "4000")
        self.assertEqual((result["model"], result["samples"], result["windows"]), ("iid", 4000, []))
        self.assertEqual(result["graph"], {"nodes": 4, "edges": 4, "ranks": 6, "traced_ranks": 6, "replicas": 3})
        self.assertEqual(result["dropped"], [])
        # All three walk fast in one step of eight: 0.5 + 1.5 + 0.25; else 0.5 + 2 + 0.25.
        times = result["step_time_s"]
        self.assertEqual((times["min"], times["max"]), (2.25, 2.75))
        share = (2.75 - times["mean"]) / 0.5
        self.assertAlmostEqual(share, 1 / 8, delta=5 * math.sqrt(7 / 64 / 4000))
        for q in times["quantiles"]:
            self.assertEqual(q["value"], 2.25 if q["p"] < 0.1 else 2.75)
            self.assertIsNone(q["input_low"])
        self.assertEqual(result["guarantee"]["bound_s"], 2.75)
        self.assertIn("pools without profiled steps", known("forecast", folder))

    def test_inspect(self):
        pools = document("inspect", self.graph())["pools"]
        self.assertEqual([(p["key"], p["category"], p["mean_s"]) for p in sorted(pools, key=lambda p: p["key"])],
                         [("loading", "local", 0.5), ("meeting", "collective", 0.25), ("swimming", "compute", 1.5),
                          ("walking", "compute", 1.5)])

    def test_what_needs_profiled_steps_says_what_to_do(self):
        folder = self.graph()
        self.assert_fails(BAD_INPUT, "replay", folder, says=["nothing to replay", "fix: prism forecast"])
        self.assert_fails(BAD_INPUT, "validate", folder, says=["profiled steps"])
        self.assert_fails(BAD_INPUT, "forecast", folder, "--sampling", "hierarchical",
                          says=["needs profiled steps", "--sampling iid"])

    def test_saved_and_anonymised(self):
        folder = self.graph()
        expected = known("forecast", folder, "--csv")
        for name, options in (("named", []), ("hidden", ["--anonymise"])):
            file = self.folder / f"{name}.prism"
            self.assertEqual(prism("model", "save", folder, "-o", file, *options)[0], DONE)
            self.assertEqual(prism("forecast", file, "--csv"), (DONE, expected, ""))
            for word in (b"walking", b"swim", b"graph", b"meet"):
                self.assertEqual(word in file.read_bytes().replace(b"edge", b""), name == "named", (name, word))

    def test_mistakes_name_file_and_line(self):
        for number, (parts, says) in enumerate((
            ({"edges": ["load,walk", "load,run"]}, ["edges.csv:3", "run"]),
            ({"edges": ["load,walk", "walk,swim", "swim,load"]}, ["load", "walk", "swim"]),
            ({"pools": ["loading,0.5", "walking,1", "swimming,1"]}, ["nodes.csv:5", "meeting"]),
            ({"nodes": ["load,loading,0,,local", "load,loading,0,,local"], "edges": []}, ["nodes.csv:3", "load"]),
        )):
            with self.subTest(says):
                folder = self.graph(**parts)
                self.assert_fails(BAD_INPUT, "forecast", folder, says=says)
                folder.rename(self.folder / str(number))


def main(module, usage):
    """Runs the tests of `module` on the program that the first argument names."""
    global PRISM
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(usage, file=sys.stderr)
        return 2
    PRISM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(module)
    return 0


if __name__ == "__main__":
    sys.exit(main("__main__", __doc__))
