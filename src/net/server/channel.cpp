#include "net/server/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tuple>

namespace espalier::net {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

Channel::Channel(Loop& loop, ServerState& state, UniqueFd socket)
    : loop_(loop),
      state_(state),
      tls_(state.tls ? state.tls->session() : nullptr),
      socket_(loop.context, socket.get()),
      timer_(loop.context) {
  socket.release();  // only now: the constructor of socket_ may throw
}

void Channel::consume(std::size_t bytes) {
  consumed_ += bytes;
  if (consumed_ < input_.size()) return;
  consumed_ = 0;
  input_.clear();
  if (input_.capacity() > 4096) input_.shrink_to_fit();  // idle connections hold no buffer
}

bool Channel::input_full() const {
  return input_.size() - consumed_ >= state_.options.read_ahead_bytes;
}

bool Channel::peer_gone() {
  if (!broken_ && peer_state(socket_.native_handle()).gone) fail();
  return broken_;
}

void Channel::queue(std::string bytes) {
  if (broken_) return;
  if (unsent() == 0) last_sent_ = Clock::now();
  if (!tls_) return output_.push(std::move(bytes));
  tls_->send(bytes);
  output_.push(tls_->output());
}

asio::awaitable<void> Channel::wait(Clock::time_point deadline) {
  if (!notified_ && !broken_) {
    watch_input();
    watch_output();
    watch_errors();
    timer_.expires_at(deadline);
    boost::system::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  notified_ = false;
}

void Channel::notify() {
  notified_ = true;
  timer_.cancel();
}

void Channel::watch_input() {
  if (watching_input_ || end_of_input_ || broken_ || input_full()) return;
  watching_input_ = true;
  socket_.async_wait(Descriptor::wait_read, [self = shared_from_this()](boost::system::error_code ec) {
    self->watching_input_ = false;
    if (!ec) self->read_some();
  });
}

void Channel::read_some() {
  if (broken_ || end_of_input_ || input_full()) return;
  std::size_t room = state_.options.read_ahead_bytes - (input_.size() - consumed_);
  std::size_t received = 0;
  switch (receive(socket_.native_handle(), loop_.scratch.data(), std::min(room, loop_.scratch.size()), received)) {
    case IoState::would_block:
      return watch_input();
    case IoState::broken:
      return fail();
    case IoState::end:
      end_of_input_ = true;
      break;
    case IoState::moved:
      state_.bytes_received.add(received);
      bytes_read_ += received;
      take_bytes({loop_.scratch.data(), received});
      break;
  }
  notify();
}

void Channel::take_bytes(std::string_view bytes) {
  if (consumed_ > 0) input_.erase(0, std::exchange(consumed_, 0));
  if (!tls_) {
    input_.append(bytes);
    return;
  }
  tls_->received(bytes, input_);
  send_sealed();  // of the handshake, or the alert that says what was wrong
  if (tls_->broken()) return fail();
  end_of_input_ |= tls_->peer_closed();
}

void Channel::send_sealed() {
  if (unsent() == 0) last_sent_ = Clock::now();
  output_.push(tls_->output());
  flush();
}

void Channel::watch_output() {
  if (watching_output_ || output_.empty() || broken_) return;
  watching_output_ = true;
  socket_.async_wait(Descriptor::wait_write, [self = shared_from_this()](boost::system::error_code ec) {
    self->watching_output_ = false;
    if (ec) return;
    self->flush();
    self->notify();
  });
}

void Channel::flush() {
  if (broken_ || watching_output_) return;
  std::size_t before = output_.bytes();
  auto state = output_.flush(socket_.native_handle());
  state_.bytes_sent.add(before - output_.bytes());
  if (state == IoState::broken) return fail();
  if (state == IoState::moved) last_sent_ = Clock::now();
  watch_output();
}

// Where input is not watched (it ended, or the read-ahead is full) a reset would go unnoticed.
void Channel::watch_errors() {
  if (watching_errors_ || watching_input_ || broken_) return;
  watching_errors_ = true;
  socket_.async_wait(Descriptor::wait_error, [self = shared_from_this()](boost::system::error_code ec) {
    if (ec) {
      self->watching_errors_ = false;
      return;
    }
    // Urgent data also ends this wait, and would do so again at once: then it is not watched any more, and the owner's
    // own polls have to do.
    if (self->peer_gone()) self->watching_errors_ = false;
  });
}

void Channel::fail() {
  broken_ = true;
  output_.clear();
  notify();
}

void Channel::shut_down_sending() {
  if (tls_ && !broken_) {
    tls_->close();
    send_sealed();
  }
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

void Channel::close() {
  broken_ = true;
  output_.clear();
  boost::system::error_code ignored;
  std::ignore = socket_.close(ignored);
  notify();
}

void Channel::reset() {
  linger abort{1, 0};
  ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  close();
}

}  // namespace espalier::net
