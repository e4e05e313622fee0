#!/bin/sh
# get_package.sh PROGRAM PACKAGE TESTS: install a Debian package that tests need, where its program (or the file that is
# named instead) is missing and packages may be installed. Debian keeps the programs of PostgreSQL out of the path.
set -eu
program=$1 package=$2 tests=$3
[ -e "$program" ] && exit 0
command -v "$program" >/dev/null 2>&1 && exit 0
ls /usr/lib/postgresql/*/bin/"$program" >/dev/null 2>&1 && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "$package is missing and this is no Debian: $tests will be skipped" >&2
    exit 0
fi
root=""
[ "$(id -u)" = 0 ] || root="sudo -n"
get() { DEBIAN_FRONTEND=noninteractive $root apt-get install --yes --quiet --no-install-recommends "$package" >/dev/null; }
get 2>/dev/null || { $root apt-get update --quiet >/dev/null && get; } ||
    echo "$package can't be installed: $tests will be skipped" >&2
