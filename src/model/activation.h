// activation.h: the activation functions by the names that config.json gives them.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/forms.h"

namespace espalier {

// "silu" and "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu2", ...; nothing for an unknown name.
std::optional<ActivationKind> activation_named(std::string_view name);

}  // namespace espalier
