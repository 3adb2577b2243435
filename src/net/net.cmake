# Asio and Beast are headers; Debian's default libboost-dev is 1.74, which lacks what the server uses of C++20.
find_package(Boost 1.81 REQUIRED)
target_include_directories(espalier_net SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})

# Without zlib gzipped request bodies are refused (415) and replies are never compressed.
find_package(ZLIB)
if(ZLIB_FOUND)
  target_compile_definitions(espalier_net PRIVATE ESPALIER_ZLIB)
  target_link_libraries(espalier_net PRIVATE ZLIB::ZLIB)
endif()

# TLS of the server's side; the client's is libcurl's.
find_package(OpenSSL REQUIRED)
target_link_libraries(espalier_net PRIVATE OpenSSL::SSL)

# ThreadSanitizer does not understand stand-alone fences; asio's locks order what it needs here anyway.
if(ESPALIER_SANITIZE MATCHES thread)
  target_compile_definitions(espalier_net PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# The poller of macOS, as far as Linux can run it: with the same test, over a double of its system's queue.
if(ESPALIER_TESTS AND NOT APPLE)
  add_executable(kqueue_poller_test ${CMAKE_CURRENT_LIST_DIR}/client/macos/poller.cpp ${CMAKE_CURRENT_LIST_DIR}/client/poller_test.cpp)
  target_include_directories(kqueue_poller_test SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/tests/include/kqueue_double
    PRIVATE ${PROJECT_BINARY_DIR}/include-roots/net)
  target_link_libraries(kqueue_poller_test PRIVATE espalier_base espalier_testing)
  set_target_properties(kqueue_poller_test PROPERTIES UNITY_BUILD OFF)
  add_test(NAME kqueue_poller COMMAND kqueue_poller_test --gtest_brief=1)
endif()
