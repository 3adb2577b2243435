# Asio and Beast are headers; Debian's default libboost-dev is 1.74, which lacks what the server uses of C++20.
find_package(Boost 1.81 REQUIRED)
target_include_directories(espalier_net SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})

# Without zlib gzipped request bodies are refused (415) and replies are never compressed.
find_package(ZLIB)
if(ZLIB_FOUND)
  target_compile_definitions(espalier_net PRIVATE ESPALIER_ZLIB)
  target_link_libraries(espalier_net PRIVATE ZLIB::ZLIB)
endif()

# ThreadSanitizer does not understand stand-alone fences; asio's locks order what it needs here anyway.
if(ESPALIER_SANITIZE MATCHES thread)
  target_compile_definitions(espalier_net PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
