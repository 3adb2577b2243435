#include "store/hub/hub_pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/threads/start_thread.h"
#include "store/disk.h"
#include "store/hub/digest.h"
#include "store/hub/hub_client.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kFruitlessAttempts = 5;     // in a row, without a single new byte
constexpr milliseconds kFirstPause{500};  // doubled after each fruitless attempt
constexpr std::uint64_t kMostIndexBytes = 64 << 20;
constexpr std::size_t kFilesAtOnce = 4;

// Sleeps, unless asked to stop.
void pause(milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
}

bool worth_another_try(const Error& error) {
  return error.kind == Error::Kind::network || error.kind == Error::Kind::timeout || error.kind == Error::Kind::busy;
}

// Appends what comes to a file; begins anew when the server sends everything instead of the rest.
class IntoFile : public net::BodySink {
 public:
  IntoFile(OutputFile& file, std::uint64_t bytes, std::function<void()> on_progress)
      : file_(file), bytes_(bytes), on_progress_(std::move(on_progress)) {}
  Result<> on_head(const net::ClientResponse& response) override {
    return response.body_offset == file_.size() ? success() : file_.restart();
  }
  Result<> on_body(std::string_view piece) override {
    if (piece.size() > bytes_ - file_.size())
      return bad_file(
          fmt::format("more than the stated {} bytes of a file came", bytes_));  // trying again would not help
    ESP_CHECK(file_.write(piece));
    on_progress_();
    return success();
  }

 private:
  OutputFile& file_;
  std::uint64_t bytes_;  // the file's whole size; it never grows beyond
  std::function<void()> on_progress_;
};

class HubPull {
 public:
  HubPull(const Settings& settings, const std::string& given_name, const HubName& name, Progress& progress,
          std::stop_token stop)
      : settings_(settings),
        given_(given_name),
        name_(name),
        progress_(progress),
        forwarded_(stop, [this] { stopping_.request_stop(); }),
        stop_(stopping_.get_token()),
        cache_(settings.hub_cache),
        hub_(settings, stop_) {}

  Result<Model> run() {
    tell(ProgressEvent::Stage::resolving, {});
    ESP_TRY(repository_, hub_.repository(name_));
    ESP_TRY(HubChoice choice, choose_files(repository_.files, name_.quant));
    if (!choice.index.empty()) {
      ESP_TRY(const std::string index, fetch_index(choice.index));
      ESP_TRY(choice, choose_files(repository_.files, name_.quant, index));
    }
    if (const auto tower = tower_of(repository_.files, choice.main); !choice.main.empty() && tower)
      choice.files.push_back(*tower);
    ESP_TRY(const std::vector<HubFile> files, described(choice.files));
    ESP_CHECK(plan(files));
    ESP_CHECK(fetch_all(files));
    ESP_CHECK(cache_.write_ref(name_, repository_.commit));
    tell(ProgressEvent::Stage::ready, {});
    return cache_.find(given_, name_);
  }

 private:
  // `in_file`: bytes of it that are here; of a file that is not counted yet, or none.
  void tell(ProgressEvent::Stage stage, const std::string& file, std::optional<std::uint64_t> in_file = {}) {
    const std::scoped_lock lock(telling_);
    if (in_file) done_[file] = *in_file;
    std::uint64_t done = 0;
    for (const auto& [path, bytes] : done_) done += bytes;
    progress_.on({.stage = stage, .model = given_, .file = file, .done = done, .total = total_});
  }

