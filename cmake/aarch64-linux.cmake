# Toolchain: AArch64 on a Debian machine of another kind; what it builds runs under qemu's user emulation.
#
# Headers of fmt and nlohmann-json are found in the machine's own folders (they hold no machine code). QEMU_CPU in the
# environment chooses the processor that is emulated.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(fmt_DIR /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/fmt)

find_program(ESPALIER_EMULATOR NAMES qemu-aarch64-static qemu-aarch64 REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${ESPALIER_EMULATOR} -L /usr/aarch64-linux-gnu)
