#!/bin/sh
# package.sh - `pip install .`: the wheel has both libraries and the command, and names a platform that is true of them; installed alone into a
# clean environment it needs nothing of the tree, says its version, and verifies attention on the emulated driver; its types
# are those that mypy --strict accepts.
# Usage: package.sh [BUILD]
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL STRIP PYTHONPATH PYTHONHOME VIRTUAL_ENV
unset PTXPACK_LIBRARY PTXPACK_DRIVER PTXPACK_PTXJIT PTXPACK_EMU PTXPACK_DEVICE PTXPACK_PTX_DIR PTXPACK_ARCH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PTXPACK_CACHE_DIR="$work/cache" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
failed=0

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

skip_all() {
    echo "SKIP: python/package: $1"
    [ $failed -eq 0 ] || exit 1
    exit 77
}

# ---- what it takes: an environment with pip, and the backend from this machine or by pip --------------------------
command -v python3 >/dev/null && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip_all "no python3 of 3.9 or later"
# has MODULE: whether the builder has it, or pip can fetch it into an environment of this test
builder=python3
has() {
    "$builder" -c "import $1" 2>/dev/null && return
    [ "$builder" != python3 ] && "$builder" -m pip install -q --retries 0 --timeout 20 "$1" >"$work/log" 2>&1
}
if ! python3 -c 'import pip, hatchling' 2>/dev/null; then
    builder=$work/builder/bin/python
    python3 -m venv "$work/builder" >"$work/log" 2>&1 || skip_all "python3 -m venv makes no environment"
    has hatchling || skip_all "hatchling is not installed, and pip cannot fetch it"
fi

# ---- the wheel -------------------------------------------------------------------------------------------------
"$builder" -m pip wheel -q --no-build-isolation --no-deps --no-index -w "$work/wheels" . >"$work/log" 2>&1 ||
    { cat "$work/log"; echo "FAIL: pip makes no wheel"; exit 1; }
wheel=$(echo "$work"/wheels/*.whl)
version=$(sed -n 's/^.define PTXPACK_VERSION  *"\(.*\)"/\1/p' loader/version.h)
case ${wheel##*/} in
ptxpack-"$version"-py3-none-manylinux_*_"$(uname -m)".whl) ;;
*) fail "the wheel is ${wheel##*/}" ;;
esac
python3 -m zipfile -e "$wheel" "$work/unpacked" || fail "the wheel is no archive"
echo "${wheel##*/}: $(wc -c <"$wheel") bytes"
(cd "$work/unpacked/ptxpack" && find . -type f | sort) >"$work/found"
{ (cd tools/python/ptxpack && ls -- *.py); printf '%s\n' bin/ptxpack libptxpack-emu.so libptxpack.so py.typed; } |
    sed 's|^|./|' | sort >"$work/wanted"
diff "$work/wanted" "$work/found" || fail "the wheel has other files"
ls "$work"/unpacked/ptxpack-*.dist-info/licenses/LICENSE >/dev/null || fail "the wheel has no licence"
# The newest version of glibc that a symbol wants, by the linker's own tables.
newest=$(readelf -VW "$work"/unpacked/ptxpack/*.so "$work"/unpacked/ptxpack/bin/ptxpack | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
case ${wheel##*/} in
*-manylinux_"$(echo "${newest#GLIBC_}" | tr . _)"_*) ;;
*) fail "the binaries want $newest, and the wheel is ${wheel##*/}" ;;
esac
if has auditwheel; then
    "$builder" -m auditwheel show "$wheel" >"$work/audit" 2>&1
    tag=${wheel##*-none-}
    tr -s ' \n' ' ' <"$work/audit" | grep -q "\"${tag%.whl}\"" || { cat "$work/audit"; fail "auditwheel sees another platform"; }
else
    echo "SKIP: python/package: no auditwheel: the platform was compared with readelf alone"
fi

# ---- in a clean environment, away from the tree ------------------------------------------------------------------
python3 -m venv "$work/clean" >"$work/log" 2>&1 || skip_all "python3 -m venv makes no environment"
"$work/clean/bin/pip" install -q --no-index "$wheel" >"$work/log" 2>&1 ||
    { cat "$work/log"; echo "FAIL: the wheel is not installed"; exit 1; }
cd "$work" || exit 1
python=$work/clean/bin/python
[ "$("$python" -c 'import ptxpack; print(ptxpack.__version__)')" = "$version" ] || fail "__version__ is not the library's $version"
[ "$("$python" -m ptxpack --version)" = "$version" ] || fail "--version is not $version"
"$python" -m ptxpack verify --device emu >verified 2>&1 || { cat verified; fail "python -m ptxpack verify --device emu"; }
[ "$(grep -c '^attention .*: ok$' verified)" -eq 4 ] || { cat verified; fail "verify says something else"; }
cp -r "$OLDPWD/ptx" broken # a kernel that sees one key too many
sed -i -e 's|sub\.s32  *\\d, \\columns, \\\[\\first\];|sub.s32 \\d, \\columns, \\[(\\first)-1];|' \
    -e 's|setp\.gt\.s32  *%seen|setp.ge.s32 %seen|' broken/attention/mask.ptx
PTXPACK_PTX_DIR=$work/broken "$python" -m ptxpack verify --device emu >verified 2>&1
{ [ $? -eq 1 ] && [ "$(grep -c '^attention .*, causal: .*: WRONG$' verified)" -eq 2 ]; } ||
    { cat verified; fail "verify does not notice a broken kernel"; }
"$python" -m ptxpack --device emu >said 2>&1 || fail "python -m ptxpack --device emu"
grep -q "^library  *$work/clean/.*/ptxpack/libptxpack\.so$" said || fail "the library is another"
grep -q "^emulated: " said || fail "info does not say that the driver is emulated"
PTXPACK_DEVICE=emulator "$python" -m ptxpack >said 2>&1
{ [ $? -eq 1 ] && [ "$(cat said)" = "PTXPACK_DEVICE: 'emulator' is neither gpu nor emu" ]; } || fail "a wrong device: $(cat said)"
"$work/clean/bin/ptxpack" vector-add --n 1000 --device emu --verify >said 2>&1 || { cat said; fail "the command"; }
"$work/clean/bin/ptxpack" vector-add --no-such-option >said 2>&1
[ $? -eq 2 ] || fail "the command does not hand on its exit status"
"$python" -m ptxpack prove >/dev/null 2>&1
[ $? -eq 2 ] || fail "wrong usage is not exit status 2"
if "$python" -c 'import ptxpack; ptxpack.info()' >said 2>&1; then
    "$python" -m ptxpack verify || fail "verify on the GPU"
else
    tail -n 1 said | grep -q '; PTXPACK_DEVICE=emu takes the emulated driver$' || fail "no GPU: $(cat said)"
    "$python" -m ptxpack verify >said 2>&1 || fail "verify without a GPU"
    grep -q '^no GPU: ' said || fail "verify does not say that there is no GPU"
fi
"$work/clean/bin/pip" uninstall -q -y ptxpack && find "$work/clean" -path '*/ptxpack*' ! -name '*.pyc' -type f | grep . &&
    fail "pip uninstall leaves files"

# ---- types -------------------------------------------------------------------------------------------------------
cd "$OLDPWD" || exit 1
if has mypy; then
    "$builder" -m mypy --cache-dir "$work/mypy" >"$work/log" 2>&1 || { cat "$work/log"; fail "mypy --strict"; }
else
    echo "SKIP: python/package: no mypy: the types were not checked"
fi
[ $failed -eq 0 ]
