// progress.h: what a download tells while it runs, and the ways to show it.
//
// The store only calls Progress::on; it never prints. Renderers turn events into text for a function that writes it
// (to stderr), so that results on stdout stay clean.
// Units:   bytes, seconds. Threads: events come from the threads that pull, one at a time. Fails: never.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::store {

struct ProgressEvent {
  enum class Stage {
    resolving,    // asking what there is
    waiting,      // another process fetches the same file
    downloading,  // `done` of `total` bytes, over all files of the model
    verifying,    // hashing what came
    ready,        // the model is complete
  };
  Stage stage = Stage::resolving;
  std::string_view model = {};  // the name as it was given
  std::string_view file = {};   // the file at hand; empty when it is about the whole model
  std::uint64_t done = 0;       // bytes, those already in the cache included
  std::uint64_t total = 0;      // 0 = not known
};

class Progress {
 public:
  virtual ~Progress() = default;
  virtual void on(const ProgressEvent& event) = 0;
};

class NoProgress : public Progress {
 public:
  void on(const ProgressEvent&) override {}
};

enum class ProgressStyle {
  automatic,  // bar on a terminal that can move its cursor, else plain
  bar,        // one line, redrawn: share, bytes, rate, time left
  plain,      // a line when something begins and ends, and every 10 % between
  json,       // one object a line:
              // {"event":"downloading","model":...,"file":...,"bytes":...,"total":...,"rate":...,"eta_s":...}
  none,
};
Result<ProgressStyle> progress_style(std::string_view word);  // "auto", "bar", "plain", "json", "none"

struct ProgressOutput {
  std::function<void(std::string_view)> write;
  std::function<double()> now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  int columns = 80;
};

std::unique_ptr<Progress> make_progress(ProgressStyle style, ProgressOutput output);

// To file descriptor `fd`; `automatic` looks whether it is a terminal.
std::unique_ptr<Progress> make_progress(ProgressStyle style, int fd);

// Bytes per second over the last seconds, and the time left at that rate.
class TransferRate {
 public:
  void add(double now, std::uint64_t done);
  double per_second() const;  // 0 until it is known
  std::optional<double> seconds_left(std::uint64_t total) const;

 private:
  struct Sample {
    double at;
    std::uint64_t done;
  };
  std::deque<Sample> samples_;
};

std::string readable_bytes(std::uint64_t bytes);  // "92.9 MB" (powers of ten, as disks and networks are sold)

}  // namespace espalier::store
