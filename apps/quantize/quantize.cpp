#include "quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/fingerprint.h"
#include "base/threads/processors.h"
#include "model/blocks/channels/mlp.h"
#include "quantize/own_text.h"
#include "tensor/describe.h"

namespace espalier::quantizer {
namespace {

constexpr int kFormat = 1;  // raise with every change of what the same wishes give

Result<std::string> read_text_file(const std::string& path, const char* field) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{Error::Kind::not_found, fmt::format("the text {} cannot be read", path), field, {}};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Rows of which a layer's buffers take at most about a GiB.
int most_rows(const ModelSpec& spec, int wanted) {
  std::int64_t widest = spec.hidden;
  for (const Layer& layer : spec.layers)
    for (const Half& half : layer.halves)
      if (const auto* mlp = half.block.target<Mlp>()) widest = std::max<std::int64_t>(widest, mlp->inner);
  const std::int64_t bytes = 4 * (3 * widest + 12 * static_cast<std::int64_t>(spec.hidden));
  return static_cast<int>(
      std::clamp<std::int64_t>((std::int64_t{1} << 30) / std::max<std::int64_t>(1, bytes), 512, wanted));
}

class Run {
 public:
  Run(const Wishes& wishes, const Listener& listener)
      : w_(wishes),
        tell_(listener),
        team_(wishes.threads > 0 ? wishes.threads : std::max(1, own_processors().granted)) {}

  Result<Outcome> run() {
    ESP_TRY(source_, Source::open(w_.source));
    out_.source_bytes = describe(source_->tensors()).bytes();
    ESP_CHECK(read_texts());
    if (w_.only_report) {
      ESP_CHECK(look());
      return std::move(out_);
    }
    if (w_.dry_run) {
      ESP_TRY(out_.job, make_job(*source_, {w_.target, w_.types, w_.group}));
      return std::move(out_);
    }
    ESP_CHECK(check_destination());
    ESP_CHECK(measure());
    ESP_TRY(out_.job, make_job(*source_, {w_.target, w_.types, w_.group, measured_ ? &*measured_ : nullptr,
                                          measured_ ? &calibration_text_ : nullptr, &team_}));
    for (const std::string& note : out_.job.notes) tell_.note(note);
    ESP_CHECK(make());
    if (w_.report) ESP_CHECK(look());
    return std::move(out_);
  }

 private:
  // Before minutes of work.
  Result<> check_destination() const {
    const std::filesystem::path path = w_.destination;
    ESP_CHECK(check_target(path, w_.overwrite));
    std::error_code failed;
    if (std::filesystem::equivalent(path, w_.source, failed))
      return bad_request("source and destination are the same; another name would work", "dst");
    return success();
  }

  Result<> read_texts() {
    if (!w_.calibrate.empty()) {
      ESP_TRY(calibrate_, read_text_file(w_.calibrate, "calibrate"));
      if (!source_->files.tokenizer)
        return bad_request("--calibrate reads a text, and the model has no tokenizer", "calibrate");
    }
    if (!w_.text.empty()) {
      ESP_TRY(text_, read_text_file(w_.text, "text"));
    } else {
      text_ = calibrate_.empty() ? std::string(own_text()) : calibrate_;
    }
    return success();
  }

