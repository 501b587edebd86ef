#!/bin/sh
# fill.sh TEMPLATE FOLDER NAME - write DESTDIR/FOLDER/NAME: TEMPLATE with the version and with the ways from FOLDER
# to what is installed.  All ways are relative, so that an installation may be moved as a whole.  From the
# environment: DESTDIR, PREFIX, LIBDIR, INCLUDEDIR, PYTHONDIR, VERSION, SOVERSION.
set -e
template=$1 folder=$2 target=$DESTDIR$2/$3

# way FROM TO: as the replacement of a sed command with | between its parts
way() {
    realpath -m -s --relative-to="$1" "$2" | sed 's/[&|\]/\\&/g'
}

install -d "$DESTDIR$folder"
sed -e "s|@VERSION@|$VERSION|g" -e "s|@SOVERSION@|$SOVERSION|g" \
    -e "s|@PREFIX@|$(way "$folder" "$PREFIX")|g" -e "s|@LIBDIR@|$(way "$PREFIX" "$LIBDIR")|g" \
    -e "s|@INCLUDEDIR@|$(way "$PREFIX" "$INCLUDEDIR")|g" -e "s|@PYTHONDIR@|$(way "$PREFIX" "$PYTHONDIR")|g" \
    -e "s|^LIBRARY = .*|LIBRARY = \"$(way "$folder" "$LIBDIR/libptxpack.so.$SOVERSION")\"|" \
    "$template" >"$target"
chmod 644 "$target"
