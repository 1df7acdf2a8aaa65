#!/usr/bin/env bash
# A model on a GPU beside the same model on the processor: vectors, texts per second, and a whole ingest. For a machine with an NVIDIA GPU,
# ONNX Runtime for CUDA (the package `onnxruntime-gpu`) and its CUDA libraries; takes 3 to 8 minutes.
#
# Usage: ORT_DYLIB_PATH=.../libonnxruntime.so.1.31.1 benches/gpu.sh MNEMON MODEL MESSAGES OUT
#
# MNEMON is the command, built with `cargo build --release -p mnemon-cli --no-default-features --features bench,cuda`; MODEL a model folder;
# MESSAGES a file of JSON lines. The figures go into the folder OUT. SAMPLE is the number of messages whose vectors are compared, and
# that are embedded on the processor (default: 20000).
set -euo pipefail
mnemon=$1 model=$2 messages=$3 out=$4 sample=${SAMPLE:-20000}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$out/machine.txt"
grep -m1 'model name' /proc/cpuinfo | tee -a "$out/machine.txt"
nproc | tee -a "$out/machine.txt"
head -n "$sample" "$messages" >"$work/sample.jsonl"

for device in cpu cuda; do
    echo "== $device: embed $sample messages, and compare"
    "$mnemon" --quiet embed --messages "$work/sample.jsonl" --model "$model" --device "$device" --hold-out 1000 --out "$work/$device"
    echo "== $device: texts per second"
    "$mnemon" --quiet --format json bench embed --messages "$work/sample.jsonl" --limit "$sample" --model "$model" --device "$device" --rounds 3 \
        --json "$out/embed-$device.json"
done
python3 - "$work" <<'P' | tee "$out/cosines.txt"
import sys

import numpy as np

def rows(path):
    raw = np.fromfile(path, dtype=np.int32)
    return raw.reshape(-1, raw[0] + 1)[:, 1:].view(np.float32).astype(np.float64)

for name in ("base", "query"):
    cpu, gpu = (rows(f"{sys.argv[1]}/{device}/{name}.fvecs") for device in ("cpu", "cuda"))
    cosines = (cpu * gpu).sum(axis=1) / np.linalg.norm(cpu, axis=1) / np.linalg.norm(gpu, axis=1)
    print(f"{name}: {len(cosines)} vectors, cosine least {cosines.min():.7f}, mean {cosines.mean():.7f}")
P

for device in cuda cpu; do
    echo "== $device: ingest all of $messages"
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 >"$work/memory" 2>/dev/null &
    watching=$!
    { time timeout "${LONGEST:-150}" "$mnemon" --quiet ingest --db "$work/$device.redb" --namespace bench --model "$model" --device "$device" "$messages"; } \
        2>&1 | tee "$out/ingest-$device.txt" || echo "not done after ${LONGEST:-150} s" | tee -a "$out/ingest-$device.txt"
    kill $watching
    echo "most memory of the GPU in use: $(sort -n "$work/memory" | tail -1) MiB" | tee -a "$out/ingest-$device.txt"
done
