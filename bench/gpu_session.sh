#!/bin/sh
# Pieces of work on a GPU machine, each under its own limit; what one writes is kept when another fails.
#   sh bench/gpu_session.sh OUT_DIR PIECE...
# Pieces: tests, memcheck, and of a geometry (such as 4b) ops-4b, linear-4b, bench-4b, http-4b, open-4b.
# Where packages beyond torch and triton are missing they must be on PYTHONPATH already.
out=$1; shift
export PYTHONPATH="src:.:$PYTHONPATH" PYTHONUNBUFFERED=1 NINFER_TEST_DEVICE=cuda
sizes="--max-context 35840 --lanes 8"
for piece in "$@"; do
  begin=$(date +%s)
  name=${piece#*-}
  case $piece in
    tests) timeout 150 python3 -m pytest tests/gpu -q --maxfail=12 -n 8 -p no:cacheprovider --durations=5 --tb=short ;;
    ops-*) timeout 60 python3 -m bench.gpu_ops --geometry "$name" --json "$out/ops.jsonl" ;;
    linear-*) timeout 40 python3 -m bench.gpu_ops --geometry "$name" --only linear --json "$out/ops.jsonl" ;;
    open-*) timeout 40 python3 -m bench.gpu --geometry "$name" $sizes --json "$out/rows.jsonl" --rows decode:1:8192 ;;
    bench-*) timeout 120 python3 -m bench.gpu --geometry "$name" $sizes --json "$out/rows.jsonl" \
      --rows decode:1:8192 decode:8:8192 sampled:8:8192 turn:512:32768 prefill:2048 prefill:8192 prompt:32768 restore:32768 \
      restored:512:32768 capture:2048 decode:1:1024 decode:2:1024 decode:4:1024 decode:8:1024 decode:2:8192 decode:4:8192 \
      decode:1:32768 decode:2:32768 decode:4:32768 decode:8:32768 prefill:512 repeat:2048 engine:8:8192 engine:1:8192 \
      gap:32768 --profile decode:1:8192 decode:8:8192 turn:512:32768 prefill:2048 prefill:8192 ;;
    http-*) timeout 60 python3 -m bench.gpu --geometry "$name" $sizes --json "$out/rows.jsonl" \
      --rows engine:8:8192 http:8:8192 ;;
    memcheck) timeout 90 compute-sanitizer --tool memcheck --error-exitcode 9 --target-processes all \
      python3 -m pytest tests/gpu/test_triton_kernels.py -q -x -p no:cacheprovider -k "scan or prefill or mix_step" ;;
  esac > "$out/$piece.log" 2>&1
  echo "== $piece: status $?, $(($(date +%s) - begin)) s"
  cat "$out/$piece.log" >> "$out/session.log"; echo "== $piece" >> "$out/session.log"
  tail -n "${TAIL:-60}" "$out/$piece.log" | cut -c -330
done
