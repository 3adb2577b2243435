# Toolchain: macOS on Apple's processors, from a Linux machine. It shows that the sources build; nothing is run.
set(ESPALIER_MACOS_TARGET aarch64-macos)
set(ESPALIER_RUST_TARGET aarch64-apple-darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
include(${CMAKE_CURRENT_LIST_DIR}/macos.cmake)
