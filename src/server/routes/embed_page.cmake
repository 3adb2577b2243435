# cmake -DSOURCE=page.html -DHEADER=bytes.inc -P embed_page.cmake: the file's bytes as a comma-separated list.
file(READ ${SOURCE} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
file(WRITE ${HEADER} "${bytes}\n")
