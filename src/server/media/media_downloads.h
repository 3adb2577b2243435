// media_downloads.h: remote pictures are fetched before their call goes to the pool of pictures, so that a host which takes its
// time holds up nobody but those who asked it.
//
// A few threads fetch. One host has at most half of them at a time; what is more waits in a line of its own, while files of
// other hosts go on.
// Threads: begin(), stop(): any; `then` is called on a thread of the downloads.
// Fails:   begin() is false when too many wait. What a fetch fails with is kept as the answer of its address.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/background_pool.h"
#include "server/admission/budget.h"
#include "server/media/media_fetch.h"

namespace espalier::server {

// An address, and the field that named it.
struct MediaAddress {
  std::string address, place;
};

// The files that were fetched for one call, by their addresses. Complete before the call looks at it again.
class FetchedMedia {
 public:
  // Null: not fetched here.
  const Result<std::string>* find(std::string_view address) const;

 private:
  friend class MediaDownloads;
  struct Answer {
    Result<std::string> file;
    Budget::Charge charge;
  };
  std::mutex mutex_;
  std::map<std::string, Answer, std::less<>> answers_;
};

// Fetches for all calls.
class MediaDownloads {
 public:
  MediaDownloads(MediaFetcher& fetcher, std::shared_ptr<Budget> memory, unsigned threads, std::size_t most_waiting);
  ~MediaDownloads() { stop(); }

  // `unwanted`: whether nobody waits for it any more. `then`: once all addresses are answered.
  bool begin(const std::vector<MediaAddress>& addresses, std::shared_ptr<FetchedMedia> into,
             std::function<bool()> unwanted, std::function<void()> then);
  void stop() { pool_.stop(); }

 private:
  // What one call waits for; the last file's end is told.
  struct Group {
    std::shared_ptr<FetchedMedia> into;
    std::function<bool()> unwanted;
    std::function<void()> then;
    std::size_t left = 0;  // guarded by into->mutex_
  };
  struct File {
    MediaAddress from;
    std::string host;
    std::shared_ptr<Group> group;
  };
  // The files of one host.
  struct Line {
    unsigned running = 0;
    std::deque<File> waiting;
  };

  void start(File file);
  void run(const File& file);
  std::optional<File> next_of(const std::string& host);

  MediaFetcher& fetcher_;
  const std::shared_ptr<Budget> memory_;
  const unsigned most_of_host_;
  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::size_t waiting_ = 0;
  std::map<std::string, Line> lines_;
  BackgroundPool pool_;  // last: its threads use all of the above
};

}  // namespace espalier::server
