#include "cache/remote/redis_connection.h"

#include <fmt/format.h>
#include <hiredis/read.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/sockets/timed_socket.h"
#include "base/system/socket_calls.h"

namespace espalier {
namespace {

constexpr std::size_t kReceive = 256 << 10;
constexpr std::size_t kMostParts = 64;     // of one call
constexpr std::uint64_t kReplyStart = 64;  // bytes around a reply's own

Error network(std::string message) {
  return {Error::Kind::network, std::move(message), {}, {}};
}
std::string system_message(int error) {
  return std::system_category().message(error);
}

std::string word(std::string_view text) {
  return fmt::format("${}\r\n{}\r\n", text.size(), text);
}

}  // namespace

// Replies are seen as they are parsed, where they lie. Arrays are never asked for, and one may claim to have any length.
struct RedisConnection::Functions {
  static RedisConnection& of(const redisReadTask* task) { return *static_cast<RedisConnection*>(task->privdata); }
  static void* see(const redisReadTask* task, const RedisReply& reply) {
    RedisConnection& self = of(task);
    if (self.answered_ < self.asked_) (*self.visit_)(self.answered_, reply);
    ++self.answered_;
    return &self;  // what a reply is does not matter, but that there is one
  }
  static void* text(const redisReadTask* task, char* text, std::size_t length) {
    const auto kind = task->type == REDIS_REPLY_ERROR ? RedisReply::Kind::error : RedisReply::Kind::text;
    return see(task, {kind, std::string_view(text, length), 0});
  }
  static void* number(const redisReadTask* task, long long number) {
    return see(task, {RedisReply::Kind::number, {}, number});
  }
  static void* nothing(const redisReadTask* task) { return see(task, {RedisReply::Kind::nothing, {}, 0}); }
  static redisReplyObjectFunctions* all() {
    static redisReplyObjectFunctions functions = [] {
      redisReplyObjectFunctions f{};
      f.createString = text;
      f.createArray = [](const redisReadTask*, auto) -> void* { return nullptr; };
      f.createInteger = number;
      f.createNil = nothing;
      f.freeObject = [](void*) {};
      return f;
    }();
    return &functions;
  }
};

RedisConnection::RedisConnection(UniqueFd socket, CancelFlag stop)
    : socket_(std::move(socket)),
      reader_(::redisReaderCreateWithFunctions(Functions::all())),
      stop_(std::move(stop)),
      buffer_(kReceive) {
  if (reader_ == nullptr) return;
  reader_->maxbuf = 0;  // its memory is used again
  reader_->privdata = this;
}

RedisConnection::~RedisConnection() {
  if (reader_ != nullptr) ::redisReaderFree(reader_);
}

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const RedisAddress& address, Time until,
                                                               CancelFlag stop) {
  const WaitUntil wait{until, stop};
  ESP_TRY(UniqueFd socket, address.path.empty()
                               ? connect_to({address.host, static_cast<std::uint16_t>(address.port)}, wait)
                               : connect_to_path(address.path, wait));
  std::unique_ptr<RedisConnection> connection(
      new RedisConnection(std::move(socket), std::move(stop)));  // NOLINT: a private constructor
  if (connection->reader_ == nullptr) return Error{Error::Kind::out_of_memory, "memory is short", {}, {}};
  return connection;
}

void RedisConnection::add_text(std::string text) {
  texts_.push_back(std::move(text));
  parts_.push_back(std::as_bytes(std::span(texts_.back())));
}

void RedisConnection::add(std::initializer_list<std::string_view> words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string_view each : words) text += word(each);
  add_text(std::move(text));
  ++asked_;
}

void RedisConnection::add_with_value(std::initializer_list<std::string_view> words,
                                     std::initializer_list<std::span<const std::byte>> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  const std::span all(words.begin(), words.size());
  std::string text = fmt::format("*{}\r\n{}{}${}\r\n", all.size() + 1, word(all[0]), word(all[1]), bytes);
  add_text(std::move(text));
  for (const auto& part : parts) parts_.push_back(part);
  text = "\r\n";
  for (const std::string_view each : all.subspan(2)) text += word(each);
  add_text(std::move(text));
  ++asked_;
}

Result<> RedisConnection::exchange(std::size_t reply_bytes, Time until, const Visit& visit) {
  answered_ = 0;
  visit_ = &visit;
  received_ = 0;
  most_received_ = asked_ * (reply_bytes + kReplyStart);
  while (answered_ < asked_) {
    const auto events = static_cast<short>(parts_.empty() ? POLLIN : POLLIN | POLLOUT);
    ESP_TRY(const short came, wait_on(socket_.get(), events, {until, stop_}));
    if ((came & (POLLIN | POLLHUP | POLLERR)) != 0) {
      ESP_CHECK(receive_some());
      ESP_CHECK(parse());
    }
    if ((came & POLLOUT) != 0) ESP_CHECK(send_some());
  }
  asked_ = 0;
  texts_.clear();
  return success();
}

Result<> RedisConnection::send_some() {
  std::array<iovec, kMostParts> vectors;
  std::size_t count = 0;
  for (; count < std::min(kMostParts, parts_.size()); ++count)
    vectors[count] = {const_cast<std::byte*>(parts_[count].data()), parts_[count].size()};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
  const ssize_t sent = send_now(socket_.get(), message);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? success() : Result<>(network(system_message(errno)));
  for (auto left = static_cast<std::size_t>(sent); left > 0;) {
    const std::size_t taken = std::min(left, parts_.front().size());
    parts_.front() = parts_.front().subspan(taken);
    left -= taken;
    if (parts_.front().empty()) parts_.pop_front();
  }
  return success();
}

Result<> RedisConnection::receive_some() {
  const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
  if (got == 0) return network("it closed the connection");
  if (got < 0) return errno == EAGAIN || errno == EINTR ? success() : Result<>(network(system_message(errno)));
  received_ += static_cast<std::uint64_t>(got);
  if (received_ > most_received_) return network("it sends more than was asked for");
  if (::redisReaderFeed(reader_, buffer_.data(), static_cast<std::size_t>(got)) != REDIS_OK)
    return network(fmt::format("its answers cannot be read: {}", reader_->errstr));
  return success();
}

Result<> RedisConnection::parse() {
  for (;;) {
    void* parsed = nullptr;
    if (::redisReaderGetReply(reader_, &parsed) != REDIS_OK)
      return network(fmt::format("its answers cannot be read: {}", reader_->errstr));
    if (answered_ > asked_) return network("it sends more than was asked for");
    if (parsed == nullptr) return success();
  }
}

}  // namespace espalier
