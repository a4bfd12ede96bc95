#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of the program on plans.

usage: plans_test.py PRISM [unittest arguments]      PRISM is the built binary
"""

import csv
import io
import json
import sys

import cli_test
from cli_test import BAD_INPUT, DONE, EXAMPLE, ROOT, CliTest, document, known, prism


class Plans(CliTest):
    """Plans of published runs, and small ones made here."""

    SMALL = """
[model]
layers = 8
hidden = 1024
heads = 16
vocabulary = 32000
sequence = 2048
[batch]
microbatches = 8
[parallel]
tp = 2
pp = 4
dp = 2
[cluster]
gpu = "H100"
"""

    def plan(self, text=None, **replaced):
        path = self.folder / "plan.toml"
        text = text or self.SMALL
        for key, value in replaced.items():
            lines = [f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in text.splitlines()]
            text = "\n".join(lines) + "\n"
        path.write_text(text)
        return path

    def test_forecasts_of_published_runs_are_near_the_published_step_times(self):
        """docs/accuracy.md; here the quick ones, with few samples. Published or measured medians, in seconds."""
        for name, published, bound in [("gpt-1t-512-a100", 71.49, 0.10), ("mlperf-gpt-3-175b-11616-h100", 0.922, 0.10)]:
            result = document("forecast", f"examples/plans/{name}.toml", "--samples", 20)
            p50 = result["step_time_s"]["quantiles"][2]["value"]
            self.assertLess(abs(p50 / published - 1), bound, f"{name}: {p50}")

    def test_every_example_is_inspected_with_the_source_of_every_value(self):
        for path in sorted((ROOT / "examples/plans").glob("*.toml")):
            result = document("inspect", path.relative_to(ROOT))
            self.assertEqual(result["schema"], "prism.inspect.plan/1")
            self.assertGreater(len(result["settings"]), 60)
            self.assertTrue(all(s["source"] for s in result["settings"]))
            for rank in result["memory_bytes"]:
                parts = sum(rank[k] for k in ("weights", "gradients", "optimizer", "activations", "other"))
                self.assertAlmostEqual(parts, rank["total"], delta=1)
        text = known("inspect", "examples/plans/gpt-3-175b-64-a100.toml")
        for word in ("GPU memory, GB", "messages of a rank and step", "settings", "default: "):
            self.assertIn(word, text)

    def test_results_do_not_depend_on_threads(self):
        path = self.plan()
        outputs = {prism("forecast", path, "--threads", n, "--samples", 100, "--json")[1] for n in (1, 2, 3)}
        self.assertEqual(len(outputs), 1)

    def test_a_plan_comes_from_standard_input_too(self):
        code, out, err = prism("forecast", "-", "--samples", 50, "--json", stdin=self.SMALL.encode())
        self.assertEqual((code, err), (DONE, ""))
        self.assertEqual(json.loads(out)["step_time_s"]["quantiles"],
                         json.loads(prism("forecast", self.plan(), "--samples", 50, "--json")[1])["step_time_s"]["quantiles"])

    def test_collapsing_is_refused_unless_replicas_cannot_differ(self):
        self.assert_fails(BAD_INPUT, "forecast", self.plan(), "--collapse", says=["not exchangeable", "varies"])
        still = self.plan(self.SMALL + '[variability]\nlevel = "none"\nstep = "2 %"\n')
        results = [json.loads(prism("forecast", still, "--samples", 60, "--json", *collapse)[1])["step_time_s"]
                   for collapse in ([], ["--collapse"])]
        self.assertEqual(results[0], results[1])

    def test_a_sweep_ranks_ways_and_counts_what_is_not_possible(self):
        space = ["--tp", "1,2", "--pp", "2,4", "--schedule", "1f1b,zb-h1,dualpipe", "--samples", 40]
        result = json.loads(prism("plan", "sweep", self.plan(), *space, "--json")[1])
        self.assertEqual(result["schema"], "prism.plan.sweep/1")
        self.assertEqual(result["tried"], len(result["ways"]) + sum(r["count"] for r in result["refused"]))
        p50 = [way["quantiles"][0]["value"] for way in result["ways"]]
        self.assertEqual(p50, sorted(p50))
        self.assertEqual(sorted(way["rank_by_p95"] for way in result["ways"]), list(range(1, len(p50) + 1)))
        for way in result["ways"]:
            self.assertEqual(way["tp"] * way["cp"] * way["pp"] * way["dp"], 16)
            self.assertLessEqual(way["p50_to_best_s"]["low"], way["p50_to_best_s"]["high"])
        text = prism("plan", "sweep", self.plan(), *space)[1]
        self.assertIn("by p50", text)
        self.assertIn("by p95", text)
        rows = list(csv.DictReader(io.StringIO(prism("plan", "sweep", self.plan(), *space, "--csv")[1])))
        self.assertEqual(len(rows), len(p50))

    def test_what_a_plan_cannot_do_is_said(self):
        path = self.plan()
        self.assert_fails(BAD_INPUT, "forecast", path, "--steps", "1:2", says=["no profiled steps"])
        self.assert_fails(BAD_INPUT, "forecast", path, "--replicas", 8, says=["change dp in the plan"])
        self.assert_fails(BAD_INPUT, "replay", path, says=[])
        self.assert_fails(BAD_INPUT, "model", "save", path, "-o", self.folder / "m.prism", says=["keep the plan"])
        self.assert_fails(BAD_INPUT, "plan", "sweep", EXAMPLE + "/trace.csv.gz", says=["no plan"])
        self.assert_fails(BAD_INPUT, "forecast", self.plan(self.SMALL + "[modle]\n"), says=["did you mean 'model'"])
        self.assert_fails(BAD_INPUT, "inspect", self.plan(tp='"two"'), says=["plan.toml:11", "whole number"])


if __name__ == "__main__":
    sys.exit(cli_test.main("__main__", __doc__))
