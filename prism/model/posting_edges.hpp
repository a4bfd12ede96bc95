// SPDX-License-Identifier: Apache-2.0
// Receives that are posted late: edges inferred from times.
//
// Frameworks post a receive together with the opposite send, after the compute op before the one it feeds; so
// its transfer is not hidden behind that compute, although no recorded dependency says so. The edge is added
// where the times agree in nearly all steps and replicas.
#pragma once

#include <vector>

#include "prism/model/op_graph.hpp"
#include "prism/model/step_model.hpp"

namespace prism {

/// For each receive of a compute op, with y the compute op just before it in its stage's chain: adds y ->
/// receive if the receive starts no earlier than 200 us before y ends in at least 95 % of all (step,
/// replica). Returns the edges that were not there before, as inferences.
std::vector<Inference> add_posting_edges(const RecordedJob& job, OpGraph& graph);

}  // namespace prism
