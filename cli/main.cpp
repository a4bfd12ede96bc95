// SPDX-License-Identifier: Apache-2.0
// The program's front: options into plain structs, dispatch, errors into exit codes.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "prism/io/csv.hpp"
#include "prism/report/run_info.hpp"
#include "prism/trace/error.hpp"

namespace prism::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

extern "C" void on_interrupt(int) {
  interrupted.store(true, std::memory_order_relaxed);
}

constexpr const char* kAbout =
    "prism: how long a training step takes, as a distribution, from traces of real steps or from a plan.\n\n"
    "  INPUT  traces of the PyTorch profiler (JSON, one file per rank: a file, several, or a folder), an "
    "op-level\n"
    "         timeline (CSV) or a folder with one, all may be gzip or zstd; a plan (TOML); a saved model "
    "(.prism);\n"
    "         or a folder with your own nodes.csv, edges.csv and pools.csv";

constexpr const char* kExamples =
    "Examples:\n"
    "  prism inspect  traces/                   what is in it, and what was left out\n"
    "  prism replay   traces/                   does the graph reproduce the steps it was made from?\n"
    "  prism validate rank0.json rank1.json     does it predict steps it has not seen?\n"
    "  prism forecast trace.csv.gz --json       the step-time distribution\n"
    "  prism inspect  plan.toml                 what a plan comes to: memory, messages, every default\n"
    "  prism plan sweep plan.toml --tp 4,8 --pp 8,16   other ways to run it, by p50 and by p95\n"
    "  prism export   trace.csv.gz --kineto -o traces   a simulated step as profiler traces\n\n"
    "Exit codes: 0 done, 1 a --fail-if check failed, 2 usage, 3 bad input, 4 internal error, 130 "
    "interrupted.";

constexpr int kMostExportedSamples = 1000;  // all are held in memory

const std::map<std::string, LaunchDelays> kLaunchDelays = {{"clean", LaunchDelays::Clean},
                                                           {"none", LaunchDelays::None},
                                                           {"raw", LaunchDelays::Raw},
                                                           {"off", LaunchDelays::Off}};

/// Owns the parsed options; subcommands refer to them.
struct Options {
  InspectOptions inspect;
  ReplayOptions replay;
  ValidateCommandOptions validate;
  ForecastCommandOptions forecast;
  ModelSaveOptions save;
  ExportOptions exported;
  CommonOptions show;
  PlanSweepOptions sweep;
};

/// "A:B" (inclusive), "A", ":B" or "A:" as numbers from 0.
std::pair<int, int> parse_range(const char* option, const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto first = colon == 0 ? std::optional<std::int64_t>(0) : parse_int(text.substr(0, colon));
  std::optional<std::int64_t> last = first;
  if (colon != std::string::npos) {
    last = colon + 1 == text.size() ? std::numeric_limits<int>::max() : parse_int(text.substr(colon + 1));
  }
  if (!first || !last || *first < 0 || *last < *first || *last > std::numeric_limits<int>::max()) {
    throw CLI::ValidationError(option, "expected FIRST:LAST (inclusive), for example 100:200");
  }
  return {static_cast<int>(*first), static_cast<int>(*last)};
}

/// "0.5%" or "0.005" as a share.
double parse_share(const std::string& option, const std::string& text, bool may_be_zero = false) {
  const bool percent = text.ends_with('%');
  const auto value = parse_double(percent ? text.substr(0, text.size() - 1) : text);
  if (!value || !(*value > 0 || (may_be_zero && *value == 0))) {
    throw CLI::ValidationError(option, "expected a share such as 0.5%");
  }
  const double share = percent ? *value / 100 : *value;
  if (share >= 1) throw CLI::ValidationError(option, "must be below 100 %; 0.5% means half a percent");
  return share;
}

void add_input(CLI::App* app, CommonOptions& common) {
  app->add_option(
         "INPUT", common.inputs,
         "a trace, folder or model; - is standard input; several: profiler traces of one job, one per rank")
      ->required();
  app->add_flag("--strict", common.strict, "refuse profiler traces that are not sound JSON");
  app->add_option("--rank", common.rank, "the rank of a profiler trace that does not say it")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  app->add_option(
         "--communication", common.communication,
         "names of kernels that are communication, one pattern a line, in place of the built-in list")
      ->type_name("FILE");
}

void add_format(CLI::App* app, CommonOptions& common, bool csv) {
  auto* json = app->add_flag_callback(
      "--json", [&] { common.format = Format::Json; }, "one JSON document");
  if (csv) {
    app->add_flag_callback(
           "--csv", [&] { common.format = Format::Csv; }, "rows as CSV")
        ->excludes(json);
  }
  app->add_option("-o,--output", common.output, "write to FILE (atomically) instead of standard output")
      ->type_name("FILE");
}

