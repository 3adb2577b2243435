# SQLite keeps what is stored for clients: one file, safe when the process is killed, and nothing to administer.
find_package(SQLite3 REQUIRED)
target_link_libraries(espalier_server PRIVATE SQLite::SQLite3)

# OpenSSL's SHA-256 and constant-time compare for keys; the page becomes a string inside the binary.
find_package(OpenSSL REQUIRED)
target_link_libraries(espalier_server PRIVATE OpenSSL::Crypto)

# A raw string literal holds at most 64 KiB by the standard's minimum, so the page is written as a list of bytes.
function(espalier_embed_page source header)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DHEADER=${header} -P ${PROJECT_SOURCE_DIR}/src/server/routes/embed_page.cmake
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/src/server/routes/embed_page.cmake
    COMMENT "Embedding a page")
endfunction()

set(page_dir ${PROJECT_BINARY_DIR}/generated/server)
file(MAKE_DIRECTORY ${page_dir})
espalier_embed_page(${PROJECT_SOURCE_DIR}/web/built/page.html ${page_dir}/page_bytes.inc)
espalier_embed_page(${PROJECT_SOURCE_DIR}/src/server/routes/docs_page.html ${page_dir}/docs_page_bytes.inc)
target_sources(espalier_server PRIVATE ${page_dir}/page_bytes.inc ${page_dir}/docs_page_bytes.inc)
add_custom_target(espalier_generated DEPENDS ${page_dir}/page_bytes.inc ${page_dir}/docs_page_bytes.inc)  # what clang-tidy needs without a build
target_include_directories(espalier_server PRIVATE ${page_dir})

# Films in containers of video: FFmpeg's headers say how its libraries look, which are loaded when a film asks for them.
find_path(LIBAV_INCLUDE NAMES libavformat/avformat.h PATH_SUFFIXES ffmpeg)
find_path(SWSCALE_INCLUDE NAMES libswscale/swscale.h PATH_SUFFIXES ffmpeg)
if(LIBAV_INCLUDE AND SWSCALE_INCLUDE)
  target_compile_definitions(espalier_server PRIVATE ESPALIER_LIBAV)
  target_include_directories(espalier_server SYSTEM PRIVATE ${LIBAV_INCLUDE} ${SWSCALE_INCLUDE})
  target_link_libraries(espalier_server PRIVATE ${CMAKE_DL_LIBS})
endif()
