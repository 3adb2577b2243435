#include "cache/remote/redis_connection.h"

#include <fmt/format.h>
#include <hiredis/read.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/system/socket_calls.h"

namespace espalier {
namespace {

constexpr std::size_t kReceive = 256 << 10;
constexpr std::size_t kMostParts = 64;     // of one call
constexpr std::uint64_t kReplyStart = 64;  // bytes around a reply's own

Error network(std::string message) {
  return {Error::Kind::network, std::move(message), {}, {}};
}
Error late() {
  return {Error::Kind::timeout, "it does not answer in time", {}, {}};
}

std::string system_message(int error) {
  return std::system_category().message(error);
}

int milliseconds_to(RedisConnection::Time until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

// What came of `events`; in slices, so that whoever stops does not wait for long.
Result<short> wait_on(int socket, short events, RedisConnection::Time until, const CancelFlag& stop) {
  constexpr int kSlice = 50;
  pollfd waited{socket, events, 0};
  for (;;) {
    const int left = milliseconds_to(until);
    if (left == 0 || stop.cancelled()) return late();
    const int ready = ::poll(&waited, 1, std::min(left, kSlice));
    if (ready > 0) return waited.revents;
    if (ready < 0 && errno != EINTR) return network(system_message(errno));
  }
}

Result<> finish_connecting(int socket, RedisConnection::Time until, const CancelFlag& stop) {
  ESP_CHECK(wait_on(socket, POLLOUT, until, stop));
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return network(system_message(error));
  return success();
}

Result<UniqueFd> connected(int family, const sockaddr* address, socklen_t size, RedisConnection::Time until,
                           const CancelFlag& stop) {
  UniqueFd socket(open_socket(family, SOCK_STREAM, 0, Blocking::no));
  if (!socket) return network(system_message(errno));
  const int on = 1;
  if (family != AF_UNIX) {
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  if (::connect(socket.get(), address, size) == 0) return socket;
  if (errno != EINPROGRESS && errno != EAGAIN) return network(system_message(errno));
  ESP_CHECK(finish_connecting(socket.get(), until, stop));
  return socket;
}

Result<UniqueFd> connect_to_path(const std::string& path, RedisConnection::Time until, const CancelFlag& stop) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return network("the path of its socket is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, until, stop);
}

Result<UniqueFd> connect_to_host(const RedisAddress& address, RedisConnection::Time until, const CancelFlag& stop) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) return network(::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  Result<UniqueFd> last = network("its name has no address");
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    last = connected(each->ai_family, each->ai_addr, each->ai_addrlen, until, stop);
    if (last.ok()) break;
  }
  return last;
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
  ESP_TRY(UniqueFd socket,
          address.path.empty() ? connect_to_host(address, until, stop) : connect_to_path(address.path, until, stop));
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
    ESP_TRY(const short came, wait_on(socket_.get(), events, until, stop_));
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