void add_steps(CLI::App* app, CommonOptions& common) {
  app->add_option_function<std::string>(
         "--steps", [&](const std::string& text) { common.steps = parse_range("--steps", text); },
         "use profiled steps FIRST:LAST only")
      ->type_name("A:B");
}

/// What all commands that compute a result take.
void add_common(CLI::App* app, CommonOptions& common) {
  add_input(app, common);
  add_format(app, common, true);
  add_steps(app, common);
  app->add_option("--threads", common.control.threads,
                  "worker threads; results do not depend on it (default: all cores)")
      ->check(CLI::Range(1U, 4096U))
      ->type_name("T");
  app->add_option("--fail-if", common.fail_if,
                  "exit with 1 if NAME>NUMBER or NAME<NUMBER holds; may be repeated")
      ->type_name("COND")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_seed(CLI::App* app, std::uint32_t& seed) {
  app->add_option("--seed", seed, "equal seeds give equal results")
      ->capture_default_str()
      ->check(CLI::Range(0U, std::numeric_limits<std::uint32_t>::max()))
      ->type_name("S");
}

void add_sampling(CLI::App* app, SamplingOptions& sampling) {
  app->add_option("--samples", sampling.samples, "Monte Carlo samples of the step")
      ->capture_default_str()
      ->check(CLI::Range(2U, 100'000'000U))
      ->type_name("N");
  add_seed(app, sampling.seed);
}

void add_sampling_model(CLI::App* app, std::optional<Sampling>& model) {
  std::vector<std::string> names;
  for (const Sampling sampling : kSamplingModels) names.emplace_back(sampling_name(sampling));
  app->add_option_function<std::string>(
         "--sampling", [&model](const std::string& name) { model = sampling_from_name(name); },
         "sampling model (default: hierarchical; iid for pools without profiled steps)")
      ->check(CLI::IsMember(names))
      ->type_name("NAME");
}

/// Which steps an export writes.
void add_exported_steps(CLI::App* app, ExportOptions& options) {
  auto* step =
      app->add_option_function<std::string>(
             "--step", [&](const std::string& text) { options.recorded_steps = parse_range("--step", text); },
             "replay profiled step A, or steps A:B one after the other")
          ->type_name("A[:B]");
  app->add_option_function<std::string>(
         "--sample",
         [&](const std::string& text) {
           const auto [first, last] = parse_range("--sample", text);
           if (last - first >= kMostExportedSamples) {
             throw CLI::ValidationError("--sample", "at most 1000 samples at once");
           }
           options.samples = {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)};
         },
         "draw sample A, or samples A:B (default: sample 0)")
      ->excludes(step)
      ->type_name("A[:B]");
}

void add_extension(CLI::App* app, ExtensionOptions& extension) {
  app->add_option("--replicas", extension.replicas,
                  "data-parallel replicas of the job; those that were not traced are copies (default: all\n"
                  "ranks of the traced job)")
      ->check(CLI::Range(1U, 1U << 24))
      ->type_name("D");
  app->add_option_function<std::string>(
         "--spatial-cv",
         [&](const std::string& text) { extension.spatial_cv = parse_share("--spatial-cv", text, true); },
         "spread of compute speed between copied ranks (default: as measured between traced ranks)")
      ->type_name("X%");
}

/// What a sweep varies; each option takes several values.
void add_space(CLI::App* app, SweepSpace& space) {
  const auto degrees = [&](const char* name, std::vector<std::int64_t>& values, const char* text) {
    app->add_option(name, values, text)->delimiter(',')->check(CLI::Range(1, 1 << 24))->type_name("N,N,...");
  };
  degrees("--tp", space.tp, "tensor-parallel degrees to try");
  degrees("--cp", space.cp, "context-parallel degrees");
  degrees("--pp", space.pp, "pipeline-parallel degrees");
  degrees("--ep", space.ep, "expert-parallel degrees");
  degrees("--micro-batch", space.micro_batch, "sequences of a microbatch");
  degrees("--chunks", space.chunks, "virtual stages per rank of interleaved schedules");
  app->add_option("--zero", space.zero, "sharding levels")
      ->delimiter(',')
      ->check(CLI::Range(0, 3))
      ->type_name("N,N,...");
  static const std::map<std::string, ScheduleKind> kSchedules = {
      {"gpipe", ScheduleKind::GPipe},
      {"1f1b", ScheduleKind::OneForwardOneBackward},
      {"interleaved", ScheduleKind::Interleaved},
      {"zb-h1", ScheduleKind::ZeroBubbleH1},
      {"zb-v", ScheduleKind::ZeroBubbleV},
      {"dualpipe", ScheduleKind::DualPipe},
      {"dualpipe-v", ScheduleKind::DualPipeV}};
  app->add_option("--schedule", space.schedules,
                  "schedules: gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe, dualpipe-v")
      ->delimiter(',')
      ->transform(CLI::Transformer(kSchedules))
      ->type_name("NAME,...");
  static const std::map<std::string, Recompute> kRecomputes = {
      {"none", Recompute::None}, {"selective", Recompute::Selective}, {"full", Recompute::Full}};
  app->add_option("--recompute", space.recompute, "recomputation: none, selective, full")
      ->delimiter(',')
      ->transform(CLI::Transformer(kRecomputes))
      ->type_name("NAME,...");
}

