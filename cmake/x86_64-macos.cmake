# Toolchain: macOS on Intel's processors, from a Linux machine. It shows that the sources build; nothing is run.
set(ESPALIER_MACOS_TARGET x86_64-macos)
set(ESPALIER_RUST_TARGET x86_64-apple-darwin)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
include(${CMAKE_CURRENT_LIST_DIR}/macos.cmake)
