#include "cache/disk/disk_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/checksum.h"
#include "base/log.h"

namespace espalier {
namespace {

constexpr int kBuffers = 4;                      // each way
constexpr int kHostBuffers = 16;                 // likewise, with memory before the disk: it is not behind for long
constexpr std::uint64_t kPieceBytes = 16 << 20;  // of a file, about
constexpr std::size_t kMostBlocks = std::size_t{1} << 20;
constexpr std::size_t kMostTasks = std::size_t{1} << 20;  // what is in flight is bounded by the buffers

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
}

// What others have is read as it comes, so that a buffer is held only while it is filled.
template <class Reading, class Read>
void read_in_parts(Reading part, const CancelFlag& cancelled, const Read& read) {
  const int end = part.first_block + part.blocks;
  const bool last = part.last;
  for (bool right = true; right && part.first_block < end; part.first_block += part.blocks) {
    const bool asks = part.foreign != nullptr && !cancelled.cancelled();
    const Result<int> there = asks ? part.foreign->await(part.first_block) : end;
    if (!there.ok()) part.why_not = there.error().message;
    part.blocks = std::min(there.ok() ? *there : end, end - part.first_block);
    part.goes_on = part.first_block + part.blocks < end;
    part.last = last && !part.goes_on;
    right = read(part);
  }
}

}  // namespace

DiskTier::DiskTier(DiskTierOptions options, std::unique_ptr<CacheFolder> folder, DiskTierCounters& counters)
    : options_(std::move(options)),
      files_(std::move(folder), options_.host_bytes, options_.keep, trouble_,
             {[this](StoredFile file) { note_write(std::move(file)); }, [this](const Error& e) { note_trouble(e); }}),
      stride_(aligned(std::max<std::uint64_t>(options_.block_bytes, 1))),
      rates_(stride_ / kBlockTokens, options_.weighs),
      counters_(counters),
      foreign_reader_(options_.foreign_threads > 0 ? std::make_unique<BackgroundPool>(BackgroundPool::Options{
                                                         "remote-r", options_.foreign_threads, kMostTasks})
                                                   : nullptr),
      reader_({"disk-r", 1, kMostTasks}),
      writer_({"disk-w", 1, kMostTasks}) {
  while (static_cast<std::uint64_t>(2 * piece_blocks_) * stride_ <= kPieceBytes && piece_blocks_ < 1024)
    piece_blocks_ *= 2;
  const std::size_t bytes = static_cast<std::size_t>(piece_blocks_) * stride_;
  const int buffers = files_.in_memory().on() ? kHostBuffers : kBuffers;
  read_buffers_ = std::make_shared<IoBuffers>(bytes, buffers, options_.pin);
  write_buffers_ = std::make_shared<IoBuffers>(bytes, buffers, options_.pin);
  counters_.on.set(1);
}

DiskTier::~DiskTier() {
  for (auto& [id, flag] : loads_) flag.cancel();
  read_buffers_->stop();
  if (foreign_reader_) foreign_reader_->stop();
  reader_.stop();
  writer_.stop();
  if (clears_ > 0) files_.remove_all();  // the writing thread did not come to it
  if (files_.folder() != nullptr && !options_.keep) files_.folder()->remove_all();
}

// --- storing ---

std::vector<DiskTier::Piece> DiskTier::missing(std::string_view scope, std::span<const TokenId> tokens,
                                               int first_block) const {
  std::vector<Piece> pieces;
  if (trouble_) return pieces;
  const int blocks = static_cast<int>(tokens.size()) / kBlockTokens;
  const std::vector<bool> held = catalogue_.held(scope, tokens);
  for (int b = first_block; b < blocks; ++b) {
    if (b < static_cast<int>(held.size()) && held[static_cast<std::size_t>(b)]) continue;
    const bool goes_on = !pieces.empty() && pieces.back().first_block + pieces.back().blocks == b;
    if (goes_on && b % piece_blocks_ != 0)
      ++pieces.back().blocks;
    else
      pieces.push_back({b, 1});
  }
  return pieces;
}

