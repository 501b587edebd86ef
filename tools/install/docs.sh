#!/bin/sh
# docs.sh COMMAND FOLDER VERSION - manual pages and completions in FOLDER: those of the command from its own tables, the
# others from the texts of the house.
set -e
command=$1 folder=$2 version=$3
manual=$(dirname "$0")/manual.sh
"$command" help --bash >"$folder/ptxpack.bash"
"$command" help --zsh >"$folder/_ptxpack"
"$command" help --fish >"$folder/ptxpack.fish"
{
    sh "$manual" ptxpack-environment "$version" 'environment variables of ptxpack' loader/README.md \
        Environment 'Compilers, also without a GPU' Cache 'Machine code that is shipped'
    sh "$manual" - '' '' tools/emu/README.md Environment | sed 's/ENVIRONMENT/EMULATED DRIVER/'
} >"$folder/ptxpack-environment.7"
sh "$manual" ptxpack-ptx "$version" 'the macro language of .ptx files' ptx/README.md \
    'The first kernel' 'The macro language' Conventions 'The same atoms in CUDA C++' >"$folder/ptxpack-ptx.7"
"$command" help --man >"$folder/ptxpack.1" # the last one: make looks at its time
