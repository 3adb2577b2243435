// open_file_bench: how long a model file takes to open, per file named on the command line and for a made one with a
// vocabulary of 152,000 tokens and 1 GiB of weights (a hole on disk, as opening must not touch them).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tensor/describe.h"
#include "tensor/file/gguf.h"
#include "tensor/file/gguf_writer.h"
#include "tensor/file/safetensors.h"

namespace {

namespace fs = std::filesystem;

template <class Work>
double best_ms(Work&& work) {
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

void report_gguf(const fs::path& path) {
  auto file = espalier::GgufFile::open(path);
  if (!file.ok()) {
    fmt::print("{}\n", file.error().message);
    return;
  }
  const double open = best_ms([&] { (void)espalier::GgufFile::open(path); });
  const double strings = best_ms([&] { (void)file->metadata().get_strings("tokenizer.ggml.tokens"); });
  const auto tokens = file->metadata().get_strings("tokenizer.ggml.tokens");
  fmt::print("{:<40} {:>9}  {:>4} tensors  open {:6.2f} ms   {:>6} tokens as views {:5.2f} ms\n", file->name(),
             espalier::shown_bytes(file->file_bytes()), file->tensors().size(), open, tokens.ok() ? tokens->size() : 0,
             strings);
}

void report_safetensors(const fs::path& path) {
  auto file = espalier::SafetensorsFile::open(path);
  if (!file.ok()) {
    fmt::print("{}\n", file.error().message);
    return;
  }
  const double open = best_ms([&] { (void)espalier::SafetensorsFile::open(path); });
  fmt::print("{:<40} {:>9}  {:>4} tensors  open {:6.2f} ms\n", path.filename().string(),
             espalier::shown_bytes(file->file_bytes()), file->tensors().size(), open);
}

fs::path made_model() {
  espalier::GgufWriter writer;
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 152'000; ++i) {
    tokens.push_back(fmt::format("tok{}", i * 7919 % 1'000'003));
    merges.push_back(fmt::format("t{} ok{}", i % 999, i));
  }
  writer.put("general.architecture", "qwen2");
  writer.put("tokenizer.ggml.tokens", tokens);
  writer.put("tokenizer.ggml.merges", merges);
  writer.put("tokenizer.ggml.token_type", std::vector<std::int32_t>(tokens.size(), 1));
  for (int i = 0; i < 256; ++i) writer.declare(fmt::format("blk.{}.weight", i), espalier::DType::f16, {512, 4096});
  const fs::path path = fs::temp_directory_path() / "espalier_open_bench.gguf";
  const std::string head = writer.head();
  std::ofstream(path, std::ios::binary).write(head.data(), static_cast<std::streamsize>(head.size()));
  fs::resize_file(path, head.size() + (std::uint64_t{1} << 30));
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path made = made_model();
  report_gguf(made);
  fs::remove(made);
  for (int i = 1; i < argc; ++i) {
    const fs::path path = argv[i];
    path.extension() == ".gguf" ? report_gguf(path) : report_safetensors(path);
  }
}
