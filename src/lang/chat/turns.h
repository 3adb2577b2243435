// turns.h: roles that open and close in a document, with what the chat format puts around them.
//
// Threads: pure functions over one document. Fails: bad_request for roles that nest, or close without being open.
#pragma once

#include "espalier/backend.h"

namespace espalier::lang {

// A conversation that does not begin with a system turn gets the format's default one first.
Result<> begin_turn(Document& document, const ChatFormat& format, std::string_view role);
// The content becomes a message, without the blanks it begins with.
Result<> end_turn(Document& document, const ChatFormat& format, std::string_view role);

}  // namespace espalier::lang
