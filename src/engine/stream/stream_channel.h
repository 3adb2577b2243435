// stream_channel.h: what lies between the engine thread and the reader of one request.
//
// The engine adds the events of a step under one lock and wakes the reader once; the reader leaves requests (stop a
// choice, cancel) that the engine looks at when the channel's number comes up in the inbox.
// Threads: the engine thread writes events; one reader takes them; requests may come from anybody.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "espalier/stream.h"

namespace espalier {

// The queue of events of one request, and the reader's stop and cancel on their way back.
class StreamChannel {
 public:
  // `wake` tells the engine that this channel was stopped or cancelled; it must be callable from any thread, also after the engine is
  // gone.
  StreamChannel(std::string id, int choices, std::function<void()> wake)
      : id_(std::move(id)),
        open_choices_(choices),
        stopped_(static_cast<std::size_t>(choices)),
        wake_(std::move(wake)) {}

  const std::string& id() const { return id_; }

  // --- engine's end ---
  void publish(std::vector<StreamEvent>& events);  // which is empty afterwards, with its memory
  void publish(std::vector<StreamEvent>&& events) { publish(events); }
  bool cancelled() const;
  bool stopped(int choice) const;
  // The engine thread's own: a first choice was admitted, so the request no longer waits to begin.
  void note_begun() { begun_ = true; }
  bool begun() const { return begun_; }

  // --- reader's end ---
  void take(std::vector<StreamEvent>& into);  // in place of what it held; its memory is used again
  bool wait(std::chrono::milliseconds limit);
  void on_ready(std::function<void()> callback);
  void stop(int choice);
  void cancel();   // the reader still hears how its choices end
  void abandon();  // the reader is gone: it hears nothing more

 private:
  void wake_engine();

  const std::string id_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<StreamEvent> events_;
  int open_choices_;
  std::vector<bool> stopped_;
  bool cancelled_ = false;
  bool begun_ = false;
  std::shared_ptr<const std::function<void()>> callback_;  // shared, for it is called without the lock; null: none
  std::function<void()> wake_;
};

}  // namespace espalier
