// tracing.h: what becomes of programs that a function runs while it is being traced.
//
// Such a run makes no calls: it is recorded as a stream that begins with nothing, beside the function's own. Its
// generations get what the run leaves open as their own options, for the options of the traced program's runs are not
// meant for them.
// Threads: that of the function which is traced; on others nothing is.
// Fails:   ProgramError that ends the trace, for what a graph cannot say.
// Source:  SGLang, lang/tracer.py.
#pragma once

#include <optional>
#include <string_view>

#include "espalier/program.h"

namespace espalier::lang {

// Nothing: no function is traced on this thread.
std::optional<State> record_run(const Function& function, const Arguments& arguments, const RunOptions& options);

void refuse_while_tracing(std::string_view what);

}  // namespace espalier::lang
