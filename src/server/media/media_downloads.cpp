#include "server/media/media_downloads.h"

#include <algorithm>
#include <utility>

#include "net/client/url.h"

namespace espalier::server {

const Result<std::string>* FetchedMedia::find(std::string_view address) const {
  const auto found = answers_.find(address);
  return found == answers_.end() ? nullptr : &found->second.file;
}

MediaDownloads::MediaDownloads(MediaFetcher& fetcher, std::shared_ptr<Budget> memory, unsigned threads,
                               std::size_t most_waiting)
    : fetcher_(fetcher),
      memory_(std::move(memory)),
      most_of_host_(std::max(1u, threads / 2)),
      most_waiting_(most_waiting),
      pool_({"fetch", threads, most_waiting}) {}

bool MediaDownloads::begin(const std::vector<MediaAddress>& addresses, std::shared_ptr<FetchedMedia> into,
                           std::function<bool()> unwanted, std::function<void()> then) {
  const auto group = std::make_shared<Group>(Group{std::move(into), std::move(unwanted), std::move(then), 0});
  group->left = addresses.size();
  std::vector<File> begun;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_ + addresses.size() > most_waiting_) return false;
    waiting_ += addresses.size();
    for (const MediaAddress& from : addresses) {
      const auto url = net::parse_url(from.address);
      File file{from, url.ok() ? url->host : std::string(), group};
      Line& line = lines_[file.host];
      if (line.running < most_of_host_) {
        ++line.running;
        begun.push_back(std::move(file));
      } else {
        line.waiting.push_back(std::move(file));
      }
    }
  }
  for (File& file : begun) start(std::move(file));
  return true;
}

// Its place in its host's line is taken already.
void MediaDownloads::start(File file) {
  pool_.submit([this, file = std::move(file)](const CancelFlag& stopped) {
    run(file);
    if (stopped.cancelled()) return;
    if (auto next = next_of(file.host)) start(*std::move(next));
  });
}

std::optional<MediaDownloads::File> MediaDownloads::next_of(const std::string& host) {
  const std::lock_guard lock(mutex_);
  const auto line = lines_.find(host);
  if (!line->second.waiting.empty()) {
    File next = std::move(line->second.waiting.front());
    line->second.waiting.pop_front();
    return next;
  }
  if (--line->second.running == 0) lines_.erase(line);
  return std::nullopt;
}

void MediaDownloads::run(const File& file) {
  Group& group = *file.group;
  FetchedMedia::Answer answer{Error{Error::Kind::cancelled, "nobody waits for it any more", {}, {}}, {}};
  if (!group.unwanted || !group.unwanted()) {
    answer.file = fetcher_.fetch(file.from.address, file.from.place);
    if (answer.file.ok()) {
      auto charge = memory_->charge(static_cast<std::int64_t>(answer.file->size()),
                                    "too many pictures are in memory at once; try again later");
      if (charge.ok())
        answer.charge = std::move(charge).value();
      else
        answer.file = charge.error();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    --waiting_;
  }
  bool last = false;
  {
    const std::lock_guard lock(group.into->mutex_);
    group.into->answers_.emplace(file.from.address, std::move(answer));
    last = --group.left == 0;
  }
  if (last) group.then();
}

}  // namespace espalier::server
