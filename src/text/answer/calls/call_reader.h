// call_reader.h: reads what follows an opening mark, byte by byte, and tells the calls in it.
//
// A call is told when it is certain to be one: its name is complete and its arguments begin (or it ends). What was read
// before that, and behind the last call, the caller keeps, to give it back as text when a reader refuses it.
// Units:   bytes. Threads: one at a time. Fails: never; what is no call is refused, broken arguments come as written.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/answer/answer_event.h"
#include "text/answer/call_format.h"
#include "text/answer/call_tools.h"
#include "text/answer/calls/mark_finder.h"

namespace espalier {

// What a byte meant to a reader. settled: it, and all before it, belong to calls that were told; done: so they do, and it
// was the last; refused: it, and all since the last event, are no call; again: the byte must be read once more.
enum class CallStep { more, settled, done, refused, again };

// What readers of all families know.
struct CallContext {
  const CallFormat* format = nullptr;
  const CallTools* tools = nullptr;
  bool only_known = false;  // calls of names that are not among the tools are refused

  bool refuses(std::string_view name) const {
    return name.empty() || name.size() > kNameMost || (only_known && !tools->contains(name));
  }
};

// Reads calls of one family.
class CallReader {
 public:
  static constexpr int bare = -1;

  virtual ~CallReader() = default;
  virtual void open(int mark) = 0;  // behind this one of the opening marks, or at bare JSON
  virtual CallStep read(char c, EventList& out) = 0;
  virtual void finish(EventList& out) = 0;  // the text ended within a call that was told
};

// Null for CallFamily::harmony, which is no matter of marks in text.
std::unique_ptr<CallReader> make_call_reader(const CallContext& context);

// Arguments that went wrong: they go on as they are written until a mark ends them.
class BrokenArguments {
 public:
  void start(Marks ends) { ends_ = MarkFinder(std::move(ends)); }
  bool step(char c, EventList& out);  // true: a mark ended them, and with them the call
  void finish(EventList& out);

 private:
  MarkFinder ends_;
};

// The marks of an array that are not empty.
Marks marks_of(const CallFormat::Texts& texts);

}  // namespace espalier
