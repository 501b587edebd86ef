#!/bin/sh
# run.sh BUILD TEST... - run test programs and scripts, one line each, logs in BUILD/logs; status 77 of a test
# means skipped, and its SKIP: lines are shown, also those of tests that ran but left something out.
# The device checker comes last, on a GPU and on the emulated driver, and the test of it.  Exit status 1 if anything failed.
build=$1
shift
logs=$build/logs
mkdir -p "$logs" || exit 1
passed=0 failed=0 skipped=0 left_out=0

# now: seconds, with hundredths where date has them
now() { date +%s.%N | cut -c1-13; }

run_one() {
    name=$1
    shift
    log=$logs/$(basename "$name").log
    started=$(now)
    "$@" >"$log" 2>&1
    status=$?
    took=$(echo "$(now) $started" | awk '{printf "%.1f s", $1 - $2}')
    case $status in
    0) word=PASS passed=$((passed + 1)) ;;
    77) word=SKIP skipped=$((skipped + 1)) ;;
    *) word=FAIL failed=$((failed + 1)) ;;
    esac
    echo "$word  $name  ($took)"
    [ $word = FAIL ] && { echo "      exit status $status; the end of $log:"; tail -n 40 "$log" | sed 's/^/      /'; }
    reasons=$(grep -c 'SKIP:' "$log")
    if [ "$reasons" -gt 0 ]; then
        grep -o 'SKIP:.*' "$log" | sed 's/^/      /' | head -n 20
        [ $word = SKIP ] || left_out=$((left_out + reasons))
    fi
}

for test; do
    case $test in
    *.sh) run_one "$test" sh "$test" ;;
    *) run_one "$test" "$build/$test" ;;
    esac
done
run_one ptxpack-check "$build/ptxpack-check" --device gpu
run_one ptxpack-check-self-test "$build/ptxpack-check" --device gpu --self-test
# Every kernel variant for every architecture on the emulated driver; once with the asynchronous operations as
# late as they may be.
for sm in 75 80 86 89 90 100 120; do
    run_one "emulated-sm_$sm" env PTXPACK_EMU_SM=$sm "$build/ptxpack-check" --device emu
done
run_one emulated-late env PTXPACK_EMU_SM=90 PTXPACK_EMU_ASYNC=latest "$build/ptxpack-check" --device emu --quick
run_one emulated-self-test env PTXPACK_EMU_SM=90 "$build/ptxpack-check" --device emu --self-test

echo "$passed passed, $failed failed, $skipped skipped as a whole, $left_out skipped inside tests that passed"
[ "$skipped" -eq 0 ] || echo "SKIPPED TESTS PROVE NOTHING: see the SKIP lines above"
[ "$failed" -eq 0 ]
