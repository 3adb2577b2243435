// output.h: what a verb prints: text that cannot command a terminal, and a stdout whose end is noticed.
//
// A reader that goes away (`| head`) has what it wanted: the verb ends quietly with 0. A stdout that cannot be written
// for another reason (a full disk) is an error.
// Threads: the one that runs the verb. Fails: put() by false, end_output() tells.
#pragma once

#include <string>
#include <string_view>

#include "espalier/json.h"

namespace espalier::command {

// Control characters but newline and tab, bytes that are no UTF-8 and what turns the direction of writing become
// visible: \x1b, \u202e. For names and templates out of files, which may be hostile.
std::string printable(std::string_view text);

// Writes to stdout at once, through printable() when that is a terminal. False: it cannot be written any more, which
// end_output() explains.
bool put(std::string_view text);

// JSON on several lines, and the end of the last; what is no UTF-8 in its texts is replaced.
bool put_json(const Json& value);

// Flushes stdout. Gives `code`; 0 when the reader has gone; 1 after a sentence when stdout could not be written.
int end_output(int code);

// The same for a failure seen elsewhere: errno of a write to stdout.
int output_failed(int number);

}  // namespace espalier::command
