// Any bytes to the port where nodes meet: refused with a sentence, or frames that were there; a hello that is read is written back
// as it came; a greeting never agrees with who does not know the secret. Pieces of any size make no difference.
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/tcp/greeting.h"

namespace espalier::ranks {
namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

// Kinds and bodies of all frames, and what ended them.
std::string frames_of(std::string_view bytes, std::size_t piece) {
  FrameReader reader;
  std::string seen;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.add(bytes.substr(at, piece));
    for (;;) {
      auto frame = reader.next();
      if (!frame.ok()) return seen + "refused: " + frame.error().message;
      if (!*frame) break;
      seen += to_bytes((*frame)->kind, (*frame)->body);
    }
  }
  return seen;
}

void read_as_hello(std::string_view bytes) {
  const auto hello = read_hello(bytes);
  if (!hello.ok()) return demand(!hello.error().message.empty());
  demand(to_bytes(*hello) == bytes);
  const auto different = difference(Hello{}, *hello);
  demand(different && !different->message.empty());  // nobody's group is of one node
}

void greet(std::string_view bytes, bool calls) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  const UniqueFd other(ends[1]);
  Hello ours;
  ours.nodes = ours.size = 2;
  ours.nonce = std::string(kNonceBytes, 'n');
  Greeting greeting(FrameSocket{UniqueFd(ends[0])}, calls, ours, "secret");
  static_cast<void>(
      ::send(other.get(), bytes.data(), std::min<std::size_t>(bytes.size(), 60'000), MSG_DONTWAIT | MSG_NOSIGNAL));
  ::shutdown(other.get(), SHUT_WR);
  GreetingEnd end = GreetingEnd::pending;
  for (int i = 0; i < 4 && end == GreetingEnd::pending; ++i) end = greeting.advance();
  demand(end == GreetingEnd::foreign && !greeting.error().message.empty());
}

}  // namespace
}  // namespace espalier::ranks

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier::ranks;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  demand(frames_of(bytes, bytes.size() + 1) == frames_of(bytes, 7));
  read_as_hello(bytes);
  greet(bytes, false);
  greet(bytes, true);
  return 0;
}