DiskTier::Store DiskTier::store(std::string_view scope, std::span<const TokenId> tokens, Piece piece, const Fill& fill,
                                WaitLimit wait_limit, Filled filled) {
  const int end = (piece.first_block + piece.blocks) * kBlockTokens;
  const auto count = static_cast<std::uint64_t>(piece.blocks) * kBlockTokens;
  if (trouble_ || end > static_cast<int>(tokens.size()) || piece.blocks > piece_blocks_ || piece.blocks <= 0 ||
      scope.size() > PrefixFileLimits::text || tokens.size() > PrefixFileLimits::tokens) {
    counters_.dropped_tokens_full.add(count);
    return Store::no_room;
  }
  tokens = tokens.first(static_cast<std::size_t>(end));
  IoBuffer buffer = write_buffers_->acquire_until(wait_limit.until);
  if (!buffer.valid()) {
    counters_.dropped_tokens_busy.add(count);
    return Store::busy;
  }
  PrefixFile file;
  file.key = options_.key;
  file.scope = scope;
  file.tokens.assign(tokens.begin(), tokens.end());
  file.first_block = piece.first_block;
  file.block_stride = stride_;
  file.checksums.resize(static_cast<std::size_t>(piece.blocks));
  file.header_bytes = header_bytes_for(file);

  catalogue_.touch(scope, tokens);  // beginnings outlive what is stored behind them
  PrefixCatalogue::File entry;
  entry.name = fmt::format("{:016x}.kv", next_name_++);
  entry.bytes = file.file_bytes();
  entry.first_block = piece.first_block;
  entry.blocks = piece.blocks;
  const std::string name = entry.name;
  if (!make_room(entry.bytes, std::min(wait_limit.spare_since, catalogue_.now()))) {
    counters_.dropped_tokens_full.add(count);
    return Store::no_room;
  }
  const auto id = catalogue_.add(scope, tokens, std::move(entry));
  if (!id) return Store::queued;  // all of it is held already
  fill(buffer.bytes().first(static_cast<std::size_t>(piece.blocks) * stride_));
  Writing writing{*id, name, std::move(file), std::move(buffer)};
  if (filled == Filled::now)
    submit(std::move(writing));
  else
    filling_.push_back(std::move(writing));
  return Store::queued;
}

void DiskTier::filled() {
  for (Writing& writing : std::exchange(filling_, {})) submit(std::move(writing));
}

void DiskTier::submit(Writing writing) {
  writer_.submit([this, writing = std::move(writing)](const CancelFlag&) mutable { write(std::move(writing)); });
}

bool DiskTier::make_room(std::uint64_t bytes, std::uint64_t spare_since) {
  if (bytes > std::max(options_.capacity, options_.host_bytes)) return false;
  while (catalogue_.bytes() + bytes > capacity() || catalogue_.blocks() >= kMostBlocks) {
    const auto victim = catalogue_.victim(spare_since);
    if (!victim) return false;
    counters_.removed_bytes.add(catalogue_.file(*victim)->bytes);
    remove_file(*victim);
  }
  return true;
}

// The writing thread removes it, before anything that is stored from now on.
void DiskTier::remove_file(FileId file) {
  const std::string name = catalogue_.file(file)->name;
  catalogue_.remove(file);
  writer_.submit([this, name](const CancelFlag&) {
    files_.remove(name);
    files_.publish(writer_.waiting() > 0);
  });
}

// --- on the writing thread ---

void DiskTier::write(Writing writing) {
  PrefixFile& header = writing.header;
  const auto blocks = writing.buffer.bytes().first(header.checksums.size() * stride_);
  for (std::size_t b = 0; b < header.checksums.size(); ++b)
    header.checksums[b] = checksum(blocks.subspan(b * stride_, stride_));
  files_.write(writing.file, writing.name, std::move(header), blocks);
  writing.buffer.reset();
  files_.spill();
  files_.publish(writer_.waiting() > 0);
}

void DiskTier::note_write(StoredFile file) {
  if (file.done) {
    counters_.stored_tokens.add(file.checksums.size() * kBlockTokens);
    counters_.stored_bytes.add(file.bytes);
  }
  const std::lock_guard lock(mutex_);
  write_results_.push_back(std::move(file));
}

// --- loading ---

DiskTier::Ranges DiskTier::find(std::string_view scope, std::span<const TokenId> tokens, int first_block) const {
  return trouble_ && !obeyed_ ? Ranges() : catalogue_.find(scope, tokens, first_block);
}

bool DiskTier::in_host_memory(const Ranges& ranges) const {
  const HostFiles& memory = files_.in_memory();
  return memory.on() &&
         std::ranges::all_of(ranges, [&](const auto& range) { return memory.has(catalogue_.file(range.file)->name); });
}

