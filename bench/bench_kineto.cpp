// SPDX-License-Identifier: Apache-2.0
// How fast is a profiler trace read, and in how much memory? Bytes of JSON per second of one core.
//
//   unpack, unpack_zlib  gzip -> bytes: the library's stream, and zlib the same way
//   read/text            JSON in memory -> RankTrace
//   read/gzip            file -> RankTrace
//   model/gzip           file -> step model, on one core
//   simdjson             JSON in memory -> the main fields of the same events, by simdjson On-Demand: what a
//                        strict parser of whole documents takes for less than the reader does
//
// peak_per_byte and kept_per_byte: bytes of heap while reading and of the trace, per byte of JSON.
// The trace is a real one of 53.7 MB if it is there, else a made-up one in the same shape.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <simdjson.h>
#include <unistd.h>
#include <zlib.h>

#include "prism/ingest/kineto.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/io/bytes.hpp"
#include "prism/kernels/build_kernel_model.hpp"

namespace {

std::atomic<std::size_t> heap_bytes{0};
std::atomic<std::size_t> heap_peak{0};

// Not inlined: g++ 12 otherwise takes its own pairing of new with free for a mistake.
[[gnu::noinline]] void* allocate(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = heap_bytes += malloc_usable_size(memory);
  std::size_t peak = heap_peak;
  while (now > peak && !heap_peak.compare_exchange_weak(peak, now)) {
  }
  return memory;
}

[[gnu::noinline]] void release(void* memory) {
  if (memory != nullptr) heap_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size);
}

void operator delete(void* memory) noexcept {
  release(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}

namespace {

using namespace prism;
namespace fs = std::filesystem;

/// A step of a training job over and over: operators with shapes, launches, kernels, flows.
std::string made_trace(std::size_t bytes) {
  std::string text =
      "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"rank\": 1, \"world_size\": 2},\n"
      "  \"traceEvents\": [\n";
  const auto event = [&](const std::string& head, std::int64_t ns, std::int64_t duration_ns,
                         const std::string& args) {
    const auto micros = [](std::int64_t t) {
      const std::string decimals = std::to_string(1000 + t % 1000).substr(1);
      return std::to_string(t / 1000) + "." + decimals;
    };
    text += "  {\n    \"ph\": \"X\", " + head + ",\n    \"ts\": " + micros(ns) +
            ", \"dur\": " + micros(duration_ns) + ",\n    \"args\": {\n      " + args + "\n    }\n  },\n";
  };
  const std::string host = ", \"pid\": 4242, \"tid\": 4242";
  for (std::int64_t i = 1; text.size() < bytes; ++i) {
    const std::int64_t t = i * 20'000;
    const std::string id = std::to_string(i);
    event("\"cat\": \"cpu_op\", \"name\": \"aten::addmm\"" + host, t, 15'011,
          "\"External id\": " + id +
              ",\"Record function id\": 0, \"Concrete Inputs\": [\"\", \"\", \"\", \"1\"], "
              "\"Input Dims\": [[1024], [512, 4096], [4096, 1024], []], \"Ev Idx\": " +
              id);
    event("\"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\"" + host, t + 5'000, 4'120,
          "\"External id\": " + id + ", \"cbid\": 211, \"correlation\": " + id);
    event(
        "\"cat\": \"kernel\", \"name\": \"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn\", "
        "\"pid\": 0, \"tid\": 7",
        t + 9'500, 12'345,
        "\"External id\": " + id +
            ", \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, "
            "\"correlation\": " +
            id +
            ",\n      \"registers per thread\": 234,\n      \"shared memory\": 81920,\n"
            "      \"blocks per SM\": 0.242424,\n      \"warps per SM\": 0.969697,\n      \"grid\": [8, 4, "
            "1],\n"
            "      \"block\": [128, 1, 1],\n      \"est. achieved occupancy %\": 2");
    for (const char* phase : {"s", "f"}) {
      text += std::string("  {\n    \"ph\": \"") + phase + "\", \"id\": " + id +
              ", \"pid\": 0, \"tid\": 7, \"ts\": " + std::to_string(t / 1000) +
              ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  },\n";
    }
  }
  text.replace(text.size() - 2, 2, "\n  ]\n}\n");
  return text;
}

/// The trace as a gzip file and as text.
struct Input {
  fs::path packed;
  std::string text;
  std::size_t kernels = 0;
  bool made = false;

  Input()
      : packed(fs::path(PRISM_SOURCE_DIR) /
               "../shared/data/kineto/nvidia/ddp-2rank-rank1-54MB-of-json.json.gz") {
    made = !fs::exists(packed);
    if (made) {
      text = made_trace(50'000'000);
      packed = fs::temp_directory_path() / ("prism_bench_kineto_" + std::to_string(getpid()) + ".json.gz");
      const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(packed.c_str(), "wb6"), gzclose);
      if (!file || gzwrite(file.get(), text.data(), static_cast<unsigned>(text.size())) == 0) {
        throw std::runtime_error("cannot write " + packed.string());
      }
    } else {
      text = read_bytes(packed);
    }
    // Counted in the text, not by the reader.
    for (std::size_t at = text.find("\"cat\": \"kernel\""); at != std::string::npos;
         at = text.find("\"cat\": \"kernel\"", at + 1)) {
      ++kernels;
    }
  }
  ~Input() {
    std::error_code ignored;
    if (made) fs::remove(packed, ignored);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
};

const Input& input() {
  static const Input in;
  return in;
}

void finish(benchmark::State& state, bool sound, std::string_view wrong) {
  if (!sound) state.SkipWithError(std::string(wrong).c_str());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(input().text.size()));
}

