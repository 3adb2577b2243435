// peer_listener.h: where other servers ask for blocks of this one's memory: it accepts and greets them, hands their wishes to the
// engine thread, and sends what that gives.
//
// What is given is copied into one of a few buffers; each asker has at most two of them at a time, so that one who reads slowly
// holds up nobody else, and one who reads nothing for ten seconds is dropped.
// Units:   blocks of kBlockTokens tokens, bytes. Threads: one of its own for all sockets; everything public: the engine thread,
//          counters any.
// Fails:   open(): cannot_bind, out_of_memory (no descriptor or thread). Nothing later: who cannot be served is told so.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/sockets/byte_run.h"
#include "base/system/wake_descriptor.h"
#include "cache/disk/io_buffers.h"
#include "cache/peers/peer_counters.h"
#include "cache/peers/peer_link.h"
#include "cache/remote/block_value.h"

namespace espalier {

// Where a listener listens, and for whom.
struct PeerListenerOptions {
  HostAndPort where;  // port 0: any
  PeerIdentity us;
  std::function<void()> wake;  // from the listener's thread: there is a wish, or a free buffer
  IoBuffers::Pin pin;
  std::string_view flag = "disaggregation-bootstrap-port";  // that chooses another port
};

// Connections of those who ask.
class PeerListener {
 public:
  using WishId = std::uint64_t;
  using Chain = std::shared_ptr<const BlockChain>;
  struct Asked {
    WishId id = 0;
    std::uint64_t room = 0;
    bool only_find = false;
    int first = 0;  // block
    Chain chain;
  };

  static Result<std::unique_ptr<PeerListener>> open(PeerListenerOptions options, PeerCounters& counters);
  ~PeerListener();
  std::uint16_t port() const { return port_of(listener_.get()); }

  std::vector<Asked> take_asked();  // what came since
  std::vector<WishId> take_gone();  // whose asker has left

  void answer(WishId id, int found);                  // of only_find
  void end(WishId id, const PeerEnding& ending);      // no more comes
  int piece_blocks() const { return piece_blocks_; }  // at most, of one give()
  bool may_give(WishId id);                           // it has not too much on the way
  using Fill = std::function<void(std::span<std::byte>)>;
  // False: no buffer is free; a wake comes. What is filled later is sent when filled() is called.
  bool give(WishId id, const Chain& chain, PeerPiece piece, const Fill& fill);
  void filled();
  void come_again() const;  // wakes the engine thread

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Stage { hello, proof, idle, asked };
  struct Out {  // what is to be sent, in order
    WishId id = 0;
    std::string text;
    Chain chain;  // null: the text is all
    PeerPiece piece;
    IoBuffer buffer;
    bool last = false;  // the wish has ended with it
    std::vector<BlockHeader> headers;
    ByteRun run;
  };
  struct Client {
    UniqueFd socket;
    Stage stage = Stage::hello;
    std::string in, our_hello, their_hello;
    WishId wish = 0;
    std::list<Out> out;
    Time moved;  // last, of what is to be sent; or since when the rest of a greeting or a wish is waited for
    Time spoke;
    bool gone = false;
  };

  PeerListener(PeerListenerOptions options, PeerCounters& counters, UniqueFd listener, WakeDescriptor wake);
  void run(const std::stop_token& stop);
  void accept_all();
  bool drop_idle();
  void take_given();
  void prepare(Out& out) const;
  void look_at(Client& client, short events, Time now);
  bool read(Client& client);
  bool take_messages(Client& client);
  bool take_hello(Client& client);
  bool take_proof(Client& client);
  bool take_wish(Client& client);
  void say(Client& client, std::string text);
  bool write(Client& client, Time now);
  void finish(Client& client, Out& out);
  void look_at_time(Client& client, Time now);
  void leave(Client& client);
  void submit(Out out);

  const PeerListenerOptions options_;
  PeerCounters& counters_;
  const UniqueFd listener_;
  const WakeDescriptor wake_;
  int piece_blocks_ = 1;
  std::shared_ptr<IoBuffers> buffers_;
  std::vector<Out> filling_;  // of the engine thread

  std::mutex mutex_;  // guards the next
  std::vector<Asked> asked_;
  std::vector<WishId> gone_;
  std::vector<Out> given_;
  std::unordered_map<WishId, int> on_the_way_;  // buffers, of open wishes

  std::list<Client> clients_;  // of the thread, and the next two
  WishId last_wish_ = 0;
  Time accepts_again_ = {};
  std::jthread thread_;
};

}  // namespace espalier
