#include "model/activation.h"

#include <utility>

namespace espalier {

std::optional<ActivationKind> activation_named(std::string_view name) {
  static constexpr std::pair<std::string_view, ActivationKind> kNames[] = {
      {"silu", ActivationKind::silu},
      {"swish", ActivationKind::silu},
      {"gelu_new", ActivationKind::gelu_tanh},
      {"gelu_fast", ActivationKind::gelu_tanh},
      {"gelu_pytorch_tanh", ActivationKind::gelu_tanh},
      {"gelu_python_tanh", ActivationKind::gelu_tanh},
      {"gelu_accurate", ActivationKind::gelu_tanh},
      {"gelu_tanh", ActivationKind::gelu_tanh},
      {"gelu", ActivationKind::gelu_erf},
      {"gelu_python", ActivationKind::gelu_erf},
      {"quick_gelu", ActivationKind::gelu_quick},
      {"relu", ActivationKind::relu},
      {"relu2", ActivationKind::relu2},
      {"relu_squared", ActivationKind::relu2},
      {"sigmoid", ActivationKind::sigmoid},
      {"tanh", ActivationKind::tanh},
      {"softplus", ActivationKind::softplus},
      {"mish", ActivationKind::mish},
      {"sqrtsoftplus", ActivationKind::sqrt_softplus},
      {"linear", ActivationKind::identity},
      {"identity", ActivationKind::identity},
  };
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  return std::nullopt;
}

}  // namespace espalier
