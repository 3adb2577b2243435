// anthropic_wire.h: Anthropic's Messages interface: bodies written, answers read.
//
// System turns become the body's own field; the state's list of messages stays as it is. A turn of the assistant that
// has begun is sent as it stands and goes on from there; blanks at its end, which the interface refuses, are not sent,
// and those that the output then begins with are dropped.
// Threads: pure functions; a reader belongs to one call.
// Fails:   unsupported for what the interface does not have and what cannot be left out.
#pragma once

#include "lang/backends/remote/calls/reply_reader.h"

namespace espalier::lang::anthropic {

// The model to ask for, and the mark that stands for a picture in its turns.
struct AnthropicProfile {
  std::string model, image_token;
};

Result<Json> write_anthropic(const AnthropicProfile& profile, const Document& document, const GenCall& call);

// Whether the interface holds the output to its constraint (models since Claude 4.5).
bool anthropic_constrains(const GenCall& call);

// Sampling parameters that are left out.
std::vector<std::string_view> left_out_by_anthropic(const GenCall& call);

// `drop_blanks`: those that the output begins with.
std::unique_ptr<ReplyReader> anthropic_reader(bool drop_blanks = false);

}  // namespace espalier::lang::anthropic
