#!/usr/bin/env bash
# A plugin author's package: installed into a folder of its own, tested, and every plugin used by name.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$PWD/.venv/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# From a copy: building leaves its own files beside the sources.
cp -r examples/eval_toolkit_reviews "$work/source"
"$bin/python" -m pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation \
  --target "$work/site" "$work/source"
export PYTHONPATH=$work/site
(cd "$work/source" && "$bin/python" -m pytest -q -p no:cacheprovider)

cd "$work"
says() { # words, command …: the command succeeds and says the words
  local words=$1
  shift
  "$bin/eval-toolkit" "$@" > said 2> err || { cat said err; echo "failed: $*"; exit 1; }
  grep -q -- "$words" said || { cat said; echo "'$words' is not in: $*"; exit 1; }
}
printf 'id,prompt\nrefund,Ask for a refund.\nvoucher,Ask for a voucher.\n' > seeds.csv

says "of which 0 cannot be used" plugins
says "eval-toolkit-reviews 0.1.0" doctor
says "36 reviews share a template" check --loader reviews --check review_template --no-near
says "praise" evaluate --loader 'reviews{products=["lamp", "clock"]}' --scorer praise \
  --check review_template --on-leakage record --select least_regret --threshold-on train --save rows
says "mean of 3 folds" evaluate --loader 'reviews{products=["kettle", "lamp", "radio"]}' \
  --scorer 'praise{weight=2.0}' --splitter by_product
says "stars_off" graders show stars_off
says "review_stars" tasks show review_stars
says "stars_off_right" run review_stars --model star_counter --grader stars_off --limit 6 --out answers
says "insults" rollout --seeds seeds.csv --tester angry_customer --target 'scripted:Shut up, idiot.' \
  --scorer insults --depth 1 --out rollouts
"$bin/python" -c 'from eval_toolkit.runs import drive
from eval_toolkit_reviews.guesses import StarGuesses
drive(StarGuesses(), "guesses", name="guesses")'
says "star_guesses" plugins kinds
says "stars_off" rescore guesses
"$bin/eval-toolkit" plugins --json > listed.json
"$bin/python" - <<'PY'
import json
told = json.load(open("listed.json"))
kinds = {one["kind"] for one in told["plugins"] if one["distribution"] == "eval-toolkit-reviews"}
assert kinds == set(told["kinds"]), (kinds, set(told["kinds"]))
PY
echo "every plugin of eval-toolkit-reviews works by its name"
