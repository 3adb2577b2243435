// sessions.h: conversations that the server keeps, so that a client sends only what is new: SGLang's /open_session.
//
// A session is a tree of turns. A turn names the one that it continues (by its rid), or none; its context is that
// turn's prompt and output with the new tokens behind. Only token ids are kept here; that their keys and values are
// still there is the prefix cache's business. Of a picture its file is kept, and where its tokens stand.
// Units:   tokens (a picture's file counts as one for each four bytes), seconds of the steady clock.
// Threads: any; a turn is ended on the notifier's thread.
// Fails:   open(): bad_request for an id in use, busy at the limits. begin(): bad_request naming the field of
//          session_params; busy when the server keeps too many tokens.
// Source:  SGLang, srt/managers/session_controller.py, for what offset and replace mean, and its /open_session.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/request.h"
#include "espalier/types.h"
#include "server/media/media_source.h"

namespace espalier::server {

// How many sessions are kept, how large and how long.
struct SessionLimits {
  int sessions = 1024;
  std::int64_t tokens = 16 << 20;  // in all sessions together: 64 MiB
  double idle_seconds = 3600;      // a session that nobody used for so long is closed
};

struct SessionParams {  // the field session_params of /generate
  std::string id;
  std::string rid;  // of the turn to go on from; empty: none
  int offset =
      0;  // where in its context the new tokens go, as an index of Python's; what follows is dropped; 0: behind
  bool replace = false;               // of the turn: what continues it is forgotten; of none: all turns are
  bool drop_previous_output = false;  // go on from its prompt
};

// A picture (or film) among a turn's tokens; its addresses are data URLs.
struct SessionPicture {
  std::shared_ptr<const MediaSource> file;
  std::vector<PictureInput::Span> spans;
};

// What a turn is given.
struct SessionPrompt {
  std::vector<TokenId> tokens;
  std::vector<SessionPicture> pictures;
};

// All open sessions, by id, with the turns of each.
class Sessions {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Opening {  // of a session: its id may be used again after it was closed
    std::string id;
    std::uint64_t number = 0;
  };

  // A turn that runs. Dropped before keep(): what it has so far counts, as that of any request that was cut short; a
  // turn that has nothing yet never was.
  class Turn {
   public:
    Turn(Sessions& sessions, Opening session, std::string rid, bool replaces)
        : sessions_(sessions), session_(std::move(session)), rid_(std::move(rid)), replaces_(replaces) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { sessions_.end(session_, rid_, kept_); }
    // Its request was taken: only now is forgotten what it replaces. The rids of running turns that nobody wants any
    // more.
    std::vector<std::string> accepted() {
      return replaces_ ? sessions_.replace(session_, rid_) : std::vector<std::string>();
    }
    void add(TokenId token) { sessions_.add(session_, rid_, token); }
    void keep() { kept_ = true; }

   private:
    Sessions& sessions_;
    const Opening session_;
    const std::string rid_;
    const bool replaces_;
    bool kept_ = false;
  };
  struct Begun {
    SessionPrompt prompt;             // the whole context
    std::size_t former_pictures = 0;  // of its pictures: those of turns before
    std::unique_ptr<Turn> turn;
  };

  explicit Sessions(SessionLimits limits) : limits_(limits) {}

  // `owner`: who may use and close it. `most_tokens`: of one turn's context; 0 = as the model. An empty id: one is
  // made.
  Result<std::string> open(std::string id, std::string owner, std::int64_t most_tokens, double idle_seconds);
  Result<std::vector<std::string>> close(const std::string& id, std::string_view owner);  // rids of its running turns
  // `begin_token`: what a tokenizer puts before every text; it is not repeated in the middle. Negative: none.
  Result<Begun> begin(const SessionParams& params, std::string_view owner, std::string rid, SessionPrompt added,
                      TokenId begin_token);
  int count() const;
  std::int64_t tokens() const;

 private:
  struct Node {
    std::string parent;
    SessionPrompt prompt;
    std::vector<TokenId> output;
    std::int64_t weight = 0;  // of all but the output
    bool running = true;
  };
  struct Session {
    std::uint64_t number = 0;  // of its opening
    std::string owner;
    std::int64_t most_tokens = 0;
    double idle_seconds = 0;
    Time used;
    std::map<std::string, Node> turns;
  };
  using Place = std::map<std::string, Session>::iterator;

  Session* opened(const Opening& session);                        // null: closed meanwhile
  Node* turn_of(const Opening& session, const std::string& rid);  // null: closed or replaced meanwhile
  void add(const Opening& session, const std::string& rid, TokenId token);
  std::vector<std::string> replace(const Opening& session, const std::string& by);
  void end(const Opening& session, const std::string& rid, bool keep);
  void close_idle(Time now);
  Result<Place> find(const std::string& id, std::string_view owner, std::string_view field);
  void forget(Session& session, const std::string& rid, std::vector<std::string>& running);
  static Result<SessionPrompt> context(const Session& session, const SessionParams& params);

  const SessionLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Session> sessions_;
  std::uint64_t opened_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace espalier::server
