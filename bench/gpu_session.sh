#!/bin/sh
# Pieces of work on a GPU machine, each under its own limit; what one writes is kept when another fails.
#   sh bench/gpu_session.sh OUT_DIR PIECE...     pieces: tests, ops-GEOMETRY, bench-GEOMETRY, profile-GEOMETRY
# Where packages beyond torch and triton are missing they must be on PYTHONPATH already.
out=$1; shift
export PYTHONPATH="src:.:$PYTHONPATH" PYTHONUNBUFFERED=1 NINFER_TEST_DEVICE=cuda
for piece in "$@"; do
  begin=$(date +%s)
  name=${piece#*-}
  case $piece in
    tests) timeout 75 python3 -m pytest tests/gpu -q -x --maxfail=12 -n 12 -p no:cacheprovider --durations=5 ;;
    ops-*) timeout 60 python3 -m bench.gpu_ops --geometry "$name" --json "$out/ops.jsonl" ;;
    bench-*) timeout 60 python3 -m bench.gpu --geometry "$name" --max-context 33792 --lanes 8 --json "$out/rows.jsonl" --profile \
      --rows decode:1:8192 decode:8:8192 sampled:8:8192 prefill:2048 prefill:8192 turn:512:32768 restore:32768 ;;
    linear-*) timeout 40 python3 -m bench.gpu_ops --geometry "$name" --only linear --json "$out/ops.jsonl" ;;
    profile-*) timeout 60 python3 -m bench.gpu --geometry "$name" --json "$out/rows.jsonl" --profile \
      --rows decode:1:8192 decode:8:8192 prefill:2048 prefill:8192 ;;
  esac > "$out/$piece.log" 2>&1
  echo "== $piece: status $?, $(($(date +%s) - begin)) s"
  tail -n 60 "$out/$piece.log" | cut -c -330
done
