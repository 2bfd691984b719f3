#!/bin/sh
# usage: install_test.sh BUILD SOURCE
# An installation into a staging folder serves a CMake project and a C99 program by pkg-config, from wherever it is
# moved to; removing it leaves nothing.
set -eu
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
DESTDIR=$folder/staged cmake --install "$build" --prefix /opt/vram >/dev/null
cp "$build/install_manifest.txt" "$folder/manifest"
mv "$folder/staged/opt/vram" "$folder/moved"
prefix=$folder/moved
libraries=$(dirname "$(find "$prefix" -name libvram.so.0)")
export LD_LIBRARY_PATH="$build/lib/sim:$libraries" VRAM_SIM=1x24GiB VRAM_SIM_NAME=library-install-$$

cmake -S "$source/examples/consumer" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$folder/log" ||
  { cat "$folder/log"; exit 1; }
cmake --build "$folder/cmake" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$folder/cmake/cpp_pool" | tee "$folder/out"
grep -q 'refused: vram: out of memory: 600.00 MiB asked for' "$folder/out"

if command -v pkg-config >/dev/null; then
  cd "$folder"
  PKG_CONFIG_PATH=$libraries/pkgconfig "$source/examples/consumer/build.sh" "$source/examples"
  ./c_pool | tee "$folder/out"
  grep -q 'holds 0 MiB' "$folder/out"
else
  echo "skipped: there is no pkg-config"
fi

# Beside somebody else's file, which stays.
mv "$folder/moved" "$folder/staged/opt/vram"
touch "$folder/staged/opt/vram/include/other.h"
DESTDIR=$folder/staged cmake -DMANIFEST="$folder/manifest" -P "$source/cmake/Uninstall.cmake" >/dev/null
left=$(cd "$folder/staged" && find . -not -type d)
[ "$left" = ./opt/vram/include/other.h ] || { echo "left: $left"; exit 1; }
left=$(find "$folder/staged/opt/vram" -mindepth 1 -name vram)
[ -z "$left" ] || { echo "left: $left"; exit 1; }
