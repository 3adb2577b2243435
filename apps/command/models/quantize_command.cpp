// `espalier quantize SRC DST --type T`: a model in fewer bits, and what that costs.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "command/command.h"
#include "command/output.h"
#include "quantize/quantize.h"
#include "store/hub/progress.h"
#include "tensor/quantize/quantize.h"

namespace espalier::command {
namespace {

struct QuantizeArguments {
  quantizer::Wishes wishes;
  std::string model, type, output_type, embedding_type, report, progress = "auto";
  bool no_report = false, list_types = false;
};

// One line on a terminal; elsewhere a line for every tenth.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& style)
      : bar_(style == "bar" || (style == "auto" && ::isatty(STDERR_FILENO) == 1)), silent_(style == "none") {}

  void show(const std::string& stage, const std::string& at, std::uint64_t done, std::uint64_t total) {
    if (silent_) return;
    if (stage != stage_) begin(stage);
    const double now = seconds();
    rate_.add(now, done);
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    if (!bar_) return plain(share, done == total);
    if (done != total && now - shown_ < 0.1) return;
    shown_ = now;
    constexpr int kWidth = 24;
    const int full = static_cast<int>(share * kWidth);
    std::string line =
        fmt::format("\r\x1b[K{} [{}{}] {:3.0f} %", stage, std::string(static_cast<std::size_t>(full), '#'),
                    std::string(static_cast<std::size_t>(kWidth - full), '.'), 100 * share);
    if (const auto left = rate_.seconds_left(total); left && done != total)
      line += fmt::format(", {:.0f} s left", *left);
    if (!at.empty()) line += "  " + printable(at);
    if (done == total) line += "\n";
    std::fputs(line.c_str(), stderr);
  }

 private:
  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void begin(const std::string& stage) {
    stage_ = stage;
    tenth_ = -1;
    rate_ = {};
  }
  void plain(double share, bool last) {
    const int tenth = static_cast<int>(share * 10);
    if (tenth == tenth_ || (last && tenth_ == 10)) return;
    tenth_ = tenth;
    fmt::print(stderr, "espalier: {} {} %\n", stage_, 10 * tenth);
  }

  bool bar_, silent_;
  std::string stage_;
  int tenth_ = -1;
  double shown_ = 0;
  store::TransferRate rate_;
};

Result<std::optional<DType>> wished_type(const std::string& word, const char* flag) {
  if (word.empty()) return std::optional<DType>();
  const auto type = dtype_named(word);
  if (type && can_quantize(*type)) return type;
  return bad_request(
      fmt::format("{} {} is not known; f32, f16, bf16, q8_0, q6_k, q5_k, q4_k and the like are", flag, word), flag + 2);
}

Result<> prepare(QuantizeArguments& a) {
  if (!a.wishes.only_report) {
    ESP_TRY(a.wishes.target, quantizer::find_target(a.type));
  }
  ESP_TRY(a.wishes.types.output, wished_type(a.output_type, "--output-tensor-type"));
  ESP_TRY(a.wishes.types.embedding, wished_type(a.embedding_type, "--token-embedding-type"));
  if ((a.wishes.types.output || a.wishes.types.embedding) && a.wishes.target.container != quantizer::Container::gguf)
    return bad_request("--output-tensor-type and --token-embedding-type are for GGUF types", "type");
  if (a.progress != "auto" && a.progress != "bar" && a.progress != "plain" && a.progress != "none")
    return bad_request(fmt::format("--progress {} is not known; auto, bar, plain and none are", a.progress),
                       "progress");
  a.wishes.report = !a.no_report;
  if (a.wishes.destination.empty() && !a.wishes.dry_run)
    return bad_request("a destination is missing: espalier quantize SRC DST --type q4_k_m", "dst");
  ESP_TRY(a.wishes.source, find_model(a.model));
  return success();
}

Result<> write_picture(const QuantizeArguments& a, const quantizer::Outcome& outcome) {
  if (!outcome.evaluation) return success();
  const std::string path = a.report.empty() ? a.wishes.destination + ".report.svg" : a.report;
  const auto last = [](const std::string& p) {
    return std::filesystem::path(p).lexically_normal().filename().string();
  };
  const std::string title =
      fmt::format("{} as {}", last(a.wishes.source),
                  a.wishes.only_report ? last(a.wishes.destination) : std::string(a.wishes.target.name));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << quantizer::picture_of(*outcome.evaluation, title);
  out.flush();
  if (!out) return bad_file(fmt::format("the picture {} cannot be written", path), "report");
  put(fmt::format("  picture           {}\n", printable(path)));
  return success();
}

int run_quantize(QuantizeArguments& a) {
  if (a.list_types) {
    for (const quantizer::Target& target : quantizer::targets())
      put(fmt::format("  {:<12} {}\n", target.name, target.about));
    return 0;
  }
  if (const auto ready = prepare(a); !ready.ok()) return fail(ready.error());
  ProgressLine line(a.progress);
  const quantizer::Listener listener{
      [&](const std::string& stage, const std::string& at, std::uint64_t done, std::uint64_t total) {
        line.show(stage, at, done, total);
      },
      [](const std::string& sentence) { fmt::print(stderr, "espalier: {}\n", printable(sentence)); }};
  const auto outcome = quantizer::quantize(a.wishes, listener);
  if (!outcome.ok()) return fail(outcome.error());
  if (a.wishes.dry_run) {
    put(quantizer::sizes_of(*outcome));
    for (const std::string& note : outcome->job.notes) put("  " + printable(note) + "\n");
    return 0;
  }
  const std::uint64_t bytes = outcome->job.bytes();
  if (!a.wishes.only_report)
    put(fmt::format(
        "{}  {} tensors, {} of {} ({:.1f} %)\n", printable(a.wishes.destination), outcome->job.pieces.size(),
        store::readable_bytes(bytes), store::readable_bytes(outcome->source_bytes),
        100.0 * static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(1, outcome->source_bytes))));
  if (outcome->evaluation) put(quantizer::table_of(*outcome->evaluation));
  if (const auto drawn = write_picture(a, *outcome); !drawn.ok()) return fail(drawn.error());
  return 0;
}

}  // namespace

