# Sourced by `weft` and `test`, which set $root: brings .venv up to date with uv, which is found
# on PATH or installed into .weft/uv. Both folders are the repository's own and are not tracked.

# The cargo profile of the Rust module: soon compiled, and nearly as fast as a release's. `test` asks for dev: its checks are
# on, and the crates' tests have compiled most of it already.
profile=lab

say() { echo "weft: $*" >&2; }

die() {
    say "$*"
    exit 1
}

find_python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        # The interpreter itself, not a launcher that may answer differently elsewhere.
        path=$("$python" -c 'import sys; print(sys.executable) if sys.version_info >= (3, 11) else sys.exit(1)' 2>/dev/null) || continue
        python=$path
        return
    done
    die "Python 3.11 or newer is needed, with venv and pip"
}

find_uv() {
    if command -v uv >/dev/null; then
        uv=uv
        return
    fi
    uv=$root/.weft/uv/bin/uv
    [ -x "$uv" ] && return
    "$python" -m venv "$root/.weft/uv" &&
        "$root/.weft/uv/bin/pip" install --quiet --disable-pip-version-check 'uv>=0.8'
}

# say_later TEXT: says it once work has taken two seconds, and each minute after that how long it has taken; `said` ends it.
say_later() {
    # A sleep outlives its shell: it keeps nothing open that somebody reads.
    (
        minutes=0
        sleep 2 2>/dev/null
        while kill -0 $$ 2>/dev/null; do
            if [ $minutes = 0 ]; then say "$1"; else say "still building, after $minutes min"; fi
            minutes=$((minutes + 1))
            sleep 60 2>/dev/null
        done
    ) >/dev/null </dev/null &
    talker=$!
}

said() {
    kill "$talker" 2>/dev/null || true
    wait "$talker" 2>/dev/null || true
}

# kind: the profile of the module. TLS, which the backend quic-to-picoquic needs, takes half a minute of a core to compile: `lab`
# has it only where picoquic is.
kind() {
    if [ "$profile" = lab ] && [ -e "$root/.weft/picoquic" ]; then echo 'lab with tls'; else echo "$profile"; fi
}

# Whether nothing changed since the environment named by stamp file $1 was made. Folders count:
# their time changes when a file in them goes away.
is_current() {
    [ -f "$root/python/weftway/_native.abi3.so" ] && [ -x "$root/.venv/bin/weft" ] || return 1
    [ "$(cat "$1" 2>/dev/null)" = "$root" ] || return 1
    [ "$(cat "$root/.weft/profile" 2>/dev/null)" = "$(kind)" ] || return 1
    cd "$root"
    newer=$(find crates policies Cargo.toml Cargo.lock pyproject.toml uv.lock -newer "$1" | head -n 1)
    cd "$OLDPWD"
    [ -z "$newer" ]
}

# Runs in a shell of its own, where `set -e` does not hold: it is part of a condition.
sync() {
    find_python
    find_uv || return
    cd "$root"
    # Entry points name the interpreter by its full path: a moved checkout starts afresh.
    [ "$(cat .weft/root 2>/dev/null)" = "$root" ] || rm -rf .venv
    echo "$root" >.weft/root
    rebuild=
    [ -f python/weftway/_native.abi3.so ] && [ "$(cat .weft/profile 2>/dev/null)" = "$(kind)" ] ||
        rebuild='--reinstall-package weftway'
    arguments=--profile=$profile
    [ "$(kind)" != lab ] || arguments="$arguments --no-default-features"
    # shellcheck disable=SC2086  # several words, or none
    env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT="$root/.venv" UV_PYTHON_DOWNLOADS=never UV_PYTHON_PREFERENCE=system \
        "$uv" sync --locked --python "$python" $rebuild --config-settings-package "weftway:build-args=$arguments" "$@" &&
        kind >.weft/profile
}

# add_package NAME FILE: installs a package into .venv, unless FILE is there.
add_package() {
    [ -e "$2" ] && return
    say "installing $1"
    find_python
    find_uv && "$uv" pip install --quiet --python "$root/.venv" "$1" >&2 || die "$1 could not be installed"
}

# add_picoquic: puts the wheel aiopquic into .weft/picoquic, unless it is there. Only the picoquic in its module is used, by any
# version of Python. Where there is no such wheel the tests that need it say so, and are skipped.
add_picoquic() {
    [ -e "$root/.weft/picoquic/aiopquic" ] && return
    say "installing picoquic (aiopquic)"
    find_python
    find_uv && "$uv" pip install --no-config --quiet --python "$python" --python-version 3.12 --target "$root/.weft/picoquic" \
        --no-deps --require-hashes --requirement "$root/tests/interop/requirements.txt" >&2 || say "it could not be installed"
}

# setup NAME [OPTION]…: an environment made with these options of `uv sync`. Silent when there is
# nothing to do; with progress on a terminal; elsewhere with the log if it fails.
setup() {
    stamp=$root/.weft/$1
    shift
    is_current "$stamp" && return
    command -v cargo >/dev/null || die "cargo is needed: install Rust 1.91 or newer"
    mkdir -p "$root/.weft"
    # Stamped with the time before the build: an edit during it is not missed.
    echo "$root" >"$stamp.$$"
    if [ -t 2 ]; then
        say "bringing the build up to date (the first time takes some minutes)"
        (sync "$@") >&2 || die "the set-up failed"
    else
        say_later "bringing the build up to date (the first time takes some minutes; log in .weft/log)"
        ready=yes
        (sync "$@") >"$root/.weft/log" 2>&1 || ready=
        said
        [ -n "$ready" ] || {
            cat "$root/.weft/log" >&2
            die "the set-up failed"
        }
    fi
    mv "$stamp.$$" "$stamp"
}

# build_link: brings $link up to date, the program weft-link under the name `weft`. Silent when there is nothing to do.
build_link() {
    # Another one, for tests.
    if [ -n "${WEFT_LINK-}" ]; then
        link=$WEFT_LINK
        return
    fi
    case $profile in
    dev) link_profile=dev folder=debug ;;
    *) link_profile=lab folder=lab ;;
    esac
    link=$root/.weft/$folder/weft
    stamp=$root/.weft/$folder/stamp
    if [ -x "$link" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$root" ]; then
        cd "$root"
        newer=$(find crates policies Cargo.toml Cargo.lock -newer "$stamp" | head -n 1)
        cd "$OLDPWD"
        [ -n "$newer" ] || return 0
    fi
    command -v cargo >/dev/null || die "cargo is needed: install Rust 1.91 or newer"
    mkdir -p "$root/.weft/$folder"
    # Stamped with the time before the build: an edit during it is not missed.
    echo "$root" >"$stamp.$$"
    say_later "building weft-link, the program that carries traffic (the first time takes three minutes)"
    ready=yes
    cargo build --quiet --locked --profile "$link_profile" --package weftway-program \
        --manifest-path "$root/Cargo.toml" --target-dir "$root/target" >"$root/.weft/$folder/log" 2>&1 || ready=
    said
    [ -n "$ready" ] || {
        cat "$root/.weft/$folder/log" >&2
        die "weft-link could not be built"
    }
    ln -sf "$root/target/$folder/weft-link" "$link"
    mv "$stamp.$$" "$stamp"
}
