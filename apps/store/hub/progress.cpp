#include "store/hub/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/json/json.h"

namespace espalier::store {
namespace {

using Stage = ProgressEvent::Stage;

constexpr double kRateWindow = 5;       // seconds that the shown rate looks back
constexpr double kBarInterval = 0.1;    // seconds between two drawings
constexpr double kJsonInterval = 0.25;  // seconds between two "downloading" lines

std::string_view word_of(Stage stage) {
  switch (stage) {
    case Stage::resolving:
      return "resolving";
    case Stage::waiting:
      return "waiting";
    case Stage::downloading:
      return "downloading";
    case Stage::verifying:
      return "verifying";
    case Stage::ready:
      return "ready";
  }
  return "";
}

std::string readable_time(double seconds) {
  const auto whole = static_cast<long long>(std::min(std::ceil(seconds), 359'999.0));
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// Names come from users and hubs; nothing of them may move a terminal's cursor.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

bool finished(const ProgressEvent& event) {
  return event.total > 0 && event.done >= event.total;
}

class Bar : public Progress {
 public:
  explicit Bar(ProgressOutput output) : output_(std::move(output)) {}
  ~Bar() override {
    if (drawn_) output_.write("\n");  // an unfinished line must not swallow the error that follows
  }

  void on(const ProgressEvent& event) override {
    const double now = output_.now();
    if (event.stage == Stage::downloading) rate_.add(now, event.done);
    if (event.stage == last_ && !finished(event) && now - last_at_ < kBarInterval) return;
    last_ = event.stage;
    last_at_ = now;
    draw(line(event));
    if (event.stage == Stage::ready) {
      output_.write("\n");
      drawn_ = false;
    }
  }

 private:
  std::string line(const ProgressEvent& event) const {
    const std::string name = printable(event.model);
    switch (event.stage) {
      case Stage::resolving:
        return name + ": looking up";
      case Stage::waiting:
        return fmt::format("{}: another process fetches {}; waiting for it", name, printable(event.file));
      case Stage::verifying:
        return fmt::format("{}: checking {}", name, printable(event.file));
      case Stage::ready:
        return name + ": ready";
      case Stage::downloading:
        break;
    }
    std::string text = name + " ";
    if (event.total == 0) {
      text += readable_bytes(event.done);
    } else {
      const double share = std::min(1.0, static_cast<double>(event.done) / static_cast<double>(event.total));
      constexpr int kCells = 20;
      const int full = static_cast<int>(share * kCells);
      text += fmt::format("{:3.0f}% [{:=<{}}{:<{}}] {} of {}", std::floor(share * 100), "", full, "", kCells - full,
                          readable_bytes(event.done), readable_bytes(event.total));
    }
    if (const double rate = rate_.per_second(); rate > 0)
      text += fmt::format("  {}/s", readable_bytes(static_cast<std::uint64_t>(rate)));
    if (const auto left = rate_.seconds_left(event.total)) text += "  " + readable_time(*left) + " left";
    return text;
  }
  void draw(std::string text) {
    const auto room = static_cast<std::size_t>(std::max(20, output_.columns - 1));
    if (text.size() > room) text.resize(room);
    output_.write("\r" + text + "\x1b[K");
    drawn_ = true;
  }

  ProgressOutput output_;
  TransferRate rate_;
  std::optional<Stage> last_;
  double last_at_ = 0;
  bool drawn_ = false;
};

class Plain : public Progress {
 public:
  explicit Plain(ProgressOutput output) : output_(std::move(output)) {}

  void on(const ProgressEvent& event) override {
    const std::string name = printable(event.model);
    if (event.stage == Stage::downloading) {
      const auto tenth =
          event.total ? static_cast<int>(10.0 * static_cast<double>(event.done) / static_cast<double>(event.total)) : 0;
      if (tenth == tenth_) return;
      tenth_ = tenth;
      if (event.total == 0) return say(fmt::format("{}: fetching", name));
      return say(fmt::format("{}: {}% of {}", name, tenth * 10, readable_bytes(event.total)));
    }
    if (event.stage == last_) return;
    last_ = event.stage;
    if (event.stage == Stage::ready) say(name + ": ready");
    if (event.stage == Stage::waiting) say(name + ": another process fetches it; waiting");
  }

 private:
  void say(const std::string& text) { output_.write(text + "\n"); }
  ProgressOutput output_;
  std::optional<Stage> last_;
  int tenth_ = -1;
};

class JsonLines : public Progress {
 public:
  explicit JsonLines(ProgressOutput output) : output_(std::move(output)) {}

  void on(const ProgressEvent& event) override {
    const double now = output_.now();
    if (event.stage == Stage::downloading) rate_.add(now, event.done);
    if (event.stage == last_ && !finished(event) && now - last_at_ < kJsonInterval) return;
    last_ = event.stage;
    last_at_ = now;
    Json line = {{"event", word_of(event.stage)}, {"model", std::string(event.model)}};
    if (!event.file.empty()) line["file"] = std::string(event.file);
    if (event.stage == Stage::downloading) {
      line["bytes"] = event.done;
      line["total"] = event.total ? Json(event.total) : Json(nullptr);
      line["rate"] = static_cast<std::uint64_t>(rate_.per_second());
      const auto left = rate_.seconds_left(event.total);
      line["eta_s"] = left ? Json(std::ceil(*left)) : Json(nullptr);
    }
    output_.write(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  ProgressOutput output_;
  TransferRate rate_;
  std::optional<Stage> last_;
  double last_at_ = 0;
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return;  // a closed or full stderr is no reason to stop a download
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<ProgressStyle> progress_style(std::string_view word) {
  if (word == "auto") return ProgressStyle::automatic;
  if (word == "bar") return ProgressStyle::bar;
  if (word == "plain") return ProgressStyle::plain;
  if (word == "json") return ProgressStyle::json;
  if (word == "none") return ProgressStyle::none;
  return bad_request(fmt::format("progress is {}; it is auto, bar, plain, json or none", in_quotes(word)), "progress");
}

std::unique_ptr<Progress> make_progress(ProgressStyle style, ProgressOutput output) {
  switch (style) {
    case ProgressStyle::bar:
      return std::make_unique<Bar>(std::move(output));
    case ProgressStyle::json:
      return std::make_unique<JsonLines>(std::move(output));
    case ProgressStyle::none:
      return std::make_unique<NoProgress>();
    case ProgressStyle::automatic:
    case ProgressStyle::plain:
      break;
  }
  return std::make_unique<Plain>(std::move(output));
}

std::unique_ptr<Progress> make_progress(ProgressStyle style, int fd) {
  ProgressOutput output;
  output.write = [fd](std::string_view text) { write_all(fd, text); };
  winsize window{};
  if (::ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) output.columns = window.ws_col;
  if (style == ProgressStyle::automatic) {
    const char* terminal = std::getenv("TERM");
    const bool moves = ::isatty(fd) == 1 && terminal && std::string_view(terminal) != "dumb";
    style = moves ? ProgressStyle::bar : ProgressStyle::plain;
  }
  return make_progress(style, std::move(output));
}

void TransferRate::add(double now, std::uint64_t done) {
  if (!samples_.empty() && done < samples_.back().done) samples_.clear();  // a file began anew
  if (samples_.size() > 1 && now - samples_[samples_.size() - 2].at < 0.05) samples_.pop_back();
  samples_.push_back({now, done});
  while (samples_.size() > 2 && now - samples_[1].at > kRateWindow) samples_.pop_front();
}

double TransferRate::per_second() const {
  if (samples_.size() < 2) return 0;
  const double seconds = samples_.back().at - samples_.front().at;
  return seconds < 0.05 ? 0 : static_cast<double>(samples_.back().done - samples_.front().done) / seconds;
}

std::optional<double> TransferRate::seconds_left(std::uint64_t total) const {
  const double rate = per_second();
  if (total == 0 || rate <= 0 || samples_.back().done >= total) return std::nullopt;
  return static_cast<double>(total - samples_.back().done) / rate;
}

std::string readable_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace espalier::store
