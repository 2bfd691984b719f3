#!/bin/sh
# usage: loaded_late_test.sh BUILD SOURCE
# libvram.so can be loaded when sixty libraries before it have taken of the room that libc keeps for thread-local
# variables of libraries that come late.
set -eu
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '__thread long mine[2] __attribute__((tls_model("initial-exec"))); long *get(void) { return mine; }' >one.c
${CC:-cc} -shared -fPIC -o one.so one.c
libraries=
for i in $(seq 60); do
  cp one.so "$i.so"
  libraries="$libraries ./$i.so"
done
${CC:-cc} -o late "$source/loaded_late.c" -ldl -lpthread
LD_LIBRARY_PATH=$build/lib/sim VRAM_SIM=1x24GiB VRAM_SIM_NAME=loaded-late-$$ ./late "$build/lib/libvram.so.0" $libraries
