#!/bin/sh
# generations.sh - fetch the PTX compilers of five driver generations, without installing anything: Debian's
# packages of libnvidia-ptxjitcompiler.so.1, from the mirror that this machine's apt uses, with our own list and
# state folder.  They are stored in build/generations/BRANCH/, where generations.c looks for them.
# Each one that cannot be fetched is reported as skipped; the exit status is 77 when there is none at all.
branches="450 460 470 535 550"
releases="bullseye bookworm trixie"

cd "$(dirname "$0")/../.." || exit 1
home=$PWD/build/generations
apt=$home/apt

skip() { echo "SKIP: generations: $1"; }

have() { ls "$home/$1/libnvidia-ptxjitcompiler.so.1" >/dev/null 2>&1; }

# The mirrors that apt knows for Debian itself, from both of its formats.
mirrors() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        sed -n 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p'
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p' | tr ' ' '\n'
}

# Run apt without the machine's own lists, state and cache.
private() {
    command=$1
    shift
    "$command" -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State="$apt" \
        -o Dir::State::lists="$apt/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$apt/cache" \
        -o APT::Sandbox::User= -o Acquire::Retries=1 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 "$@"
}

write_list() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r "$keyring" ] && signed="[signed-by=$keyring]" || signed=
    mirror=$(mirrors | grep '/debian/*$' | head -n 1)
    [ -n "$mirror" ] || return 1
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" || return 1
    for release in $releases; do
        echo "deb $signed $mirror $release non-free"
    done >"$apt/sources.list"
}

# Print "package=version" of a branch, if any release has it.
find_package() {
    private apt-cache madison libnvidia-ptxjitcompiler1 libnvidia-tesla-ptxjitcompiler1 \
        "libnvidia-tesla-$1-ptxjitcompiler1" 2>/dev/null |
        sed -n "s/^ *\([^ ]*\) *| *\($1\.[^ ]*\) *|.*/\1=\2/p" | head -n 1
}

fetch() {
    package=$(find_package "$1")
    [ -n "$package" ] || { skip "no release at hand has branch $1"; return; }
    work=$home/work-$1
    rm -rf "$work"
    mkdir -p "$work/root" && (
        cd "$work" && private apt-get download "$package" >/dev/null 2>&1 && dpkg-deb -x ./*.deb root
    ) || { skip "$package could not be downloaded"; rm -rf "$work"; return; }
    library=$(find "$work/root" -type f -name 'libnvidia-ptxjitcompiler.so.*' | head -n 1)
    if [ -n "$library" ]; then
        mkdir -p "$home/$1" && mv "$library" "$home/$1/libnvidia-ptxjitcompiler.so.1" && echo "got branch $1: $package"
    else
        skip "$package has no libnvidia-ptxjitcompiler.so"
    fi
    rm -rf "$work"
}

missing=
for branch in $branches; do
    have "$branch" || missing="$missing $branch"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        skip "no apt on this machine"
    elif ! write_list; then
        skip "apt's sources name no Debian mirror"
    else
        private apt-get update >/dev/null 2>&1
        for branch in $missing; do
            fetch "$branch"
        done
    fi
fi
found=
for branch in $branches; do
    have "$branch" && found="$found $branch"
done
[ -n "$found" ] || exit 77
echo "driver compilers found:$found"
