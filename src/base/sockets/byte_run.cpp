#include "base/sockets/byte_run.h"

namespace espalier {

void ByteRun::clear() {
  pieces_.clear();
  next_ = moved_ = 0;
}

void ByteRun::add(const void* at, std::size_t bytes) {
  if (bytes == 0) return;
  pieces_.push_back({const_cast<void*>(at), bytes});
}

void ByteRun::moved(std::size_t bytes) {
  moved_ += bytes;
  while (next_ < pieces_.size() && bytes >= pieces_[next_].iov_len) bytes -= pieces_[next_++].iov_len;
  if (bytes == 0) return;
  pieces_[next_].iov_base = static_cast<std::byte*>(pieces_[next_].iov_base) + bytes;
  pieces_[next_].iov_len -= bytes;
}

}  // namespace espalier
