// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/reread.hpp"

#include <string>

#include "prism/ingest/kineto.hpp"
#include "prism/report/kineto_json.hpp"

namespace prism {

std::vector<RankTrace> reread(std::span<const RankTrace> traces, ImportReport& report) {
  std::vector<RankTrace> read;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const std::string name = "rank" + std::to_string(i) + ".json";
    read.push_back(read_kineto_bytes(kineto_json(traces[i], name), name, {.strict = true}, report));
  }
  return read;
}

}  // namespace prism
