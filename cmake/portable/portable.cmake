# One program and one Python module for many distributions (docs/decisions/packages.md): linked with an older glibc, and
# with everything else inside. tools/package/libraries.sh lays out what stands in ESPALIER_PORTABLE:
#
#   sysroot/   the older distribution's libc and libgcc_s: crt1.o and the shared libraries that the linker reads
#   lib/       libcurl.a with HTTP alone (Debian's wants Kerberos, LDAP and others, which have no static libraries), and
#              libjpeg.a and libpng.a whose `stderr` is called espalier_stderr (older_glibc.cpp)
#
# What else is linked are the static libraries that come with the packages of `make setup`.
set(sysroot ${ESPALIER_PORTABLE}/sysroot)
set(machine ${CMAKE_LIBRARY_ARCHITECTURE})
if(NOT EXISTS ${sysroot}/usr/lib/${machine}/libc.so)
  message(FATAL_ERROR "ESPALIER_PORTABLE (${ESPALIER_PORTABLE}) has no libc for ${machine}: `make package` lays it out")
endif()

# Only the link sees the older libc: the objects are those that are tested. A link that asks for a function which it
# lacks fails, and so does one that would fall back to this machine's libc (`--sysroot` alone does).
add_link_options(--sysroot=${sysroot} -B${sysroot}/usr/lib/${machine}/ -L${sysroot}/usr/lib/${machine} -L${sysroot}/lib/${machine}
  -static-libstdc++ -Wl,--gc-sections -Wl,--as-needed -Wl,--build-id -Wl,-z,relro -Wl,-z,now -Wl,--exclude-libs,ALL)

set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(CURL_NO_CURL_CMAKE ON)
set(CURL_LIBRARY ${ESPALIER_PORTABLE}/lib/libcurl.a)
set(JPEG_LIBRARY ${ESPALIER_PORTABLE}/lib/libjpeg.a)
set(PNG_LIBRARY ${ESPALIER_PORTABLE}/lib/libpng.a)
find_library(YAML_CPP_LIBRARY yaml-cpp REQUIRED)
add_library(yaml-cpp STATIC IMPORTED GLOBAL)  # before its package, which knows the shared one alone
set_target_properties(yaml-cpp PROPERTIES IMPORTED_LOCATION ${YAML_CPP_LIBRARY})

# What these libraries need themselves, behind them all.
set(behind)
foreach(name ssl crypto z tinfo bsd md)
  find_library(PORTABLE_${name} ${name} REQUIRED)
  list(APPEND behind ${PORTABLE_${name}})
endforeach()
list(JOIN behind " " behind)
string(APPEND CMAKE_C_STANDARD_LIBRARIES " ${behind} -lpthread -ldl -lm")
string(APPEND CMAKE_CXX_STANDARD_LIBRARIES " ${behind} -lpthread -ldl -lm")

# espalier_make_portable(TARGET): what a program or module needs of its own.
function(espalier_make_portable target)
  set(source ${PROJECT_SOURCE_DIR}/cmake/portable/older_glibc.cpp)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  get_target_property(kind ${target} TYPE)
  if(NOT kind STREQUAL EXECUTABLE)  # templates of the C++ library are seen from outside otherwise
    target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/portable/module.map)
  endif()
endfunction()
