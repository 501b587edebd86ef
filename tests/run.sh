#!/bin/sh
# run.sh BUILD TEST... - run tests on all processors, a line for each as it ends, their logs in BUILD/logs.
# A TEST is a program (host/layout/coord) or a script (install/embed.sh) below tests/.  Exit status 77 of a test means
# that it was skipped; its lines with SKIP: are shown, also those of tests that ran but left something out.
# After these the device checker runs, on a GPU and on the emulated driver, and the test of the checker.
# The checker on the emulated driver has PTXPACK_TEST_SEED as its seed, or a fixed one, so that a failure is the commit's and comes
# again; on a GPU the seed differs from run to run.
# The last line is "N passed, N failed, N skipped"; exit status 1 if anything failed.
if [ "$1" = --one ]; then # "NAME COMMAND": run one, and say what came of it
    name=${2%% *}
    command=${2#* } # a line of shell, with quotes of its own
    log=$PTXPACK_TEST_LOGS/$(echo "$name" | tr / -).log
    started=$(date +%s.%N)
    sh -c "$command" >"$log" 2>&1
    status=$?
    took=$(echo "$(date +%s.%N) $started" | awk '{printf "%.1f", $1 - $2}')
    case $status in
    0) word=PASS ;;
    77) word=SKIP ;;
    *) word=FAIL ;;
    esac
    lines=$(
        printf '%s  %-34s %6s s\n' "$word" "$name" "$took"
        [ $word = FAIL ] && echo "      exit status $status; the end of $log:" && tail -n 40 "$log" | sed 's/^/      /'
        grep -o 'SKIP:.*' "$log" | sed 's/^/      /' | head -n 20
    )
    printf '%s\n' "$lines"
    echo "$word $name $took" >>"$PTXPACK_TEST_LOGS/results"
    exit 0
fi

build=$1
shift
export PTXPACK_TEST_LOGS="$build/logs"
mkdir -p "$PTXPACK_TEST_LOGS" || exit 1
: >"$PTXPACK_TEST_LOGS/results"
check=$build/ptxpack-check
emulated="$check --device emu --seed ${PTXPACK_TEST_SEED:-20261127}"

# Every job, a line "NAME COMMAND".
jobs() {
    for test; do
        case $test in
        loader/generations.sh) ;; # fetches what the next one uses
        loader/generations) echo "$test sh tests/$test.sh; $build/tests/loader-generations" ;;
        *.sh) echo "$test sh tests/$test" ;;
        *) echo "$test $build/tests/$(echo "$test" | tr / -)" ;;
        esac
    done
    echo "check $check --device gpu"
    echo "check/self_test $check --device gpu --self-test"
    # Every kernel variant on the emulated driver, in full on the architecture that it is for.  Later ones run the texts of those
    # before them: some cases show that these are chosen and fit, with little shared memory (86, 89, 120) and with much.
    for sm in 75 80 90; do
        echo "check/sm_$sm PTXPACK_EMU_SM=$sm $emulated --newest"
    done
    for sm in 86 100; do
        echo "check/d64_sm_$sm PTXPACK_EMU_SM=$sm $emulated --quick --filter ' d64 '"
    done
    for sm in 89 90 120; do
        echo "check/few_sm_$sm PTXPACK_EMU_SM=$sm $emulated --quick --filter ' d64 4/2 '"
    done
    # As many blocks as let a tile of decode.ptx have more parts than are merged at once.
    echo "check/many_parts PTXPACK_EMU_SM=80 PTXPACK_EMU_SMS=24 $emulated --row attention_decode --filter 1x1328"
    # Tiles of rows that share a key head and have several ranges each, which pairs of blocks take side by side.
    echo "check/pairs PTXPACK_EMU_SM=90 PTXPACK_EMU_SMS=24 $emulated --row attention_decode_sm90 --filter 17x330"
    echo "check/pairs_of_lengths PTXPACK_EMU_SM=90 PTXPACK_EMU_SMS=48 $emulated --row attention_decode_sm90 --filter 1x6x170"
    # All tiles in one block, with the asynchronous operations as late as they may be.
    echo "check/late PTXPACK_EMU_SM=90 PTXPACK_EMU_SMS=1 PTXPACK_EMU_ASYNC=latest $emulated --quick --row _sm90"
    echo "check/self_test_emu PTXPACK_EMU_SM=90 $emulated --self-test"
}

# The long ones first, the longest of them at the very beginning, so that none is left alone at the end.
long='check/sm_90 check/sm_80 check/self_test_emu check/late tools/warm mutate/sample.sh inline/inline loader/generations
    check/sm_75 check/d64_sm_100 tools/golden.sh tools/llama.sh check/few_sm_90 emu/driver/programs host/plan/kernel_texts
    check/d64_sm_86 tools/checker emu/run/fuzz emu/rows/attention_wgmma loader/ptxas emu/rows/gemm_wgmma'
{
    for name in $long; do
        jobs "$@" | grep "^$name "
    done
    jobs "$@" | grep -vE "^($(echo $long | tr ' ' '|')) "
} | xargs -d '\n' -P "$(nproc)" -I '{}' sh tests/run.sh --one '{}'

results=$PTXPACK_TEST_LOGS/results
failed=$(grep -c '^FAIL' "$results") skipped=$(grep -c '^SKIP' "$results") passed=$(grep -c '^PASS' "$results")
[ "$failed" -eq 0 ] || { echo "failed:"; sed -n 's/^FAIL \([^ ]*\).*/      \1/p' "$results"; }
[ "$skipped" -eq 0 ] || echo "A skipped test proves nothing: see the lines with SKIP: above."
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
