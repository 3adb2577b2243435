#include "text/answer/calls/call_reader.h"

#include "text/answer/calls/json_call_reader.h"
#include "text/answer/calls/keyword_call_reader.h"
#include "text/answer/calls/named_call_reader.h"
#include "text/answer/calls/tag_call_reader.h"

namespace espalier {

std::unique_ptr<CallReader> make_call_reader(const CallContext& context) {
  switch (context.format->family) {
    case CallFamily::json:
      return std::make_unique<JsonCallReader>(context, marks_of(context.format->ends));
    case CallFamily::named:
      return std::make_unique<NamedCallReader>(context);
    case CallFamily::tags:
      return std::make_unique<TagCallReader>(context);
    case CallFamily::keywords:
      return std::make_unique<KeywordCallReader>(context);
    case CallFamily::harmony:
      return nullptr;
  }
  return nullptr;
}

bool BrokenArguments::step(char c, EventList& out) {
  const MarkFinder::Found found = ends_.push(c);
  out.arguments(std::string_view(ends_.held()).substr(0, found.text));
  ends_.drop(found);
  if (found.mark >= 0) out.end_call();
  return found.mark >= 0;
}

void BrokenArguments::finish(EventList& out) {
  out.arguments(ends_.take());
}

Marks marks_of(const CallFormat::Texts& texts) {
  Marks marks;
  for (const std::string_view text : texts)
    if (!text.empty()) marks.push_back(text);
  return marks;
}

}  // namespace espalier
