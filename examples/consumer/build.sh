#!/bin/sh
# The same without CMake.
${CC:-cc} -std=c99 -pedantic -Wall -Werror -o c_pool "$1/c_pool.c" $(pkg-config --cflags --libs vram)
