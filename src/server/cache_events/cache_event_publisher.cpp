#include "server/cache_events/cache_event_publisher.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

#include "base/log.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "server/cache_events/msgpack_writer.h"
#include "server/cache_events/zmq_library.h"

namespace espalier::server {
namespace {

constexpr long kPollMilliseconds = 500;  // how long a stop may go unseen should its wake be lost
constexpr const char* kWake = "inproc://wake";

struct CloseSocket {
  const ZmqLibrary* zmq;
  void operator()(void* socket) const { zmq->close(socket); }
};
struct EndContext {
  const ZmqLibrary* zmq;
  void operator()(void* context) const { zmq->ctx_term(context); }
};
using Socket = std::unique_ptr<void, CloseSocket>;
using Context = std::unique_ptr<void, EndContext>;

std::array<char, 8> highest_first(std::uint64_t number) {
  std::array<char, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

Error failed(const ZmqLibrary& zmq, std::string_view what) {
  return {Error::Kind::unavailable,
          fmt::format("--kv-events-config: {}: {}", what, zmq.strerror(zmq.error_number())),
          "kv-events-config",
          {}};
}

Result<Socket> make_socket(const ZmqLibrary& zmq, void* context, int type, int high_water) {
  Socket socket(zmq.socket(context, type), CloseSocket{&zmq});
  if (!socket) return failed(zmq, "no socket can be made");
  const int none = 0, on = 1;
  zmq.setsockopt(socket.get(), ZMQ_LINGER, &none, sizeof none);
  zmq.setsockopt(socket.get(), ZMQ_SNDHWM, &high_water, sizeof high_water);
  zmq.setsockopt(socket.get(), ZMQ_IPV6, &on, sizeof on);
  return socket;
}

Result<> open_at(const ZmqLibrary& zmq, void* socket, const std::string& endpoint, bool binds) {
  if ((binds ? zmq.bind(socket, endpoint.c_str()) : zmq.connect(socket, endpoint.c_str())) == 0) return success();
  return failed(zmq, fmt::format("{} cannot be {}", endpoint, binds ? "bound" : "connected to"));
}

// Names that stand for every address, or for a file, are ours to open; another machine's name is somebody's who listens.
bool binds(const std::string& endpoint) {
  return endpoint.find('*') != endpoint.npos || endpoint.find("::") != endpoint.npos ||
         endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://");
}

std::string_view name(CacheTier tier) {
  return tier == CacheTier::disk ? "DISK" : "CPU";
}

// Fields in their order, as an array or under their names.
class EventWriter {
 public:
  EventWriter(MsgpackWriter& out, bool named) : out_(out), named_(named) {}

  void open(std::string_view type, std::size_t fields) {
    named_ ? out_.map(fields + 1) : out_.array(fields + 1);
    if (named_) out_.text("type");
    out_.text(type);
  }
  MsgpackWriter& field(std::string_view name) {
    if (named_) out_.text(name);
    return out_;
  }
  void blocks(const std::vector<std::uint64_t>& blocks) {
    field("block_hashes").array(blocks.size());
    for (const std::uint64_t block : blocks) out_.whole(block);
  }

 private:
  MsgpackWriter& out_;
  const bool named_;
};

void write_stored(EventWriter& json, const CacheEvent& event) {
  json.open("BlockStored", 7);
  json.blocks(event.blocks);
  if (event.parent)
    json.field("parent_block_hash").whole(*event.parent);
  else
    json.field("parent_block_hash").nil();
  MsgpackWriter& out = json.field("token_ids");
  out.array(event.tokens.size());
  for (const TokenId token : event.tokens) out.whole(static_cast<std::uint32_t>(token));
  json.field("block_size").whole(kCacheBlockTokens);
  json.field("lora_id").nil();
  json.field("medium").text(name(event.tier));
  if (event.adapter.empty())
    json.field("lora_name").nil();
  else
    json.field("lora_name").text(event.adapter);
}

void write_event(EventWriter& out, const CacheEvent& event) {
  switch (event.kind) {
    case CacheEvent::Kind::stored:
      return write_stored(out, event);
    case CacheEvent::Kind::removed:
      out.open("BlockRemoved", 2);
      out.blocks(event.blocks);
      out.field("medium").text(name(event.tier));
      return;
    case CacheEvent::Kind::cleared:
      return out.open("AllBlocksCleared", 0);
  }
}

}  // namespace

std::string pack_cache_events(const std::vector<CacheEvent>& events, double seconds, bool named_fields) {
  MsgpackWriter out;
  const auto field = [&](std::string_view name) {
    if (named_fields) out.text(name);
  };
  named_fields ? out.map(3) : out.array(3);
  field("ts");
  out.number(seconds);
  field("events");
  out.array(events.size());
  EventWriter writer(out, named_fields);
  for (const CacheEvent& event : events) write_event(writer, event);
  field("data_parallel_rank");
  out.whole(0);
  return out.take();
}

struct CacheEventPublisher::Sockets {
  const ZmqLibrary& zmq;
  Context context;  // ends last
  Socket events, replay, wake_in, wake_out;