void unpack(benchmark::State& state) {
  std::vector<char> window(256 * 1024);
  std::size_t bytes = 0;
  for (auto _ : state) {
    ByteStream stream(input().packed);
    bytes = 0;
    while (const std::size_t size = stream.read(window)) bytes += size;
  }
  finish(state, bytes == input().text.size(), "bytes are missing");
}

void unpack_zlib(benchmark::State& state) {
  std::vector<char> window(256 * 1024);
  std::size_t bytes = 0;
  for (auto _ : state) {
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(input().packed.c_str(), "rb"), gzclose);
    gzbuffer(file.get(), 256 * 1024);
    bytes = 0;
    for (int size = 1; size > 0; bytes += static_cast<std::size_t>(size)) {
      size = gzread(file.get(), window.data(), static_cast<unsigned>(window.size()));
    }
  }
  finish(state, bytes == input().text.size(), "bytes are missing");
}

template <class Read>
void read(benchmark::State& state, Read read_trace) {
  std::size_t kernels = 0;
  std::size_t kept = 0;
  std::size_t peak = 0;
  for (auto _ : state) {
    const std::size_t before = heap_bytes;
    heap_peak = before;
    ImportReport report;
    const RankTrace trace = read_trace(report);
    kept = heap_bytes - before;
    peak = heap_peak - before;
    kernels = static_cast<std::size_t>(
        std::ranges::count(trace.gpu_ops, GpuOpKind::Kernel, [](const GpuOp& op) { return op.kind; }));
  }
  const auto bytes = static_cast<double>(input().text.size());
  state.counters["kept_per_byte"] = static_cast<double>(kept) / bytes;
  state.counters["peak_per_byte"] = static_cast<double>(peak) / bytes;
  finish(state, kernels == input().kernels, "kernels are missing");
}

void read_text(benchmark::State& state) {
  read(state, [](ImportReport& report) { return read_kineto_bytes(input().text, "text", {}, report); });
}

void read_gzip(benchmark::State& state) {
  read(state, [](ImportReport& report) { return read_kineto(input().packed, {}, report); });
}

/// File -> step model: reading, launches, communication, dependencies, graph, pools.
void model_gzip(benchmark::State& state) {
  std::size_t nodes = 0;
  std::size_t peak = 0;
  for (auto _ : state) {
    const std::size_t before = heap_bytes;
    heap_peak = before;
    ImportReport report;
    std::vector<RankTrace> traces;
    traces.push_back(read_kineto(input().packed, {}, report));
    const KernelRecording job = record_ranks(std::move(traces), {.threads = 1}, report);
    nodes = build_kernel_model(job, std::move(report)).nodes.size();
    peak = heap_peak - before;
  }
  state.counters["peak_per_byte"] = static_cast<double>(peak) / static_cast<double>(input().text.size());
  finish(state, nodes > 0, "no node in the model");
}

/// What the reader keeps of an event, before anything is linked.
struct Kept {
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::uint64_t name = 0;
  std::uint64_t row = 0;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;
};

void simdjson_on_demand(benchmark::State& state) {
  namespace od = simdjson::ondemand;
  const simdjson::padded_string text(input().text);
  od::parser parser;
  std::size_t kernels = 0;
  const auto text_of = [](od::value value) { return std::string_view(value.raw_json_token()); };
  for (auto _ : state) {
    kernels = 0;
    std::vector<Kept> all;
    od::document document = parser.iterate(text);
    for (od::object event : document["traceEvents"].get_array()) {
      Kept kept;
      std::string_view category;
      for (od::field field : event) {
        const std::string_view key = field.unescaped_key();
        if (key == "cat") {
          category = text_of(field.value());
        } else if (key == "name") {
          kept.name = std::hash<std::string_view>{}(text_of(field.value()));
        } else if (key == "ts") {
          kept.start = static_cast<std::int64_t>(text_of(field.value()).size());
        } else if (key == "dur") {
          kept.duration = static_cast<std::int64_t>(text_of(field.value()).size());
        } else if (key == "tid" || key == "pid") {
          kept.row += std::hash<std::string_view>{}(text_of(field.value()));
        } else if (key == "args") {
          for (od::field arg : field.value().get_object()) {
            const std::string_view name = arg.unescaped_key();
            if (name == "correlation") kept.correlation = std::int64_t(arg.value().get_int64());
            if (name == "stream") kept.stream = std::int64_t(arg.value().get_int64());
          }
        }
      }
      if (category.starts_with("\"ac2g")) continue;
      kernels += category.starts_with("\"kernel\"");
      all.push_back(kept);
    }
    benchmark::DoNotOptimize(all.data());
  }
  finish(state, kernels == input().kernels, "kernels are missing");
}

}  // namespace

BENCHMARK(unpack)->Unit(benchmark::kMillisecond);
BENCHMARK(unpack_zlib)->Unit(benchmark::kMillisecond);
BENCHMARK(read_text)->Name("read/text")->Unit(benchmark::kMillisecond);
BENCHMARK(read_gzip)->Name("read/gzip")->Unit(benchmark::kMillisecond);
BENCHMARK(model_gzip)->Name("model/gzip")->Unit(benchmark::kMillisecond);
BENCHMARK(simdjson_on_demand)->Name("simdjson")->Unit(benchmark::kMillisecond);

int main(int argc, char** argv) {
  (void)input();  // made or unpacked before any clock runs
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
