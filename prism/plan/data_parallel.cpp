// SPDX-License-Identifier: Apache-2.0
// ZeRO: Rajbhandari et al. 2020 (arXiv 1910.02054). Buckets and their default size: Megatron's distributed optimizer.
#include "prism/plan/data_parallel.hpp"

#include <algorithm>
#include <string>

namespace prism {

namespace {

double width_of(Precision precision) {
  return precision == Precision::Fp4 ? 0.5 : precision == Precision::Fp8 ? 1 : 2;
}

StageLayers one_layer(const StageLayers& stage, std::int64_t index) {
  return {.first = stage.first + index,
          .count = 1,
          .embedding = stage.embedding && index == 0,
          .loss = stage.loss && index == stage.count - 1};
}

}  // namespace

DataParallel::DataParallel(const Transformer& model, const Parallel& parallel, const Precisions& precisions,
                           const StageLayers& layers)
    : parallel_(parallel), precisions_(precisions), pipelined_(parallel.pp > 1) {
  for (std::int64_t i = 0; i < layers.count; ++i)
    layers_.push_back(rank_parameters(model, parallel, one_layer(layers, i)));
  if (layers.count == 0) layers_.push_back(rank_parameters(model, parallel, layers));
  // A table that the first and the last layer share is there once.
  std::int64_t dense = 0;
  for (const RankParameters& layer : layers_) dense += layer.dense;
  layers_.back().dense -= dense - rank_parameters(model, parallel, layers).dense;
}

std::int64_t DataParallel::bucket() const {
  if (parallel_.bucket_parameters > 0) return parallel_.bucket_parameters;
  return std::max(std::int64_t{40'000'000}, std::int64_t{1'000'000} * parallel_.dp * parallel_.cp);
}

std::vector<int> DataParallel::gather(ProgramWriter& writer, RankParameters weights,
                                      const std::vector<int>& after, When when) const {
  const double width = width_of(precisions_.parameter_gather);
  std::vector<int> ops;
  if (weights.dense > 0) {
    const Communication gather{CollectiveOp::AllGather, GroupAxis::Shard,
                               width * static_cast<double>(weights.dense)};
    ops.push_back(writer.communicate_aside("gather weights", gather, after, when));
  }
  if (weights.expert > 0) {
    const Communication gather{CollectiveOp::AllGather, GroupAxis::ExpertDp,
                               width * static_cast<double>(weights.expert)};
    ops.push_back(writer.communicate_aside("gather expert weights", gather, after, when));
  }
  return ops;
}

void DataParallel::reduce(ProgramWriter& writer, RankParameters gradients, const std::vector<int>& after,
                          When when) const {
  const double width = parallel_.gradient_bytes;
  const CollectiveOp kind = parallel_.zero == 0 ? CollectiveOp::AllReduce : CollectiveOp::ReduceScatter;
  const std::int64_t copies = parallel_.dp * parallel_.cp;
  const std::int64_t shard = parallel_.shard == 0 ? copies : parallel_.shard;
  if (gradients.dense > 0) {
    const double bytes = width * static_cast<double>(gradients.dense);
    const int scattered =
        writer.communicate_aside("reduce gradients", {kind, GroupAxis::Shard, bytes}, after, when);
    if (shard < copies) {
      const Communication across{CollectiveOp::AllReduce, GroupAxis::Replicate,
                                 parallel_.zero == 0 ? bytes : bytes / static_cast<double>(shard)};
      writer.communicate_aside("reduce gradients of shards", across, {scattered}, when);
    }
  }
  if (gradients.expert > 0) {
    const Communication reduction{kind, GroupAxis::ExpertDp, width * static_cast<double>(gradients.expert)};
    writer.communicate_aside("reduce expert gradients", reduction, after, when);
  }
}

/// One layer ahead of the computing one.
std::vector<int> DataParallel::gather_ahead(ProgramWriter& writer, std::int64_t index) {
  std::vector<int> after;
  if (computed_.size() >= 2) after.push_back(computed_[computed_.size() - 2]);
  std::vector<int> ops = gather(writer, layers_[static_cast<std::size_t>(index)], after, When::Always);
  return ops;
}

std::vector<int> DataParallel::before_forward(ProgramWriter& writer, std::int64_t index) {
  if (parallel_.zero == 3) {
    if (index > 0) computed_.push_back(writer.last_compute());
    return gather_ahead(writer, index);
  }
  if (parallel_.zero == 0 || !parallel_.overlap_parameters) return {};
  if (index < covered_) return gathered_;
  RankParameters bucket_weights;
  while (covered_ < std::ssize(layers_) && bucket_weights.dense + bucket_weights.expert < bucket()) {
    bucket_weights.dense += layers_[static_cast<std::size_t>(covered_)].dense;
    bucket_weights.expert += layers_[static_cast<std::size_t>(covered_)].expert;
    ++covered_;
  }
  gathered_ = gather(writer, bucket_weights, {}, When::FirstMicrobatch);
  return gathered_;
}

std::vector<int> DataParallel::before_backward(ProgramWriter& writer, std::int64_t index) {
  if (parallel_.zero != 3 || !parallel_.reshard_after_forward) return {};
  if (index + 1 < std::ssize(layers_)) computed_.push_back(writer.last_compute());
  return gather_ahead(writer, index);
}

void DataParallel::after_gradients(ProgramWriter& writer, std::int64_t index) {
  due_.dense += layers_[static_cast<std::size_t>(index)].dense;
  due_.expert += layers_[static_cast<std::size_t>(index)].expert;
  if (parallel_.zero == 3) {
    // With a pipeline, gradients of all microbatches are added up before they are reduced.
    reduce(writer, due_, {writer.last_compute()}, pipelined_ ? When::LastMicrobatch : When::Always);
    due_ = {};
  } else if (parallel_.overlap_gradients && due_.dense + due_.expert >= bucket()) {
    after_stage(writer);
  }
}

void DataParallel::after_stage(ProgramWriter& writer) {
  if (parallel_.zero == 3 || !parallel_.overlap_gradients) return;
  reduce(writer, due_, {writer.last_compute()}, When::LastMicrobatch);
  due_ = {};
}

}  // namespace prism
