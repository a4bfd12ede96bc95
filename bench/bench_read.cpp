// SPDX-License-Identifier: Apache-2.0
// How fast is a recorded timeline read? Bytes of CSV text per second, whatever it is packed in.
//
//   parse       text in memory -> records
//   file, gzip  file -> bytes -> records
//
// Rows are those of a pipeline of 4 stages x 4 replicas with 32 microbatches, 666 rows per replica and step:
// the sizes of a recorded 64-GPU job, with as many steps as the file needs.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>
#include <unistd.h>
#include <zlib.h>

#include "prism/ingest/op_timeline_csv.hpp"
#include "prism/io/bytes.hpp"
#include "tests/made_job/made_job.hpp"

namespace {

using namespace prism;
namespace fs = std::filesystem;

/// Removed with everything in it when the program ends.
class ScratchFolder {
 public:
  ScratchFolder() : path_(fs::temp_directory_path() / ("prism_bench_read_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Input {
  std::string text;
  fs::path plain;
  fs::path packed;
  std::size_t rows = 0;
  std::int64_t start_sum = 0;
};

std::int64_t sum_of_starts(const OpTimeline& timeline) {
  std::int64_t sum = 0;
  for (const OpRecord& r : timeline.records) sum += r.start.count();
  return sum;
}

void write_gzip(const fs::path& path, const std::string& text) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "wb6"), gzclose);
  if (!file || gzwrite(file.get(), text.data(), static_cast<unsigned>(text.size())) == 0) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

const Input& input(int megabytes) {
  static const ScratchFolder folder;
  static std::map<int, Input> inputs;
  const auto [found, is_new] = inputs.try_emplace(megabytes);
  Input& in = found->second;
  if (!is_new) return in;
  const auto job_of = [](int steps) {
    return make_job(
        {.dp = 4, .pp = 4, .tp = 4, .microbatches = 32, .steps = steps, .step_sd = 0.01, .content_sd = 0.03});
  };
  // Whole steps until the size is reached.
  const std::size_t step_bytes = to_csv(job_of(2).timeline).size() / 2;
  const OpTimeline timeline =
      job_of(static_cast<int>(std::size_t{1000000} * static_cast<std::size_t>(megabytes) / step_bytes + 1))
          .timeline;
  in.text = to_csv(timeline);
  in.rows = timeline.records.size();
  in.start_sum = sum_of_starts(timeline);
  in.plain = folder.path() / (std::to_string(megabytes) + ".csv");
  in.packed = folder.path() / (std::to_string(megabytes) + ".csv.gz");
  std::ofstream(in.plain, std::ios::binary) << in.text;
  write_gzip(in.packed, in.text);
  return in;
}

template <class Parse>
void read(benchmark::State& state, const Input& in, Parse parse) {
  bool sound = true;
  for (auto _ : state) {
    ImportReport report;
    const OpTimeline timeline = parse(report);
    state.PauseTiming();
    sound = sound && timeline.records.size() == in.rows && sum_of_starts(timeline) == in.start_sum;
    state.ResumeTiming();
  }
  if (!sound) {
    state.SkipWithError("rows or start times differ from what was written");
    return;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(in.text.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(in.rows));
}

void parse_text(benchmark::State& state, int megabytes) {
  const Input& in = input(megabytes);
  read(state, in, [&](ImportReport& report) { return parse_op_timeline(in.text, "made", report); });
}

void read_file(benchmark::State& state, int megabytes, bool gzip) {
  const Input& in = input(megabytes);
  const fs::path& path = gzip ? in.packed : in.plain;
  read(state, in,
       [&](ImportReport& report) { return parse_op_timeline(read_bytes(path), path.string(), report); });
}

}  // namespace

int main(int argc, char** argv) {
  for (const int megabytes : {1, 10, 100}) {
    const std::string size = std::string("/").append(std::to_string(megabytes)).append("MB");
    benchmark::RegisterBenchmark(("read/parse" + size).c_str(), parse_text, megabytes)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("read/file" + size).c_str(), read_file, megabytes, false)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("read/gzip" + size).c_str(), read_file, megabytes, true)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