  // The first four fifths at most, so that the end is left to be looked at.
  Result<> measure() {
    if (calibrate_.empty()) return success();
    const ModelSpec& spec = source_->files.config.spec;
    ESP_TRY(tokens_, source_->files.tokenizer->encode(calibrate_));
    const int most = std::min(w_.calibrate_tokens, std::max(16, static_cast<int>(tokens_.size() / 5 * 4)));
    ESP_TRY(calibration_text_, pieces_of(tokens_, std::min(w_.length, most), most_rows(spec, most), false));
    ESP_TRY(measured_,
            Calibration::measure(spec, *source_->weights, calibration_text_, team_, [this](int done, int total) {
              tell_.progress("measuring", fmt::format("{} tokens", calibration_text_.tokens.size()),
                             static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
            }));
    return success();
  }

  std::string fingerprint() const {
    Fingerprint print;
    print.add_number(kFormat);
    print.add(w_.target.name);
    const auto type = [](const std::optional<DType>& wish) { return wish ? std::string(name(*wish)) : std::string(); };
    print.add(type(w_.types.output));
    print.add(type(w_.types.embedding));
    print.add_number(static_cast<std::uint64_t>(w_.group));
    print.add(calibrate_);
    print.add_number(calibration_text_.tokens.size());
    for (const FileStamp& stamp : source_->tensors().stamps()) {
      print.add(stamp.name);
      print.add_number(stamp.bytes);
      print.add_number(static_cast<std::uint64_t>(stamp.modified));
    }
    for (const OutputFile& file : out_.job.files) print.add(file.head);
    return "espalier-quantize " + print.text();
  }

  Result<> make() {
    OutputPlan plan;
    plan.path = w_.destination;
    plan.folder = out_.job.folder;
    plan.overwrite = w_.overwrite;
    plan.files = out_.job.files;
    plan.fingerprint = fingerprint();
    for (const Piece& piece : out_.job.pieces) plan.pieces.push_back(piece.slots);
    ESP_TRY(Output output, Output::open(std::move(plan)));
    out_.found = output.found();
    if (out_.found > 0)
      tell_.note(fmt::format("going on where an earlier run stopped: {} of {} tensors are there", out_.found,
                             out_.job.pieces.size()));
    std::uint64_t done = 0, total = 0;
    for (const Piece& piece : out_.job.pieces) total += piece.stored;
    for (std::size_t i = 0; i < out_.job.pieces.size(); ++i) {
      const Piece& piece = out_.job.pieces[i];
      tell_.progress("quantising", piece.name, done, total);
      if (!output.has(static_cast<int>(i))) {
        ESP_CHECK(piece.make(output, piece.slots, team_));
        ESP_CHECK(source_->tensors().intact());
        ESP_CHECK(output.finish_piece(static_cast<int>(i)));
      }
      for (const Tensor* tensor : piece.of) source_->tensors().forget(*tensor);
      done += piece.stored;
    }
    tell_.progress("quantising", "", total, total);
    for (const auto& [name, content] : out_.job.beside) ESP_CHECK(output.put_file(name, content));
    return output.publish();
  }

  // A model that gives no next token, or has no tokenizer, is not looked at.
  Result<> look() {
    const ModelSpec& spec = source_->files.config.spec;
    if (!source_->files.tokenizer || spec.pooled || spec.both_ways) {
      tell_.note("nothing is measured against the source: the model reads no text");
      return success();
    }
    if (text_ != calibrate_ || tokens_.empty()) {
      ESP_TRY(tokens_, source_->files.tokenizer->encode(text_));
    }
    ESP_TRY(const TextPieces text,
            pieces_of(tokens_, std::min(w_.length, w_.text_tokens), most_rows(spec, w_.text_tokens), true));
    ESP_TRY(const Source made, Source::open(w_.destination, false));
    ESP_TRY(out_.evaluation, evaluate(*source_, made, text, team_, [&](int done, int total) {
              tell_.progress("comparing", fmt::format("{} tokens", text.tokens.size()),
                             static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
            }));
    return success();
  }

  const Wishes& w_;
  const Listener& tell_;
  ComputeTeam team_;
  std::optional<Source> source_;
  std::string calibrate_, text_;
  std::vector<TokenId> tokens_;  // of the text that was read last
  TextPieces calibration_text_;
  std::optional<Calibration> measured_;
  Outcome out_;
};

}  // namespace

Result<Outcome> quantize(const Wishes& wishes, const Listener& listener) {
  return Run(wishes, listener).run();
}

std::string sizes_of(const Outcome& outcome) {
  std::string out = fmt::format("  {:<52} {:>8} {:>10} {:>10} {:>11}\n", "tensor", "from", "to", "size", "bits/value");
  for (const Piece& piece : outcome.job.pieces) {
    double values = 1;
    for (const std::int64_t n : piece.shape) values *= static_cast<double>(n);
    out += fmt::format("  {:<52} {:>8} {:>10} {:>10} {:>11.2f}\n", piece.name, piece.from, piece.to,
                       shown_bytes(piece.bytes()), values > 0 ? 8 * static_cast<double>(piece.bytes()) / values : 0);
  }
  return out + fmt::format("  {} tensors: {} become {} ({:.1f} %)\n", outcome.job.pieces.size(),
                           shown_bytes(outcome.source_bytes), shown_bytes(outcome.job.bytes()),
                           outcome.source_bytes > 0 ? 100.0 * static_cast<double>(outcome.job.bytes()) /
                                                          static_cast<double>(outcome.source_bytes)
                                                    : 0);
}

}  // namespace espalier::quantizer
