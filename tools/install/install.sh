#!/bin/sh
# install.sh BUILD install|uninstall - what `make install` puts below DESTDIR, and `make uninstall` takes away.
# From the environment, which the Makefile sets: DESTDIR, PREFIX, BINDIR, LIBDIR, INCLUDEDIR, DATADIR, PYTHONDIR, VERSION,
# SOVERSION, and STRIP: a program that removes symbols, or "no".
set -e
build=$1
bin=$DESTDIR$BINDIR lib=$DESTDIR$LIBDIR include=$DESTDIR$INCLUDEDIR/ptxpack data=$DESTDIR$DATADIR
unset CDPATH

# The relative path from one installed folder to another, escaped for the replacement of a sed command.
path_between() {
    realpath -m -s --relative-to="$1" "$2" | sed 's/[&|\]/\\&/g'
}

# fill TEMPLATE FOLDER NAME: write DESTDIR/FOLDER/NAME, which is TEMPLATE with the version and the paths from FOLDER
# to what is installed.  All paths are relative, so that an installation may be moved as a whole.
fill() {
    install -d "$DESTDIR$2"
    sed -e "s|@VERSION@|$VERSION|g" -e "s|@SOVERSION@|$SOVERSION|g" \
        -e "s|@PREFIX@|$(path_between "$2" "$PREFIX")|g" -e "s|@LIBDIR@|$(path_between "$PREFIX" "$LIBDIR")|g" \
        -e "s|@INCLUDEDIR@|$(path_between "$PREFIX" "$INCLUDEDIR")|g" \
        -e "s|@PYTHONDIR@|$(path_between "$PREFIX" "$PYTHONDIR")|g" \
        -e "s|^LIBRARY = .*|LIBRARY = \"$(path_between "$2" "$LIBDIR/libptxpack.so.$SOVERSION")\"|" \
        "$1" >"$DESTDIR$2/$3"
    chmod 644 "$DESTDIR$2/$3"
}

# stripped FILE TARGET
stripped() {
    if [ "$STRIP" = no ]; then
        install -m 755 "$1" "$2"
    else
        install -m 755 -s --strip-program="$STRIP" "$1" "$2"
    fi
}

# What goes below DATADIR: manual pages, completions, licence and changes.
shared_files="man/man1/ptxpack.1 man/man7/ptxpack-environment.7 man/man7/ptxpack-ptx.7
    bash-completion/completions/ptxpack zsh/site-functions/_ptxpack fish/vendor_completions.d/ptxpack.fish
    doc/ptxpack/LICENSE doc/ptxpack/CHANGELOG.md"

# source_of FILE: where one of them comes from
source_of() {
    case $1 in
    doc/*) echo "${1##*/}" ;;
    bash-completion/*) echo "$build/share/ptxpack.bash" ;;
    *) echo "$build/share/${1##*/}" ;;
    esac
}

install_all() {
    install -d "$bin" "$lib" "$include/inline"
    install -m 644 "$build"/include/ptxpack/*.h "$include/"
    install -m 644 "$build"/include/ptxpack/inline/*.h "$include/inline/"
    install -m 644 "$build/public/libptxpack.a" "$lib/"
    stripped "$build/libptxpack.so" "$lib/libptxpack.so.$VERSION"
    ln -sf "libptxpack.so.$VERSION" "$lib/libptxpack.so.$SOVERSION"
    ln -sf "libptxpack.so.$SOVERSION" "$lib/libptxpack.so"
    stripped "$build/ptxpack" "$bin/ptxpack"
    stripped "$build/libptxpack-emu.so" "$lib/libptxpack-emu.so"
    fill tools/install/ptxpack.pc.in "$LIBDIR/pkgconfig" ptxpack.pc
    fill tools/install/ptxpack-config.cmake.in "$LIBDIR/cmake/ptxpack" ptxpack-config.cmake
    fill tools/install/ptxpack-config-version.cmake.in "$LIBDIR/cmake/ptxpack" ptxpack-config-version.cmake
    for file in tools/python/ptxpack/*.py tools/python/ptxpack/py.typed; do
        fill "$file" "$PYTHONDIR/ptxpack" "$(basename "$file")"
    done
    for file in $shared_files; do
        install -d "$data/${file%/*}"
        install -m 644 "$(source_of "$file")" "$data/$file"
    done
    # So that programs find the library.
    [ -n "$DESTDIR" ] || [ "$(id -u)" != 0 ] || ldconfig || true
}

# remove FOLDER FILE...: these files of it, where it exists
remove() {
    [ -d "$1" ] || return 0
    folder=$1
    shift
    (cd "$folder" && rm -f "$@")
}

# remove_all FOLDER FILE...: also the folder itself when it is empty then
remove_all() {
    remove "$@"
    rmdir "$1" 2>/dev/null || true
}

uninstall_all() {
    remove_all "$include/inline" $(cd "$build/include/ptxpack/inline" && ls)
    remove_all "$include" $(cd "$build/include/ptxpack" && ls -- *.h)
    remove_all "$lib/cmake/ptxpack" ptxpack-config.cmake ptxpack-config-version.cmake
    python=$DESTDIR$PYTHONDIR/ptxpack modules=$(cd tools/python/ptxpack && ls -- *.py)
    for module in $modules; do
        remove "$python/__pycache__" $(cd "$python/__pycache__" 2>/dev/null && ls -- "${module%.py}".*.pyc 2>/dev/null)
    done
    remove_all "$python/__pycache__"
    remove_all "$python" $modules py.typed
    remove_all "$DESTDIR$PYTHONDIR"
    remove_all "$data/ptxpack"
    for file in $shared_files; do
        remove "$data/${file%/*}" "${file##*/}"
    done
    remove_all "$data/doc/ptxpack"
    remove "$lib" libptxpack.a libptxpack-emu.so pkgconfig/ptxpack.pc libptxpack.so "libptxpack.so.$SOVERSION" \
        "libptxpack.so.$VERSION"
    remove "$bin" ptxpack
}

case $2 in
install) install_all ;;
uninstall) uninstall_all ;;
*) echo "usage: install.sh BUILD install|uninstall" >&2; exit 2 ;;
esac
