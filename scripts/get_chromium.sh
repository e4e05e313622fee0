#!/bin/sh
# Debian's Chromium, which the tests of the pages drive, where it is missing and may be installed.
set -eu
command -v chromium >/dev/null 2>&1 && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "chromium is missing and this is no Debian: the tests of the pages in a browser will be skipped" >&2
    exit 0
fi
root=""
[ "$(id -u)" = 0 ] || root="sudo -n"
get() { DEBIAN_FRONTEND=noninteractive $root apt-get install --yes --quiet --no-install-recommends chromium >/dev/null; }
get 2>/dev/null || { $root apt-get update --quiet >/dev/null && get; } ||
    echo "chromium can't be installed: the tests of the pages in a browser will be skipped" >&2