  // Several at once: one connection rarely fills a line. The first that fails stops the others; what they have stays.
  Result<> fetch_all(const std::vector<HubFile>& files) {
    std::atomic<std::size_t> next{0};
    std::optional<Error> failure;
    std::mutex failing;
    const auto work = [&] {
      for (std::size_t i = 0; (i = next++) < files.size() && !stop_.stop_requested();) {
        const auto fetched = fetch(files[i]);
        if (fetched.ok()) continue;
        const std::scoped_lock lock(failing);
        if (!failure) failure = fetched.error();
        stopping_.request_stop();
      }
    };
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(kFilesAtOnce, files.size()); ++i) {
      auto other = start_thread<std::jthread>("download", work);
      if (!other.ok()) break;  // fewer at once then
      others.push_back(std::move(other).value());
    }
    work();
    others.clear();
    if (failure) return *failure;
    if (stop_.stop_requested()) return Error{Error::Kind::cancelled, "cancelled", {}, {}};
    return success();
  }

  Result<std::vector<HubFile>> described(const std::vector<std::string>& paths) {
    std::vector<HubFile> files;
    for (const std::string& path : paths) {
      const auto listed = std::find_if(repository_.files.begin(), repository_.files.end(),
                                       [&](const HubFile& file) { return file.path == path; });
      if (listed == repository_.files.end()) return internal_error("a file was chosen that was not listed");
      ESP_TRY(*listed, hub_.describe(name_, repository_.commit, std::move(*listed)));
      files.push_back(*listed);
    }
    return files;
  }

  Result<std::string> fetch_index(const std::string& path) {
    ESP_TRY(const auto files, described({path}));
    if (*files[0].bytes > kMostIndexBytes) return bad_file(fmt::format("{} is too large for an index", path));
    ESP_CHECK(fetch(files[0]));
    done_.clear();
    return read_small_file(cache_.blob(name_.repository, files[0]), kMostIndexBytes);
  }

  bool is_here(const HubFile& file) const {
    std::error_code code;
    return fs::file_size(cache_.blob(name_.repository, file), code) == *file.bytes && !code;
  }

  fs::path incomplete(const HubFile& file) const {
    fs::path path = cache_.blob(name_.repository, file);
    path += ".incomplete";
    return path;
  }

  // The bytes in all, and whether the rest of them fits on the device.
  Result<> plan(const std::vector<HubFile>& files) {
    std::uint64_t missing = 0;
    for (const HubFile& file : files) {
      if (__builtin_add_overflow(total_, *file.bytes, &total_))
        return Error{Error::Kind::network, "the hub states impossible file sizes", {}, {}};
      if (is_here(file)) continue;
      std::error_code code;
      const auto came = fs::file_size(incomplete(file), code);
      missing += *file.bytes - std::min<std::uint64_t>(*file.bytes, code ? 0 : came);
    }
    ESP_CHECK(make_folder(cache_.repository(name_.repository) / "blobs"));
    return check_free_space(cache_.repository(name_.repository), missing, "HF_HUB_CACHE");
  }

  Result<> fetch(const HubFile& file) {
    if (!is_here(file)) {
      const auto waiting = [&] { tell(ProgressEvent::Stage::waiting, file.path); };
      ESP_CHECK(make_folder(cache_.repository(name_.repository) / "blobs"));
      ESP_TRY(const FileLock lock, FileLock::acquire(cache_.lock(name_.repository, file), stop_, waiting));
      if (!is_here(file)) ESP_CHECK(bring(file));
    }
    ESP_CHECK(cache_.add_to_snapshot(name_.repository, repository_.commit, file));
    tell(ProgressEvent::Stage::downloading, file.path, file.bytes);
    return success();
  }

  // The blob itself; the caller holds its lock. A part that another program left may hold other bytes than ours would:
  // when a continued download does not match, it is fetched once more from its beginning.
  Result<> bring(const HubFile& file) {
    const fs::path part = incomplete(file);
    ESP_TRY(OutputFile output, OutputFile::open_at_end(part));
    if (output.size() > *file.bytes) ESP_CHECK(output.restart());
    bool continued = output.size() > 0;
    for (;;) {
      ESP_CHECK(download(file, output));
      ESP_CHECK(output.finish());
      ESP_TRY(const bool right, matches(file, part));
      if (right) return move_into_place(part, cache_.blob(name_.repository, file));
      ESP_CHECK(output.restart());
      if (!continued)
        return Error{Error::Kind::network,
                     fmt::format("{} came with another hash than {} states for it; it was thrown "
                                 "away, try again",
                                 file.path, settings_.endpoint),
                     {},
                     {}};
      continued = false;
    }
  }

  // Attempts until all bytes are there, each going on where the last one broke off.
  Result<> download(const HubFile& file, OutputFile& output) {
    int fruitless = 0;
    while (output.size() < *file.bytes) {
      const std::uint64_t before = output.size();
      IntoFile sink(output, *file.bytes, [&] { tell(ProgressEvent::Stage::downloading, file.path, output.size()); });
      auto response = hub_.download(name_, repository_.commit, file, before, sink);
      if (response.ok() && output.size() < *file.bytes)
        response = Error{Error::Kind::network,
                         fmt::format("{} sent only {} of the {} bytes of {}", settings_.endpoint, output.size(),
                                     *file.bytes, file.path),
                         {},
                         {}};
      if (response.ok()) break;
      if (!worth_another_try(response.error())) return std::move(response).error();
      fruitless = output.size() > before ? 0 : fruitless + 1;
      if (fruitless == kFruitlessAttempts) return std::move(response).error();
      if (fruitless > 0) pause(kFirstPause * (1 << (fruitless - 1)), stop_);
      if (stop_.stop_requested()) return Error{Error::Kind::cancelled, "cancelled", {}, {}};
    }
    return success();
  }

  Result<bool> matches(const HubFile& file, const fs::path& part) {
    tell(ProgressEvent::Stage::verifying, file.path, file.bytes);
    const auto kind = file.sha256.empty() ? DigestKind::git_blob : DigestKind::sha256;
    ESP_TRY(const std::string hash, hash_file(part, kind, stop_));
    return hash == blob_name(file);
  }

  const Settings& settings_;
  const std::string& given_;
  const HubName& name_;
  Progress& progress_;
  std::stop_source stopping_;  // asked by the caller, or by a file that failed
  std::stop_callback<std::function<void()>> forwarded_;
  std::stop_token stop_;
  HubCache cache_;
  HubClient hub_;
  HubRepository repository_;
  std::uint64_t total_ = 0;  // bytes of all files
  std::mutex telling_;
  std::map<std::string, std::uint64_t> done_;  // bytes of each file that are here
};

}  // namespace

Result<Model> pull_hub_model(const Settings& settings, const std::string& given_name, const HubName& name,
                             Progress& progress, std::stop_token stop) {
  if (settings.hub_cache.empty()) return make_folder({}).error();
  return HubPull(settings, given_name, name, progress, std::move(stop)).run();
}

}  // namespace espalier::store