using Runners = std::map<CLI::App*, std::function<int()>>;

Runners add_commands(CLI::App& app, Options& o) {
  Runners run;
  auto* inspect =
      app.add_subcommand("inspect", "what is in an input: ranks, steps, pools, what was left out and why");
  add_common(inspect, o.inspect.common);
  add_extension(inspect, o.inspect.extension);
  run[inspect] = [&o] { return run_inspect(o.inspect); };

  auto* replay = app.add_subcommand("replay", "re-run each profiled step; error against the observed time");
  add_common(replay, o.replay.common);
  replay
      ->add_option_function<std::string>(
          "--launch-delays", [&o](const std::string& text) { o.replay.delays = kLaunchDelays.at(text); },
          "clean: waits found and taken out (default); none: left out; raw: as recorded, replays exactly;\n"
          "off: left out, and no inferred edges")
      ->check(CLI::IsMember({"clean", "none", "raw", "off"}))
      ->type_name("MODE");
  run[replay] = [&o] { return run_replay(o.replay); };

  auto* validate =
      app.add_subcommand("validate", "predict profiled steps left out of the pools, per sampling model");
  add_common(validate, o.validate.common);
  add_sampling(validate, o.validate.sampling);
  validate
      ->add_option_function<std::string>(
          "--target", [&o](const std::string& text) { o.validate.replayed_target = text == "replayed"; },
          "observed: step times as recorded (default); replayed: without launch delays, which isolates the "
          "sampling model")
      ->check(CLI::IsMember({"observed", "replayed"}))
      ->type_name("WHAT");
  run[validate] = [&o] { return run_validate(o.validate); };

  auto* forecast = app.add_subcommand("forecast", "step-time distribution with intervals");
  add_common(forecast, o.forecast.common);
  add_sampling(forecast, o.forecast.sampling);
  add_extension(forecast, o.forecast.extension);
  add_sampling_model(forecast, o.forecast.model);
  forecast
      ->add_option_function<std::string>(
          "--precision",
          [&o](const std::string& text) { o.forecast.precision = parse_share("--precision", text); },
          "go on sampling until the p95 interval is this narrow (half width)")
      ->type_name("X%");
  forecast
      ->add_option("--anchor", o.forecast.anchor,
                   "unprofiled step time (1.25, 850ms), or a log of such: the forecast is scaled to it")
      ->type_name("LOG|SECONDS");
  forecast->add_flag(
      "!--no-input-intervals", o.forecast.input_intervals,
      "leave out the intervals over profiled steps, which take most of the time of a short run");
  forecast->add_flag("--collapse", o.forecast.collapse,
                     "simulate one replica in place of all; refused unless nothing tells them apart");
  forecast->add_flag("--timing", o.forecast.timing,
                     "add the wall-clock time of the samples, which differs from run to run");
  run[forecast] = [&o] { return run_forecast(o.forecast); };

  auto* exported =
      app.add_subcommand("export", "write a simulated step as traces of a profiler, one file per rank");
  add_input(exported, o.exported.common);
  add_format(exported, o.exported.common, false);
  exported->get_option("--output")
      ->required()
      ->description("the folder to make (as a whole)")
      ->type_name("FOLDER");
  exported->add_flag("--kineto", o.exported.kineto, "as PyTorch's profiler writes them (Chrome trace JSON)")
      ->required();
  add_exported_steps(exported, o.exported);
  add_sampling_model(exported, o.exported.model);
  add_seed(exported, o.exported.seed);
  exported->add_flag("--gzip", o.exported.gzip, "write .json.gz");
  run[exported] = [&o] { return run_export(o.exported); };

  auto* plan = app.add_subcommand("plan", "search over ways to run a plan");
  plan->require_subcommand(1);
  auto* sweep = plan->add_subcommand(
      "sweep",
      "other degrees, schedules and microbatches on the same GPUs and batch, ranked by p50 and by p95");
  sweep->add_option("PLAN", o.sweep.common.inputs, "a plan (TOML)")->required()->expected(1);
  add_format(sweep, o.sweep.common, true);
  add_space(sweep, o.sweep.sweep.space);
  sweep->add_option("--gpus", o.sweep.sweep.gpus, "GPUs to use (default: the plan's)")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("N");
  sweep->add_option("--samples", o.sweep.sweep.samples, "samples of each way")
      ->capture_default_str()
      ->check(CLI::Range(20U, 1'000'000U))
      ->type_name("N");
  add_seed(sweep, o.sweep.sweep.seed);
  sweep->add_option("--top", o.sweep.shown, "ways to show in the text")
      ->capture_default_str()
      ->type_name("N");
  sweep
      ->add_option("--threads", o.sweep.common.control.threads, "worker threads; results do not depend on it")
      ->check(CLI::Range(1U, 4096U))
      ->type_name("T");
  run[sweep] = [&o] { return run_plan_sweep(o.sweep); };

  auto* model = app.add_subcommand("model", "the saved model file: graph, pools and provenance in one file");
  model->require_subcommand(1);
  auto* save = model->add_subcommand("save", "write INPUT as a model that every command reads");
  add_input(save, o.save.common);
  add_format(save, o.save.common, false);
  save->get_option("--output")->required()->description("the file to write (atomically)");
  add_steps(save, o.save.common);
  save->add_flag("--anonymise", o.save.anonymise, "strip names and places");
  run[save] = [&o] { return run_model_save(o.save); };
  auto* show = model->add_subcommand("show", "what a saved model holds");
  add_input(show, o.show);
  add_format(show, o.show, false);
  run[show] = [&o] { return run_model_show(o.show); };
  return run;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// "unknown command" with the nearest known one, for the first word that should name a command and does not.
/// Nothing if all do.
std::string unknown_command(const CLI::App& app, std::span<char* const> words) {
  constexpr std::size_t kMaxWord = 40;
  const auto commands = app.get_subcommands({});
  if (commands.empty() || words.empty() || words.front()[0] == '-') return "";
  const std::string word = words.front();
  std::string nearest;
  std::size_t distance = 4;
  for (const CLI::App* command : commands) {
    if (command->get_name() == word) return unknown_command(*command, words.subspan(1));
    const std::size_t d = edit_distance(word.substr(0, kMaxWord), command->get_name());
    if (d < std::min(distance, word.size())) {
      distance = d;
      nearest = command->get_name();
    }
  }
  return "unknown command '" + word + "'" + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
}

int usage_error(const std::string& text) {
  std::fprintf(stderr, "prism: %s\nRun prism --help for the commands.\n", text.c_str());
  return kUsage;
}

int run_program(int argc, char** argv) {
  CLI::App app(kAbout, "prism");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("prism ") + std::string(prism_version()));
  app.get_formatter()->column_width(30);
  Options options;
  for (CommonOptions* common :
       {&options.inspect.common, &options.replay.common, &options.validate.common, &options.forecast.common,
        &options.exported.common, &options.save.common, &options.show, &options.sweep.common}) {
    common->control.cancelled = &interrupted;
    common->control.progress = terminal_progress();
  }
  const Runners runners = add_commands(app, options);
  const std::span<char* const> words(argv + 1, static_cast<std::size_t>(std::max(argc - 1, 0)));
  if (const std::string text = unknown_command(app, words); !text.empty()) return usage_error(text);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
    if (kind == CLI::ExitCodes::Success) return app.exit(error);
    return usage_error(error.what());
  }
  for (const auto& [command, run] : runners) {
    if (command->parsed()) return run();
  }
  return usage_error("no command given");
}

}  // namespace
}  // namespace prism::cli

int main(int argc, char** argv) {
  using namespace prism::cli;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends at once
  sigaction(SIGINT, &action, nullptr);
  try {
    return run_program(argc, argv);
  } catch (const prism::InputError& error) {
    std::fprintf(stderr, "prism: %s\n", error.what());
    return kBadInput;
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "prism: %s\n", error.what());
    return kBadInput;
  } catch (const UsageError& error) {
    return usage_error(error.what());
  } catch (const prism::Cancelled&) {
    std::fprintf(stderr, "prism: interrupted\n");
    return kInterrupted;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "prism: internal error: %s\n", error.what());
    return kInternal;
  }
}
