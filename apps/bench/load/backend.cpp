#include "bench/load/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace espalier::bench {
namespace {

using Api = Backend::Api;
using C = Backend::Constraints;

constexpr std::string_view kNoEmbeddings = "measures an embedding model; this version measures generation only";
constexpr std::string_view kOtherProtocol =
    "speaks a protocol of its own; give the server's OpenAI-compatible address with --backend openai";

constexpr Backend kBackends[] = {
    {"espalier", Api::native, C::sglang, 30000},
    {"espalier-oai", Api::completions, C::sglang, 30000},
    {"espalier-oai-chat", Api::chat, C::sglang, 30000},
    {"sglang", Api::native, C::sglang, 30000},
    {"sglang-native", Api::native, C::sglang, 30000},
    {"sglang-oai", Api::completions, C::sglang, 30000},
    {"sglang-oai-chat", Api::chat, C::sglang, 30000},
    {"vllm", Api::completions, C::vllm, 8000},
    {"vllm-chat", Api::chat, C::vllm, 8000},
    {"lmdeploy", Api::completions, C::openai, 23333},
    {"lmdeploy-chat", Api::chat, C::openai, 23333},
    {"llamacpp", Api::completions, C::llamacpp, 8080, false},
    {"llamacpp-chat", Api::chat, C::llamacpp, 8080, false},
    {"openai", Api::completions, C::openai, 8000},
    {"openai-chat", Api::chat, C::openai, 8000},
    {"sglang-embedding", Api::native, C::sglang, 30000, true, kNoEmbeddings},
    {"trt", Api::native, C::openai, 8000, true, kOtherProtocol},
    {"gserver", Api::native, C::openai, 9988, true, kOtherProtocol},
    {"truss", Api::native, C::openai, 8080, true, kOtherProtocol},
};

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends)
    if (backend.refusal.empty()) names.emplace_back(backend.name);
  return names;
}

Result<const Backend*> find_backend(std::string_view name) {
  for (const Backend& backend : kBackends) {
    if (backend.name != name) continue;
    if (!backend.refusal.empty()) return bad_request(fmt::format("--backend {} {}", name, backend.refusal), "backend");
    return &backend;
  }
  return bad_request(fmt::format("--backend {} is unknown; there are {}", name, fmt::join(backend_names(), ", ")),
                     "backend");
}

}  // namespace espalier::bench
