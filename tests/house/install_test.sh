#!/bin/sh
# usage: install_test.sh BUILD GREEDY
# What `make install` puts under a prefix works from there, without the build folder in reach.
set -eu
build=$1 greedy=$2
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix" >/dev/null
cp "$greedy" "$prefix/greedy"
cd /
"$prefix/bin/vram" run --sim 1x24GiB -m 1GiB -- "$prefix/greedy" >"$prefix/out" 2>&1 || { cat "$prefix/out"; exit 1; }
cat "$prefix/out"
grep -q 'now: 0 MiB of 1024 MiB free' "$prefix/out"
for file in share/man/man1/vram.1 share/bash-completion/completions/vram; do
  test -s "$prefix/$file" || { echo "missing: $file"; exit 1; }
done