DiskTier::LoadId DiskTier::load(std::string_view scope, std::span<const TokenId> tokens, int first_block,
                                const Ranges& ranges) {
  const LoadId id = ++last_load_;
  CancelFlag flag;
  std::vector<Reading> readings;
  for (const auto& range : ranges) {
    const PrefixCatalogue::File& file = *catalogue_.file(range.file);
    for (int done = 0; done < range.count;) {
      const int blocks = std::min(range.count - done, piece_blocks_), first = range.first + done;
      Reading& reading = readings.emplace_back();
      reading.load = id;
      reading.file = range.file;
      reading.name = file.name;
      reading.offset = file.header_bytes + static_cast<std::uint64_t>(first) * stride_;
      reading.first_block = first_block;
      reading.blocks = blocks;
      reading.foreign = file.foreign;
      if (!file.foreign)
        reading.checksums.assign(file.checksums.begin() + first, file.checksums.begin() + first + blocks);
      done += blocks;
      first_block += blocks;
      catalogue_.use(range.file);
    }
  }
  if (!readings.empty()) readings.back().last = true;
  catalogue_.touch(scope, tokens.first(std::min(tokens.size(), static_cast<std::size_t>(first_block * kBlockTokens))));
  loads_.emplace(id, flag);
  // Pieces come in order: one thread reads all of a load, what is our own among them too.
  const bool foreign = std::ranges::any_of(readings, [](const Reading& r) { return r.foreign != nullptr; });
  if (!std::ranges::all_of(readings, [](const Reading& r) { return r.foreign != nullptr; })) counters_.loads.add();
  if (foreign)
    foreign_reader_->submit([this, readings = std::move(readings), flag](const CancelFlag&) {
      for (const Reading& reading : readings)
        read_in_parts(reading, flag, [&](const Reading& part) { return read(part, flag); });
    });
  else
    for (Reading& reading : readings)
      reader_.submit([this, reading = std::move(reading), flag](const CancelFlag&) { read(reading, flag); });
  return id;
}

std::optional<FileId> DiskTier::add_foreign(std::string_view scope, std::span<const TokenId> tokens, int first_block,
                                            std::shared_ptr<ForeignBlocks> blocks) {
  if (!foreign_reader_ || catalogue_.blocks() >= kMostBlocks) return std::nullopt;
  const auto whole = tokens.size() / kBlockTokens;
  PrefixCatalogue::File file;
  file.first_block = first_block;
  file.blocks = static_cast<int>(whole) - first_block;
  file.readable = true;
  file.foreign = std::move(blocks);
  return catalogue_.add(scope, tokens.first(whole * kBlockTokens), std::move(file));
}

void DiskTier::drop_foreign(FileId file) {
  if (catalogue_.file(file) != nullptr) catalogue_.remove(file);
}

void DiskTier::cancel(LoadId load) {
  const auto found = loads_.find(load);
  if (found == loads_.end()) return;
  found->second.cancel();
  loads_.erase(found);
}

// On a reading thread. False: it was not read, and nothing behind it is wanted.
bool DiskTier::read(const Reading& reading, const CancelFlag& cancelled) {
  ReadResult result;
  result.file = reading.file;
  result.loaded.load = reading.load;
  result.loaded.first_block = reading.first_block;
  result.loaded.blocks = reading.blocks;
  result.loaded.last = reading.last;
  result.loaded.foreign = reading.foreign != nullptr;
  IoBuffer buffer;
  const bool wanted = !cancelled.cancelled() && reading.why_not.empty() && (!trouble_ || reading.foreign);
  if (wanted) buffer = read_buffers_->acquire();
  if (!buffer.valid() || cancelled.cancelled()) {
    result.cancelled = cancelled.cancelled();
    result.damaged = !reading.why_not.empty();
    result.why = reading.why_not;
    result.loaded.failed = true;
  } else {
    const auto into = buffer.bytes().first(static_cast<std::size_t>(reading.blocks) * stride_);
    if (auto done = read_piece(reading, into, result); !done.ok()) {
      result.loaded.failed = true;
      result.why = done.error().message;
      result.damaged =
          reading.foreign || done.error().kind == Error::Kind::bad_file || done.error().kind == Error::Kind::not_found;
      if (!result.damaged) note_trouble(done.error());
    } else {
      result.loaded.buffer = std::move(buffer);
    }
  }
  const bool right = !result.loaded.failed;
  result.goes_on = reading.goes_on && right;
  if (!right) cancelled.cancel();  // what follows could not be used
  {
    std::lock_guard lock(mutex_);
    read_results_.push_back(std::move(result));
  }
  if (options_.wake) options_.wake();
  return right;
}