  static Result<std::unique_ptr<Sockets>> open(const CacheEventConfig& config);
  void send(const Socket& socket, std::string_view frame, int flags) const {
    zmq.send(socket.get(), frame.data(), frame.size(), flags);
  }
  // The frames of one message; empty: none waits.
  std::vector<std::string> receive(const Socket& socket) const;
};

Result<std::unique_ptr<CacheEventPublisher::Sockets>> CacheEventPublisher::Sockets::open(
    const CacheEventConfig& config) {
  ESP_TRY(const ZmqLibrary* zmq, zmq_library());
  std::unique_ptr<Sockets> made(new Sockets{*zmq, Context(zmq->ctx_new(), EndContext{zmq}), {}, {}, {}, {}});
  void* context = made->context.get();
  ESP_TRY(made->events, make_socket(*zmq, context, ZMQ_PUB, config.hwm));
  ESP_CHECK(open_at(*zmq, made->events.get(), config.endpoint, binds(config.endpoint)));
  if (!config.replay_endpoint.empty()) {
    ESP_TRY(made->replay, make_socket(*zmq, context, ZMQ_ROUTER, config.hwm));
    ESP_CHECK(open_at(*zmq, made->replay.get(), config.replay_endpoint, true));
  }
  ESP_TRY(made->wake_in, make_socket(*zmq, context, ZMQ_PAIR, 0));
  ESP_CHECK(open_at(*zmq, made->wake_in.get(), kWake, true));
  ESP_TRY(made->wake_out, make_socket(*zmq, context, ZMQ_PAIR, 0));
  ESP_CHECK(open_at(*zmq, made->wake_out.get(), kWake, false));
  return made;
}

std::vector<std::string> CacheEventPublisher::Sockets::receive(const Socket& socket) const {
  constexpr std::size_t kMostFrames = 4;  // that are kept
  std::vector<std::string> frames;
  for (int more = 1; more != 0;) {
    zmq_msg_t message;
    zmq.msg_init(&message);
    const bool came = zmq.msg_recv(&message, socket.get(), ZMQ_DONTWAIT) >= 0;
    if (came && frames.size() < kMostFrames)
      frames.emplace_back(static_cast<const char*>(zmq.msg_data(&message)), zmq.msg_size(&message));
    more = came ? zmq.msg_more(&message) : 0;
    zmq.msg_close(&message);
  }
  return frames;
}

Result<std::unique_ptr<CacheEventPublisher>> CacheEventPublisher::make(CacheEventConfig config) {
  ESP_TRY(auto sockets, Sockets::open(config));
  log::info("cache events: {}{}", config.endpoint,
            config.replay_endpoint.empty() ? "" : ", replayed at " + config.replay_endpoint);
  std::unique_ptr<CacheEventPublisher> made(new CacheEventPublisher(std::move(config), std::move(sockets)));
  ESP_TRY(made->thread_, start_thread("cache events'", [publisher = made.get()] {
            name_this_thread("esp-kv-events");
            publisher->run();
          }));
  return made;
}

CacheEventPublisher::CacheEventPublisher(CacheEventConfig config, std::unique_ptr<Sockets> sockets)
    : config_(std::move(config)), sockets_(std::move(sockets)) {}

CacheEventPublisher::~CacheEventPublisher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    sockets_->send(sockets_->wake_out, "", ZMQ_DONTWAIT);
  }
  if (thread_.joinable()) thread_.join();
}

// The wake socket is used under the lock: several engines may publish.
void CacheEventPublisher::publish(std::vector<CacheEvent> events) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= static_cast<std::size_t>(config_.max_queue_size)) {
    if (lost_++ % 10'000 == 0) log::warning("cache events: {} batches were lost, too many wait to be sent", lost_);
    return;
  }
  waiting_.push_back({now, std::move(events)});
  if (waiting_.size() == 1) sockets_->send(sockets_->wake_out, "", ZMQ_DONTWAIT);
}

void CacheEventPublisher::run() {
  std::array<zmq_pollitem_t, 2> items{};
  items[0].socket = sockets_->wake_in.get();
  items[1].socket = sockets_->replay.get();
  for (auto& item : items) item.events = ZMQ_POLLIN;
  const int count = sockets_->replay ? 2 : 1;
  while (true) {
    sockets_->zmq.poll(items.data(), count, kPollMilliseconds);
    while (!sockets_->receive(sockets_->wake_in).empty()) continue;
    send_waiting();
    if (count == 2 && (items[1].revents & ZMQ_POLLIN) != 0) replay();
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

void CacheEventPublisher::send_waiting() {
  std::deque<Batch> batches;
  {
    const std::lock_guard lock(mutex_);
    batches.swap(waiting_);
  }
  for (const Batch& batch : batches) {
    std::string packed = pack_cache_events(batch.events, batch.seconds, config_.named_fields);
    const auto number = highest_first(next_);
    sockets_->send(sockets_->events, config_.topic, ZMQ_SNDMORE);
    sockets_->send(sockets_->events, {number.data(), number.size()}, ZMQ_SNDMORE);
    sockets_->send(sockets_->events, packed, 0);
    sent_.emplace_back(next_++, std::move(packed));
    if (sent_.size() > static_cast<std::size_t>(config_.buffer_steps)) sent_.pop_front();
  }
}

// A request: who asks, an empty frame, the first number.
void CacheEventPublisher::replay() {
  const std::vector<std::string> frames = sockets_->receive(sockets_->replay);
  if (frames.size() != 3 || !frames[1].empty() || frames[2].size() != 8) return;  // not one of ours
  const auto answer = [&](std::uint64_t number, std::string_view batch) {
    const auto bytes = highest_first(number);
    sockets_->send(sockets_->replay, frames[0], ZMQ_SNDMORE | ZMQ_DONTWAIT);
    sockets_->send(sockets_->replay, "", ZMQ_SNDMORE | ZMQ_DONTWAIT);
    sockets_->send(sockets_->replay, {bytes.data(), bytes.size()}, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    sockets_->send(sockets_->replay, batch, ZMQ_DONTWAIT);
  };
  const std::uint64_t first = number_in(frames[2]);
  for (const auto& [number, batch] : sent_)
    if (number >= first) answer(number, batch);
  answer(UINT64_MAX, "");
}

}  // namespace espalier::server
