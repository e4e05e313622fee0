#!/bin/sh
# Makes a virtual environment on a fresh Debian or Ubuntu with nothing but python3.
# usage: make_venv.sh PYTHON FOLDER
set -eu
python=$1
folder=$2

say() { printf 'opilio: %s\n' "$*" >&2; }

command -v "$python" >/dev/null 2>&1 || { say "no $python here; install Python 3.11 or newer"; exit 2; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$("$python" --version) is too old: 3.11 or newer is needed; name another with make PYTHON=python3.12"
    exit 2
}

# Debian and Ubuntu ship python3 without the module that puts pip into a new environment. Their package helps only their
# own Python, so no other one makes us touch the system.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    home=$("$python" -c 'import sys; print(sys.base_prefix)')
    if [ "$home" != /usr ]; then
        say "the Python in $home can't make environments (no ensurepip); name another with make PYTHON=/usr/bin/python3"
        exit 2
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing $package"
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    else
        say "this Python can't make environments; run: sudo apt-get install $package, then the same command again"
        exit 2
    fi
fi

"$python" -m venv "$folder"
