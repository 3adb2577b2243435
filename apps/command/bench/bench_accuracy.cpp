#include "command/bench/bench_accuracy.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <numeric>

#include "command/command.h"
#include "quantize/difference.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {
namespace {

using Distributions = std::vector<std::vector<float>>;  // [position][vocabulary], natural logarithms

Result<std::vector<std::vector<TokenId>>> pieces_of(const Engine& engine, const AccuracyArguments& a) {
  if (!engine.tokenizer()) return bad_request("the model has no tokenizer, so it cannot read a text", "model");
  std::ifstream file(a.text, std::ios::binary);
  if (!file) return Error{Error::Kind::not_found, "the text " + a.text + " cannot be read", "--text", {}};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ESP_TRY(const std::vector<TokenId> ids, engine.tokenizer()->encode(text));
  std::vector<std::vector<TokenId>> out;
  const auto length = static_cast<std::size_t>(a.piece_tokens);
  for (std::size_t at = 0; at + 1 < ids.size() && out.size() < static_cast<std::size_t>(a.pieces); at += length)
    out.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(at),
                     ids.begin() + static_cast<std::ptrdiff_t>(std::min(at + length, ids.size())));
  if (out.empty() || out.front().size() < 2) return bad_request("the text is shorter than two tokens", "--text");
  return out;
}

Result<Distributions> distributions(Engine& engine, const std::vector<TokenId>& piece) {
  RequestFields fields;
  fields.prompt = piece;
  fields.sampling.max_new_tokens = 0;
  fields.logprobs.enabled = true;
  fields.logprobs.prompt_start = 0;
  fields.logprobs.ids.resize(static_cast<std::size_t>(engine.model().limits.vocabulary));
  std::iota(fields.logprobs.ids.begin(), fields.logprobs.ids.end(), 0);
  ESP_TRY(Request request, Request::make(std::move(fields), engine.model().limits));
  ESP_TRY(Stream stream, engine.submit(std::move(request)));
  Distributions out;
  for (;;) {
    stream.wait(std::chrono::milliseconds(1000));
    for (StreamEvent& event : stream.take()) {
      if (const auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
        for (const Alternatives& at : prompt->alternatives) {
          auto& row = out.emplace_back();
          for (const TokenLogprob& token : at.ids) row.push_back(static_cast<float>(token.logprob));
        }
      } else if (const auto* end = std::get_if<FinishEvent>(&event)) {
        if (end->reason == FinishReason::error) return end->error;
        return out;
      }
    }
  }
}

void print(const quantizer::Difference& d, const Engine& engine, bool json) {
  fmt::print(
      fmt::runtime(json ? "{{\"activations\":\"{}\",\"kv_type\":\"{}\",\"positions\":{},\"kl_mean\":{:.6f},"
                          "\"kl_p99\":{:.6f},\"kl_max\":{:.6f},\"same_best\":{:.4f},\"perplexity_exact\":{:.4f},"
                          "\"perplexity\":{:.4f}}}\n"
                        : "activations {}, keys and values {}, {} positions: KL divergence from exact {:.5f} nats "
                          "on average, {:.5f} at the 99th percentile, {:.5f} at most; same best token at {:.4f} "
                          "of them; perplexity {:.4f} exact, {:.4f} measured\n"),
      engine.model().activations, engine.model().kv_type, d.positions, d.divergence, d.divergence_99, d.divergence_most,
      d.same_best, d.first_perplexity, d.second_perplexity);
}

}  // namespace

int bench_accuracy(const EngineOptions& options, const AccuracyArguments& a) {
  EngineOptions exact_options = options;
  exact_options.activations = "f32";
  exact_options.kv_type = "f32";
  auto exact = Engine::open(exact_options);
  if (!exact.ok()) return fail(exact.error());
  auto measured = Engine::open(options);
  if (!measured.ok()) return fail(measured.error());
  auto pieces = pieces_of(**exact, a);
  if (!pieces.ok()) return fail(pieces.error());
  std::vector<quantizer::PositionDifference> positions;
  for (const std::vector<TokenId>& piece : *pieces) {
    auto want = distributions(**exact, piece);
    if (!want.ok()) return fail(want.error());
    auto got = distributions(**measured, piece);
    if (!got.ok()) return fail(got.error());
    for (std::size_t i = 0; i < want->size(); ++i)
      positions.push_back(quantizer::difference_at((*want)[i], (*got)[i], piece[i + 1]));
  }
  print(quantizer::summed(positions), **measured, a.json);
  return 0;
}

}  // namespace espalier::command