Run add_quantize(CLI::App& app) {
  auto a = std::make_shared<QuantizeArguments>();
  auto* verb = app.add_subcommand("quantize", "write a model in fewer bits, and measure what that costs");
  verb->add_option("src", a->model, "a GGUF file, a folder with config.json, or a name");
  verb->add_option("dst", a->wishes.destination, "the file (GGUF types) or folder (w8a8, w8a16, w4a16) to write");
  verb->add_option("--type", a->type, "q4_k_m, q8_0, iq4_xs, w4a16, w8a8 ...; --list-types tells all");
  verb->add_flag("--list-types", a->list_types, "tell the types and end");
  verb->add_option("--calibrate", a->wishes.calibrate,
                   "a text by which columns are weighed (GGUF), scaled (SmoothQuant, AWQ) and rounded (GPTQ)");
  verb->add_option("--calibrate-tokens", a->wishes.calibrate_tokens, "of it, at most")->check(CLI::Range(16, 1 << 20));
  verb->add_option("--group-size", a->wishes.group, "inputs that share a scale, of w4a16: 128, 64 or 32; 0: as fits")
      ->check(CLI::IsMember({0, 32, 64, 128}));
  verb->add_option("--output-tensor-type", a->output_type, "type of the head, of GGUF files");
  verb->add_option("--token-embedding-type", a->embedding_type, "type of the embedding, of GGUF files");
  verb->add_option("--threads", a->wishes.threads, "that compute; 0: as many as there are processors")
      ->check(CLI::Range(0, 1024));
  verb->add_flag("--overwrite", a->wishes.overwrite, "replace what is there");
  verb->add_flag("--dry-run", a->wishes.dry_run, "tell the types and sizes of all tensors, and write nothing");
  verb->add_option("--text", a->wishes.text, "the text by which the model is compared with its source");
  verb->add_option("--text-tokens", a->wishes.text_tokens, "of it, at most")->check(CLI::Range(16, 1 << 20));
  verb->add_option("--report", a->report, "where the picture goes; else beside DST");
  verb->add_flag("--only-report", a->wishes.only_report, "write no model: compare DST, whoever made it, with SRC");
  verb->add_flag("--no-report", a->no_report, "do not compare the model with its source");
  verb->add_option("--progress", a->progress, "auto, bar, plain or none");
  return [a] {
    if (!a->list_types && (a->model.empty() || (a->type.empty() && !a->wishes.only_report)))
      return fail(bad_request(a->model.empty()
                                  ? "a source is missing: espalier quantize SRC DST --type q4_k_m"
                                  : "--type is missing: q4_k_m, q8_0, w4a16 and others; --list-types tells all",
                              a->model.empty() ? "src" : "type"));
    return run_quantize(*a);
  };
}

}  // namespace espalier::command
