#!/usr/bin/env bash
# Runs an example whose library does not fit beside the others, in a new virtual environment.
#
#   bash examples/run_isolated.sh NAME [ARGUMENTS OF THE EXAMPLE]
#
# NAME: rllib_self_play or agilerl_dqn. Versions are those of examples/requirements/NAME.txt.
# The environment lies in a temporary folder that is removed at the end; VENV=DIRECTORY keeps it
# there and uses it again. PYTHON=COMMAND chooses the interpreter. Fails if the example does, or if
# it does not print its figure.
set -euo pipefail

name=${1:-}
case $name in
    rllib_self_play)
        packages=("ray[rllib]")
        defaults=(--steps 2000)
        figure='frozen weights unchanged: True; learner.s weights changed: True'
        ;;
    agilerl_dqn)
        packages=(agilerl peft)
        defaults=(--steps 20000)
        figure='after [0-9]+ decisions in [0-9]+ s: win rate 0\.[0-9]+'
        ;;
    *)
        echo "usage: $0 rllib_self_play|agilerl_dqn [ARGUMENTS]" >&2
        exit 2
        ;;
esac
shift
[ $# -gt 0 ] || set -- "${defaults[@]}"

root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
venv=${VENV:-$scratch/venv}
pins=$root/examples/requirements/$name.txt

if [ ! -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --upgrade pip
    # torch first and by its exact version: a range may bring a build for GPUs of several GB.
    "$venv/bin/python" -m pip install --quiet "$(grep '^torch==' "$pins")"
    "$venv/bin/python" -m pip install --quiet --constraint "$pins" \
        --editable "$root" "${packages[@]}"
fi
"$venv/bin/python" -m pip check

"$venv/bin/python" "$root/examples/$name.py" "$@" | tee "$scratch/output"
if ! grep -Eq "$figure" "$scratch/output"; then
    echo "$name has not printed its figure: $figure" >&2
    exit 1
fi
