// SPDX-License-Identifier: Apache-2.0
// Writes the shipped example jobs, or checks that the shipped files are what this program would write.
//
//   make_example FOLDER            writes FOLDER/pipeline-16gpu and FOLDER/fsdp-4gpu
//   make_example --check FOLDER    exit code 1 if the (unpacked) content differs
//
// pipeline-16gpu, an op-level timeline: 4 replicas of a pipeline of 4 stages. One rank is slow, the last stage is
// heavier than the others, microbatches differ, and steps as a whole drift: one of each cause that prism tells apart.
//
// fsdp-4gpu, traces of a profiler: 4 ranks on 2 hosts whose clocks differ by 350 us. Rank 2 computes 8 % slower, so the
// others wait for it in every reduce-scatter.
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

#include "prism/io/atomic_file.hpp"
#include "prism/io/bytes.hpp"
#include "prism/report/kineto_json.hpp"
#include "tests/made_job/made_job.hpp"
#include "tests/made_trace/made_trace.hpp"

namespace {

prism::MadeJobSpec example_job() {
  return {.name = "pipeline-16gpu",
          .dp = 4,
          .pp = 4,
          .microbatches = 8,
          .loss_barrier = true,
          .steps = 24,
          .first_step = 101,
          .windows = 2,
          .window_hole = 388,
          .forward_s = 0.05,
          .backward_s = 0.1,
          .last_stage_factor = 1.15,
          .step_sd = 0.015,
          .rank_sd = 0.01,
          .content_sd = 0.04,
          .residual_sd = 0.005,
          .slow_rank = prism::SlowRank{.dp_rank = 2, .stage = 1, .factor = 1.12},
          .p2p_s = 0.0008,
          .allgather_s = 0.025,
          .reducescatter_s = 0.05,
          .embedding_s = 0.004,
          .clip_s = 0.012,
          .optimizer_s = 0.04,
          .other_cv = 0.05,
          .transfer_jitter_s = 15e-6,
          .start_delay_s = 0.002,
          .forward_delay_s = 0.01,
          .reduce_delay_s = 0.008,
          .seed = 16};
}

/// One gzip member with neither name nor time in its header, so equal text gives equal bytes.
std::string packed(const std::string& text) {
  const auto end = [](z_stream* z) { deflateEnd(z); };
  z_stream z{};
  if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib does not start");
  }
  const std::unique_ptr<z_stream, decltype(end)> guard(&z, end);
  std::string input = text;  // zlib takes a pointer to non-const bytes
  std::string bytes(deflateBound(&z, static_cast<uLong>(input.size())), '\0');
  z.next_in = reinterpret_cast<Bytef*>(input.data());
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = reinterpret_cast<Bytef*>(bytes.data());
  z.avail_out = static_cast<uInt>(bytes.size());
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("zlib does not finish");
  bytes.resize(z.total_out);
  return bytes;
}

prism::MadeTraceSpec fsdp_job() {
  return {.dp = 4,
          .ranks_per_host = 2,
          .microbatches = 2,
          .layers = 3,
          .kernels_per_layer = 3,
          .data_parallelism = prism::DataParallelism::Fsdp,
          .step_end = prism::StepEnd::Item,
          .steps = 16,
          .first_step = 40,
          .kernel_us = 300,
          .collective_us = 200,
          .step_sd = 0.02,
          .rank_sd = 0.01,
          .kernel_sd = 0.02,
          .slow_ranks = {{2, 1.08}},
          .clock_offset_us = {{1, 350.0}},
          .seed = 4};
}

/// Name and text of each file of an example.
using Files = std::vector<std::pair<std::string, std::string>>;

Files example_files() {
  Files files;
  files.emplace_back("pipeline-16gpu/trace.csv.gz", prism::to_csv(prism::make_job(example_job()).timeline));
  files.emplace_back("pipeline-16gpu/meta.yaml", prism::meta_yaml(example_job()));
  for (const prism::RankTrace& trace : prism::make_trace(fsdp_job()).ranks) {
    const std::string name = "rank" + std::to_string(trace.rank.value()) + ".json";
    files.emplace_back("fsdp-4gpu/" + name + ".gz", prism::kineto_json(trace, name));
  }
  return files;
}

bool same(const std::filesystem::path& path, const std::string& expected) {
  if (prism::read_bytes(path) == expected) return true;
  std::cerr << path.string()
            << " is not what make_example writes; run make_example FOLDER and look at the difference\n";
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::cerr << "usage: make_example [--check] FOLDER\n";
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[argc - 1];
    bool all_same = true;
    for (const auto& [name, text] : example_files()) {
      const std::filesystem::path path = folder / name;
      if (check) {
        all_same = same(path, text) && all_same;
        continue;
      }
      std::filesystem::create_directories(path.parent_path());
      prism::write_atomically(path, path.extension() == ".gz" ? packed(text) : text);
    }
    return all_same ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "make_example: " << error.what() << '\n';
    return 1;
  }
}
