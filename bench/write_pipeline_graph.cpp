// SPDX-License-Identifier: Apache-2.0
// Writes one replica of the measured graph (bench/pipeline_graph.hpp) as a graph folder, for other engines to
// run.
//
//   write_pipeline_graph FOLDER [PP MICROBATCHES LAYERS]
#include <cstdio>
#include <exception>
#include <string>

#include "bench/pipeline_graph.hpp"
#include "prism/model/graph_folder.hpp"

int main(int argc, char** argv) {
  if (argc != 2 && argc != 5) {
    std::fputs("usage: write_pipeline_graph FOLDER [PP MICROBATCHES LAYERS]\n", stderr);
    return 2;
  }
  try {
    prism::bench::PipelineGraphSpec spec{.dp = 1};
    if (argc == 5) {
      spec.pp = static_cast<std::uint32_t>(std::stoul(argv[2]));
      spec.microbatches = static_cast<std::uint32_t>(std::stoul(argv[3]));
      spec.layers = static_cast<std::uint32_t>(std::stoul(argv[4]));
    }
    prism::write_graph_folder(prism::bench::pipeline_model(spec), argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_pipeline_graph: %s\n", error.what());
    return 1;
  }
  return 0;
}
