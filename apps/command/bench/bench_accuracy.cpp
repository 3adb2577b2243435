#include "command/bench/bench_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>

#include "command/command.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {
namespace {

using Distributions = std::vector<std::vector<float>>;  // [position][vocabulary], natural logarithms

struct Difference {
  std::vector<double> divergence;  // of every position
  std::size_t same_best = 0;
  double exact_loss = 0, measured_loss = 0;  // summed -log p of the tokens that the text has
};

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

void compare(const std::vector<TokenId>& piece, const Distributions& exact, const Distributions& measured,
             Difference& d) {
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double divergence = 0;
    for (std::size_t t = 0; t < exact[i].size(); ++t) {
      const double p = static_cast<double>(exact[i][t]);
      if (p > -80) divergence += std::exp(p) * (p - static_cast<double>(measured[i][t]));
    }
    d.divergence.push_back(divergence);
    d.same_best += std::ranges::max_element(exact[i]) - exact[i].begin() ==
                   std::ranges::max_element(measured[i]) - measured[i].begin();
    const auto next = static_cast<std::size_t>(piece[i + 1]);
    d.exact_loss -= static_cast<double>(exact[i][next]);
    d.measured_loss -= static_cast<double>(measured[i][next]);
  }
}

void print(Difference d, const Engine& engine, bool json) {
  const double count = static_cast<double>(d.divergence.size());
  const double mean = std::accumulate(d.divergence.begin(), d.divergence.end(), 0.0) / count;
  std::ranges::sort(d.divergence);
  const double p99 = d.divergence[static_cast<std::size_t>(0.99 * (count - 1))];
  fmt::print(
      fmt::runtime(json ? "{{\"activations\":\"{}\",\"kv_type\":\"{}\",\"positions\":{},\"kl_mean\":{:.6f},"
                          "\"kl_p99\":{:.6f},\"kl_max\":{:.6f},\"same_best\":{:.4f},\"perplexity_exact\":{:.4f},"
                          "\"perplexity\":{:.4f}}}\n"
                        : "activations {}, keys and values {}, {} positions: KL divergence from exact {:.5f} nats "
                          "on average, {:.5f} at the 99th percentile, {:.5f} at most; same best token at {:.4f} "
                          "of them; perplexity {:.4f} exact, {:.4f} measured\n"),
      engine.model().activations, engine.model().kv_type, d.divergence.size(), mean, p99, d.divergence.back(),
      static_cast<double>(d.same_best) / count, std::exp(d.exact_loss / count), std::exp(d.measured_loss / count));
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
  Difference difference;
  for (const std::vector<TokenId>& piece : *pieces) {
    auto want = distributions(**exact, piece);
    if (!want.ok()) return fail(want.error());
    auto got = distributions(**measured, piece);
    if (!got.ok()) return fail(got.error());
    compare(piece, *want, *got, difference);
  }
  print(std::move(difference), **measured, a.json);
  return 0;
}

}  // namespace espalier::command
