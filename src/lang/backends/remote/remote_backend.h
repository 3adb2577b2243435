// remote_backend.h: what all back ends over HTTP share: a context without memory, calls in a queue, counts.
//
// A back end is a dialect of it: it writes the body of a generation and says how the answer is read. A context keeps
// nothing, since a server is sent the whole text or all messages each time.
// Threads: as espalier/backend.h; write() on the caller's thread, readers on the driver's.
// Fails:   what write() refuses is told like any failure, on the driver's thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "lang/backends/remote/calls/reply_reader.h"
#include "lang/backends/remote/calls/request_queue.h"
#include "lang/backends/remote/wire/stop_strings.h"

namespace espalier::lang {

// A call as it goes over HTTP: path, body, and a reader for its answer.
struct Wire {
  std::string path, body;                                // a POST
  std::function<std::unique_ptr<ReplyReader>()> reader;  // of its answer; a new one for each time it is sent
};

// The base class of back ends over HTTP; a dialect overrides write() and what it can do.
class RemoteBackend : public Backend, public std::enable_shared_from_this<RemoteBackend> {
 public:
  const BackendTraits& traits() const override { return traits_; }
  const ChatFormat& chat_format() const override { return format_; }
  std::unique_ptr<Context> context() override;
  BackendUsage usage() const override { return queue_->counters().usage(); }
  void count(const BackendUsage& more) override { queue_->counters().add(more); }
  Result<> flush_cache() override { return success(); }  // there is none that could be flushed
  Result<Json> server_info() override;

  virtual Result<Wire> write(const Document& document, const GenCall& call) const = 0;
  // Behind the last byte of every output.
  virtual std::string amend(std::string text, const GenCall&) const { return text; }
  virtual std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink);
  // As of Context; of those whose traits tell `chains`.
  virtual bool takes(const Document&, const ChainCall&) const { return false; }
  virtual std::unique_ptr<Call> chain(const Document&, ChainCall, ChainSink) { return nullptr; }

  virtual StopStringSplit ends(const GenCall& call) const { return {call.sampling.stop, {}}; }
  virtual bool constrains(const GenCall&) const { return false; }  // the server keeps to its constraint
  int constraint_tries() const { return constraint_tries_; }
  RequestQueue& queue() const { return *queue_; }

 protected:
  RemoteBackend(std::shared_ptr<RequestQueue> queue, BackendTraits traits, ChatFormat format, int constraint_tries);
  // Of those that have routes for scores and vectors, below their base_url and `prefix`.
  std::unique_ptr<Call> begin_score(ScoreCall call, const std::string& prefix, const std::string& model,
                                    ScoreSink sink);
  // Something about a call that is left out, told once in the log.
  void note_left_out(std::string_view field) const;

  const std::shared_ptr<RequestQueue> queue_;
  BackendTraits traits_;
  ChatFormat format_;

 private:
  const int constraint_tries_;
  mutable std::mutex mutex_;
  mutable std::set<std::string, std::less<>> noted_;
};

// A call that is refused before anything is sent: `tell` runs on the driver's thread.
std::unique_ptr<Call> refuse(RequestQueue& queue, std::function<void()> tell);

}  // namespace espalier::lang
