// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/write_traces.hpp"

#include <string>

#include "prism/io/output_file.hpp"
#include "prism/report/kineto_json.hpp"

namespace prism {

std::vector<std::filesystem::path> write_traces(std::span<const RankTrace> traces,
                                                const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const int rank = traces[i].rank.value_or(static_cast<int>(i));
    paths.push_back(folder / ("rank" + std::to_string(rank) + ".json.gz"));
    OutputFile file(paths.back());
    write_kineto_json(traces[i], paths.back().filename().string(),
                      [&](std::string_view piece) { file.write(piece); });
    file.commit();
  }
  return paths;
}

}  // namespace prism