Result<> DiskTier::read_piece(const Reading& reading, std::span<std::byte> into, ReadResult& result) {
  if (reading.foreign) return reading.foreign->read(reading.first_block, into);
  ESP_TRY(result.took, files_.read(reading.name, reading.offset, into));
  for (std::size_t b = 0; b < reading.checksums.size(); ++b)
    if (checksum(into.subspan(b * stride_, stride_)) != reading.checksums[b])
      return bad_file(fmt::format("block {} of {} does not match its checksum", b, reading.name));
  return success();
}

std::vector<DiskTier::Loaded> DiskTier::collect() {
  std::vector<ReadResult> reads;
  std::vector<StoredFile> writes;
  {
    std::lock_guard lock(mutex_);
    reads.swap(read_results_);
    writes.swap(write_results_);
  }
  for (StoredFile& file : writes) {
    if (file.done)
      catalogue_.finished(file.file, file.header_bytes, std::move(file.checksums));
    else
      catalogue_.remove(file.file);
  }
  std::vector<Loaded> loaded;
  for (ReadResult& r : reads) {
    if (!r.goes_on) catalogue_.unuse(r.file);
    if (r.damaged && r.loaded.foreign) {
      drop_foreign(r.file);
    } else if (r.damaged && catalogue_.file(r.file) != nullptr) {
      log::warning("prefix cache: {}; the file is dropped and its tokens are computed again", r.why);
      counters_.damaged_files.add();
      remove_file(r.file);
    }
    if (!r.loaded.failed && !r.loaded.foreign) {
      if (r.took.reading > 0)
        rates_.read(static_cast<std::uint64_t>(r.loaded.blocks) * stride_, r.took.opening, r.took.reading);
      counters_.loaded_bytes.add(static_cast<std::uint64_t>(r.loaded.blocks) * stride_);
    }
    const auto wanted = loads_.find(r.loaded.load);
    if (wanted == loads_.end()) continue;
    if (r.loaded.last || r.loaded.failed) loads_.erase(wanted);
    loaded.push_back(std::move(r.loaded));
  }
  obey_trouble();
  const std::uint64_t in_memory = files_.in_memory().bytes();
  counters_.used_bytes.set(static_cast<double>(catalogue_.bytes() - std::min(catalogue_.bytes(), in_memory)));
  counters_.host_bytes.set(static_cast<double>(in_memory));
  return loaded;
}

// --- all ---

void DiskTier::note_trouble(const Error& error) {
  if (trouble_.exchange(true)) return;
  log::warning("prefix cache: the disk tier is switched off: {}", error.message);
}

// On the engine thread: what lies on a disk in trouble is no longer counted on.
bool DiskTier::obey_trouble() {
  if (!trouble_ || obeyed_) return obeyed_;
  obeyed_ = true;
  catalogue_.clear();
  counters_.on.set(0);
  return true;
}

void DiskTier::clear() {
  for (auto& [id, flag] : loads_) flag.cancel();
  loads_.clear();
  filling_.clear();
  catalogue_.clear();
  counters_.used_bytes.set(0);
  ++clears_;
  writer_.submit([this](const CancelFlag&) {
    files_.remove_all();
    --clears_;
  });
}

bool DiskTier::flush(Time until) {
  if (options_.keep && files_.in_memory().on()) {  // all of it is to be found again
    while (catalogue_.bytes() > options_.capacity && catalogue_.victim()) remove_file(*catalogue_.victim());
    writer_.submit([this](const CancelFlag&) {
      files_.spill(0);
      files_.publish(false);
    });
  }
  while (writer_.waiting() + writer_.running() > 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (options_.keep && on()) files_.folder()->sync_names();
  return true;
}

void DiskTier::publish_rates() {
  counters_.read_bytes_per_second.set(rates_.bytes_per_second());
  counters_.computed_tokens_per_second.set(rates_.tokens_per_second());
  counters_.break_even_tokens.set(rates_.break_even_tokens());
}

}  // namespace espalier
