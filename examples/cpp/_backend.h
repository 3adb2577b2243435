// _backend.h: who answers the examples: the server of ESPALIER_BASE_URL or OPENAI_BASE_URL, else the default model in
// this process.
//
// A server that speaks Espalier's or SGLang's own interface is used by it, with the key of ESPALIER_API_KEY or
// OPENAI_API_KEY; any other by OpenAI's, with the model of OPENAI_MODEL. The model in process is that of ESPALIER_MODEL
// (smollm2-135m), which is fetched when it is not here, computed with ESPALIER_ACTIVATIONS (int8; f32: exact, the same
// on every processor).
// Fails: ends the program with a sentence on stderr and the error's exit code.
#pragma once

#include <memory>

#include "espalier/backend.h"

namespace example {

std::shared_ptr<espalier::Backend> open_backend();

}  // namespace example
